"""Writing files so that a reader sees the old one or the new one, never half."""

import dataclasses
import json
import math
import os
import tempfile
import types
import typing
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np


def write_atomically(path: Path, content: bytes) -> None:
    """`path` holds `content`; written beside it first, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(content)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def check_writable(field: str, folder: Path) -> None:
    """The folder is there; ValueError, naming the field, where no file can be written into it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ValueError(
            f"{field} = {str(folder)!r}: cannot be written: {error.strerror}"
        ) from None


def write_json(path: Path, value: Any) -> None:
    """`path` holds the value as indented JSON; ValueError where a number is not finite."""
    text = json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False)
    write_atomically(path, (text + "\n").encode())


def plain(value: Any) -> Any:
    """Named tuples and dataclasses as dicts, NaN as None, all the way down: what JSON can hold."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def from_plain(schema: Any, value: Any) -> Any:
    """The inverse of `plain`: values of the types that `schema` hints at, null as NaN.

    Takes named tuples, dataclasses, unions of these (told apart by their fields), tuples, lists,
    dictionaries, enumerations and simple values. Raises ValueError for what is no such thing.
    """
    origin, arguments = typing.get_origin(schema), typing.get_args(schema)
    if origin in (typing.Union, types.UnionType):
        return _one_of(arguments, value)
    if hasattr(schema, "_fields") or dataclasses.is_dataclass(schema):
        hints = typing.get_type_hints(schema)
        if not isinstance(value, dict) or set(value) != set(hints):
            raise ValueError(f"{schema.__name__}: needs {', '.join(hints)}")
        return schema(**{name: from_plain(hints[name], value[name]) for name in hints})
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(from_plain(arguments[0], item) for item in value)
    if origin is tuple:
        return tuple(from_plain(a, item) for a, item in zip(arguments, value, strict=True))
    if origin is list:
        return [from_plain(arguments[0], item) for item in value]
    if origin is dict:
        return {key: from_plain(arguments[1], item) for key, item in value.items()}
    if schema is float:
        return math.nan if value is None else float(value)
    if isinstance(schema, type) and issubclass(schema, Enum):
        return schema(value)
    return value


def _one_of(choices: tuple[Any, ...], value: Any) -> Any:
    if value is None:
        return None if type(None) in choices else math.nan
    named = [
        choice
        for choice in choices
        if hasattr(choice, "_fields") or dataclasses.is_dataclass(choice)
    ]
    for choice in named:
        if isinstance(value, dict) and set(value) == set(typing.get_type_hints(choice)):
            return from_plain(choice, value)
    others = [choice for choice in choices if choice is not type(None) and choice not in named]
    if not others:
        raise ValueError(f"{value!r}: must be one of {', '.join(c.__name__ for c in named)}")
    return from_plain(others[0], value)
