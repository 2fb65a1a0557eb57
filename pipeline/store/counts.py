"""What became of the rows of a file."""

from typing import NamedTuple


class FileCounts(NamedTuple):
    """What became of the rows of one file; `rows_read` = `rows_kept` + `rows_rejected`."""

    path: str
    sha256: str
    record: str  # one of RECORDS
    rows_read: int
    rows_kept: int
    rows_rejected: int
