"""A look at the beginning of a file, from which readers tell whether it is theirs."""

import csv
import json
from functools import cached_property
from pathlib import Path
from typing import Any

from pipeline.store.text import plain_name, unpacked

HEAD_BYTES = 1 << 16


class Sample:
    """What can be seen of a file or folder at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = plain_name(path)  # without .gz or .zst
        self.names: tuple[str, ...] = ()  # of the files in a folder
        if path.is_dir():
            self.names = tuple(sorted(file.name for file in path.iterdir() if file.is_file()))
        self.head = "" if path.is_dir() else _head(path)

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the head that are not blank."""
        return [line for line in self.head.splitlines() if line.strip()]

    @cached_property
    def header(self) -> list[str]:
        """The cells of the first line, split at commas."""
        return [cell.strip() for cell in next(csv.reader(self.lines[:1]), [])]

    @cached_property
    def first_json(self) -> Any:
        """The JSON value of the first line, or of the whole head; None where there is none."""
        for text in (*self.lines[:1], self.head):
            try:
                return json.loads(text)
            except (ValueError, RecursionError):
                continue
        return None

    @cached_property
    def json_text(self) -> bool:
        """Whether the text begins as a JSON object or array does."""
        return self.head.lstrip()[:1] in ("{", "[")


def _head(path: Path) -> str:
    """The first 64 KiB of text, without a last line that is cut; "" where it is no text."""
    try:
        with unpacked(path) as file:
            head = file.read(HEAD_BYTES)
    except (OSError, EOFError, ValueError):
        return ""
    except Exception as error:  # zstd and zlib have errors of their own
        if type(error).__name__ not in ("ZstdError", "error"):
            raise
        return ""
    if b"\x00" in head:
        return ""
    text = head.decode("utf-8", errors="backslashreplace").removeprefix("\ufeff")
    if len(head) == HEAD_BYTES and "\n" in text:
        text = text[: text.rfind("\n") + 1]
    return text
