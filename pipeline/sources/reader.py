"""What a reader is: one file that knows one format."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pipeline.settings import SOURCE_KINDS
from pipeline.sources.intake import Found, Intake
from pipeline.sources.sample import Sample

__all__ = ["Found", "Intake", "Reader", "Sample", "find_reader", "readers"]


class Reader(NamedTuple):
    """A format: how it is recognized and read. Each module of `readers` has one as READER."""

    title: str  # what its users call it
    looks_like: Callable[[Sample], str | None]  # why the sample is of this format, or None
    read: Callable[[Intake], Found]  # ValueError where the files are not what the kind says
    options: Mapping[str, Any] = {}


def find_reader(kind: str) -> Reader:
    """The reader of a kind, which is the name of its module."""
    reader: Reader = importlib.import_module(f"pipeline.sources.readers.{kind}").READER
    return reader


def readers() -> dict[str, Reader]:
    """All readers by kind."""
    return {kind: find_reader(kind) for kind in SOURCE_KINDS}
