"""What the readers of CSV traces share: telling by the header, and admitting file after file."""

from collections.abc import Sequence
from typing import Any

from pipeline.sources.intake import Intake
from pipeline.sources.sample import Sample


def names_columns(sample: Sample, columns: Sequence[str]) -> str | None:
    """Why the sample is the format with these columns, in words; None where one is missing."""
    if not set(columns) <= set(sample.header):
        return None
    return f"its header names {', '.join(columns)}"


def admit_files(
    intake: Intake,
    query: str,
    required: Sequence[str],
    optional: Sequence[str] = (),
    **parameters: Any,
) -> list[str]:
    """The rows of each file are in the tables; the names of all columns met are returned.

    The parameters are the staging query's, and `origin_us`. Raises ValueError for a file without
    the required columns.
    """
    met: list[str] = []
    for file in intake.files(".csv", ".txt"):
        header = intake.csv(file, required=required, optional=optional)
        intake.admit(query, file, **parameters)
        met += [name for name in header if name not in met]
    return met
