"""JSON as logs hold it: one value a line, or one document that a file is."""

import gzip
import json
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from backports import zstd

from pipeline.sources.intake import Intake
from pipeline.sources.sample import Sample
from pipeline.store.text import LINE_BYTES, unpacked

_PROBED = 3  # lines; one of them may be damaged


def is_json_lines(file: Path) -> bool:
    """Whether the file has a JSON object in each line, rather than being one document.

    The file may begin with a damaged line. One that begins with `[` is a document. Raises
    ValueError for a packed file that is not whole.
    """
    for line in islice(_lines(file), _PROBED):
        if line.startswith("["):
            return False
        if isinstance(_parsed(line), dict):
            return True
    return False


def first_object(sample: Sample) -> dict[str, Any]:
    """The JSON object of the first line, or that the sample is; {} where there is none."""
    first = sample.first_json
    return first if isinstance(first, dict) else {}


def json_values(intake: Intake, file: Path) -> Iterator[Any]:
    """The JSON value of each line, or the one of the file.

    A line that does not parse is returned as its text. Raises ValueError where the file is
    neither, and for a packed one that is not whole.
    """
    if not is_json_lines(file):
        yield intake.json(file)
        return
    for line in _lines(file):
        value = _parsed(line)
        yield line if value is None else value


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _lines(file: Path) -> Iterator[str]:
    """The lines that are not blank; of one that is too long, its beginning."""
    try:
        with unpacked(file) as opened:
            while line := opened.readline(LINE_BYTES):
                text = line.decode("utf-8", errors="backslashreplace").removeprefix("\ufeff")
                if text.strip():
                    yield text.strip()
                while line and not line.endswith(b"\n"):
                    line = opened.readline(LINE_BYTES)
    except (gzip.BadGzipFile, EOFError, zlib.error, zstd.ZstdError) as error:
        raise ValueError(f"{file.name}: not a whole packed file: {error}") from None
