"""Text files as DuckDB reads them line by line: checked, and copied only if need be."""

import gzip
import hashlib
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from backports import zstd

LINE_BYTES = 1 << 23  # of the longest line that is read
_PIECE = 1 << 17  # bytes that are looked at at once
_KEPT_BYTES = 200  # of such a line
_CONTROL = bytes(code for code in range(32) if code not in b"\t\n\r")
_CONTROL_TEXT = {code: f"\\x{code:02x}" for code in (*_CONTROL, 13)}
_BLANK_LINE = re.compile(rb"^[ \t]*\r?$(?=\n)", re.MULTILINE)
_FILLED = re.compile("^.*[^ \t\n].*$", re.MULTILINE)
_PACKED = {".gz": gzip.open, ".zst": zstd.open}


class CleanText(NamedTuple):
    """A file whose lines DuckDB reads as they are: the given one, or a copy."""

    path: Path
    first_line: str
    rows: int  # lines that are not blank
    blanks: bool = True  # whether lines may be blank
    padded: bool = True  # whether cells may be padded with blanks
    quotes: bool = True  # whether there may be quotation marks
    letters: bool = True  # whether e, E or _ may stand in a number
    too_long: tuple[tuple[int, str], ...] = ()  # (line, how it begins) of each too long to be read


def file_digest(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unpacked(path: Path) -> IO[bytes]:
    """The file opened for reading, unpacked if its name ends in .gz or .zst."""
    opened: IO[bytes] = _PACKED.get(path.suffix, open)(path, "rb")  # type: ignore[operator]
    return opened


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """As `unpacked`; ValueError where a packed file turns out to be damaged or cut."""
    try:
        with unpacked(path) as file:
            yield file
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path.name}: not a whole gzip file: {error}") from None
    except zstd.ZstdError as error:
        raise ValueError(f"{path.name}: not a whole zstd file: {error}") from None


def read_whole(path: Path, most: int) -> bytes:
    """The first `most` bytes of the file, unpacked; ValueError as `whole_file`."""
    with whole_file(path) as file:
        return file.read(most)


def plain_name(path: Path) -> str:
    """The name of the file without .gz or .zst."""
    return path.stem if path.suffix in _PACKED else path.name


def checked_text(path: Path) -> CleanText | None:
    """The file itself where it is clean; None where it must be copied.

    A clean file is not packed. It is UTF-8 without byte order mark, control bytes and blank lines,
    and its lines all end alike. Raises ValueError for UTF-16.
    """
    if path.suffix in _PACKED:
        return None
    rows, padded, quotes, letters = 0, False, False, False
    crlf: bool | None = None
    for number, (block, whole) in enumerate(_blocks(path)):
        if number == 0 and block.startswith(b"\xef\xbb\xbf"):
            return None
        seen = _look(block)
        alike = seen.returns == 0 or seen.returns == seen.ends == block.count(b"\r\n")
        if not (whole and alike and _is_utf8(block)) or seen.control or seen.blank_lines:
            return None
        if crlf not in (None, seen.returns > 0):
            return None
        crlf = seen.returns > 0
        rows += seen.ends + (not block.endswith(b"\n"))
        padded = padded or seen.padded
        quotes = quotes or b'"' in block
        letters = letters or seen.letters or b"\\" in block  # an escape of JSON may be one
    with path.open("rb") as file:
        first_line = file.readline().decode().rstrip("\r\n")
    return CleanText(path, first_line, rows, False, padded, quotes, letters)


def copied_text(path: Path, copy: Path) -> CleanText:
    """A clean copy of a file, with the same line numbers.

    In it lines end in LF, an empty line is a blank, bytes that are not UTF-8 and control bytes are
    escapes such as \\xff, and a line of more than 8 MiB is blank and told apart. Raises ValueError
    for a packed file that is not whole, and for UTF-16.
    """
    first_line: str | None = None
    too_long: list[tuple[int, str]] = []
    line, rows = 1, 0
    with copy.open("wb") as target:
        for block, whole in _blocks(path):
            text = _cleaned(block)
            if first_line is None:
                text = text.removeprefix("\ufeff")
                first_line = text.partition("\n")[0]
            if not whole:
                too_long.append((line, text.rstrip("\n")))
                text = " \n"
            line += text.count("\n")
            rows += sum(1 for _ in _FILLED.finditer(text))
            target.write(text.encode())
    return CleanText(copy, first_line or "", rows, too_long=tuple(too_long))


