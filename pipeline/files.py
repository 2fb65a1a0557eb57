"""Writing files so that a reader sees the old one or the new one, never half."""

import json
import math
import os
import tempfile
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
    """Named tuples as dicts and NaN as None, all the way down: what JSON can hold."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
