"""Which reader fits a file or folder, and why."""

from pathlib import Path
from typing import NamedTuple

from pipeline.sources.reader import readers
from pipeline.sources.sample import Sample
from simulator.checks import check

FILES = 20  # of a folder that are looked at
_SHOWN = 80  # characters of a first line
# How files begin that are no text, and where that stands in them.
_BINARY = (
    (b"PAR1", 0, "a Parquet file; the reader of Parquet is serving_log, which reads a folder"),
    (b"ARROW1", 0, "an Arrow file; write it as CSV or JSON lines"),
    (b"SQLite format 3", 0, "an SQLite database; write its table as CSV or JSON lines"),
    (b"DUCK", 8, "a DuckDB database; write its table as CSV or JSON lines"),
    (b"PK\x03\x04", 0, "a zip archive; unpack it first"),
    (b"Rar!", 0, "a RAR archive; unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", 0, "a 7z archive; unpack it first"),
    (b"ustar", 257, "a tar archive; unpack it first"),
    (b"\xfd7zXZ", 0, "packed with xz; unpack it first"),
    (b"BZh", 0, "packed with bzip2; unpack it first"),
    (
        b"\x1f\x8b",
        0,
        "a gzip file whose name does not end in .gz, that is not whole or holds no text",
    ),
    (b"\x28\xb5\x2f\xfd", 0, "a zstd file whose name does not end in .zst, or that is not whole"),
    (b"\xff\xfe", 0, "UTF-16 text; a log must be UTF-8"),
    (b"\xfe\xff", 0, "UTF-16 text; a log must be UTF-8"),
    (b"\x80", 0, "binary, a Python pickle perhaps, which can run code and is not read"),
)


class Look(NamedTuple):
    """What a look at a file or folder tells."""

    fits: dict[str, str]  # the kinds that it looks like, each with the reason
    seen: str  # what was looked at, where no kind fits


def fits(path: Path) -> dict[str, str]:
    """The kinds that a file or folder looks like, each with the reason."""
    return look(path).fits


def look(path: Path) -> Look:
    """What a file or folder looks like; of a folder that no reader knows as one, its files.

    Raises OSError where the path cannot be read, and ValueError where it is a device or a pipe.
    """
    rule = "is neither a file nor a folder"
    check(path.is_file() or path.is_dir() or not path.exists(), "path", str(path), rule)
    if not path.is_dir():
        with path.open("rb") as file:  # an error here names the path
            start = file.read(262)
        sample = Sample(path)
        return Look(_fits(sample), _seen(sample, start))
    sample = Sample(path)
    as_folder = _fits(sample)
    if as_folder:
        return Look(as_folder, "")
    return _look_inside(path, [name for name in sample.names if not name.startswith(".")])


def _look_inside(folder: Path, names: list[str]) -> Look:
    """The kinds of the first files of a folder, each with the first file that has it."""
    found: dict[str, str] = {}
    for name in names[:FILES]:
        for kind, reason in _fits(Sample(folder / name)).items():
            found.setdefault(kind, f"{name}: {reason}")
    if not names:
        return Look(found, "a folder without files")
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return Look(found, f"a folder of files that no reader knows: {', '.join(names[:3])}{more}")


def _fits(sample: Sample) -> dict[str, str]:
    reasons = {kind: reader.looks_like(sample) for kind, reader in readers().items()}
    return {kind: reason for kind, reason in reasons.items() if reason is not None}


def _seen(sample: Sample, start: bytes) -> str:
    """What a file is that no reader knows, in words."""
    if not start:
        return "an empty file"
    if not sample.lines:
        for mark, offset, words in _BINARY:
            if start[offset:].startswith(mark):
                return words
        blank = not start.strip()
        return "blank lines only" if blank else f"no text: it begins with {start[:8].hex(' ')}"
    first = sample.lines[0]
    more = " .." if len(first) > _SHOWN else ""
    suffix = Path(sample.name).suffix or "no suffix"
    return f"text ({suffix}) whose first line is {first[:_SHOWN]!r}{more}"


def ambiguous(found: dict[str, str]) -> str:
    """What is wrong with a path that several readers know."""
    return "several readers fit, set the kind: " + "; ".join(
        f"{kind} ({reason})" for kind, reason in found.items()
    )


def detect(path: Path, key: str) -> str:
    """The one kind that fits; ValueError, naming the configuration key, where it is not one."""
    looked = look(path)
    rule = f"no reader knows this: {looked.seen}; kinds are {', '.join(readers())}"
    check(bool(looked.fits), key, path.name, rule)
    check(len(looked.fits) == 1, key, path.name, ambiguous(looked.fits))
    return next(iter(looked.fits))