class _Seen(NamedTuple):
    ends: int  # of lines
    returns: int  # carriage returns
    control: bool  # whether there are other control bytes
    blank_lines: bool
    padded: bool  # whether a blank stands beside a comma or the end of a line
    letters: bool  # whether e, E or _ follows a digit or a dot, as in 1e3 and 1_000


def _look(block: bytes) -> _Seen:
    """What is in a block of whole lines. Arrays, because Python's own search is 5 times slower."""
    text = np.frombuffer(b"\n" + block, np.uint8)
    # In pieces that stay in the cache; each begins with the last byte of the one before.
    parts = [_look_at(text[at : at + _PIECE + 1]) for at in range(0, len(text) - 1, _PIECE)]
    ends, returns, control, begins_low, padded, letters = (
        sum(column) for column in zip(*parts, strict=True)
    )
    blank_lines = begins_low > 0 and _BLANK_LINE.search(block) is not None
    return _Seen(ends, returns, control > 0, blank_lines, padded > 0, letters > 0)


def _look_at(text: np.ndarray) -> tuple[int, int, int, int, int, int]:
    """Of the bytes but the first: line ends, carriage returns, control bytes, lines that begin with
    a blank or less, blanks beside a comma or the end of a line, letters in numbers.
    """
    end, low = text == ord("\n"), text <= ord(" ")
    blank = (text == ord(" ")) | (text == ord("\t"))
    edge = end | (text == ord(","))
    ends = np.count_nonzero(end[1:])
    returns = 0
    others = np.count_nonzero(low[1:]) - ends - np.count_nonzero(blank[1:])
    if others:
        back = text == ord("\r")
        edge |= back
        returns = int(np.count_nonzero(back[1:]))
    beside = np.count_nonzero(blank[1:] & edge[:-1]) + np.count_nonzero(blank[:-1] & edge[1:])
    begins = np.count_nonzero(end[:-1] & low[1:])
    lower = text | 0x20  # E as e, _ as the byte 127
    letter = (lower == ord("e")) | (lower == 127)
    number = text - np.uint8(ord(".")) <= ord("9") - ord(".")
    letters = np.count_nonzero(letter[1:] & number[:-1])
    return int(ends), returns, int(others - returns), int(begins), int(beside), int(letters)


def _is_utf8(block: bytes) -> bool:
    if block.isascii():
        return True
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def _cleaned(block: bytes) -> str:
    text = block.decode("utf-8", errors="backslashreplace").replace("\r\n", "\n")
    if len(block.translate(None, _CONTROL + b"\r")) != len(block):
        text = text.translate(_CONTROL_TEXT)
    return re.sub("^$(?=\n)", " ", text, flags=re.MULTILINE)


def _blocks(path: Path) -> Iterator[tuple[bytes, bool]]:
    """The bytes of a file in blocks that end with a line, and True.

    A line that is too long is a block of its own: its beginning, and False.
    """
    with whole_file(path) as file:
        while block := file.read(LINE_BYTES):
            if block.startswith((b"\xff\xfe", b"\xfe\xff")) and file.tell() == len(block):
                raise ValueError(f"{path.name}: UTF-16 text; a log must be UTF-8")
            rest = file.readline(LINE_BYTES + 1)
            start = block.rfind(b"\n") + 1
            if len(block) - start + len(rest) <= LINE_BYTES + 1:
                yield block + rest, True
                continue
            if start:
                yield block[:start], True
            yield (block[start:] + rest)[:_KEPT_BYTES] + b"\n", False
            while rest and not rest.endswith(b"\n"):
                rest = file.readline(LINE_BYTES)
