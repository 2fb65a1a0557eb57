"""The one decorator for compiled kernels, with a disk cache that notices every edit.

Numba's cache looks at one source file only, and reuses a version compiled without bounds checks
where checks are asked for. So the cache folder is named by a digest of all simulator sources,
the Numba version and the bounds-check flag.
"""

import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import config

_config: Any = config  # its settings are made at run time, unknown to a type checker
_SOURCES = Path(__file__).resolve().parent


def _digest() -> str:
    digest = hashlib.sha256(f"{numba.__version__} {_config.BOUNDSCHECK}".encode())
    for source in sorted(_SOURCES.rglob("*.py")):
        if source.parent.name == "policies":  # rules hold no kernels and call none
            continue
        digest.update(source.relative_to(_SOURCES).as_posix().encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder() -> Path:
    """The folder of the compiled kernels of exactly these sources."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "batchwright" / f"kernels-{_digest()}"


_FOLDER = cache_folder()
_OPTIONS: dict[str, Any] = {"cache": True, "forceinline": True, "_nrt": False}
if not _FOLDER.exists():
    print("Compiling the simulator: once for each version, under a minute.", file=sys.stderr)


def kernel(function: Callable) -> Callable:
    """The function compiled by Numba, kept on disk in `cache_folder()`. It may allocate nothing.

    A state is passed as a tuple of some forty arrays. Counting the references to each at every
    call made the engine thirty times slower (0.45 against 15 million requests/s): `_nrt=False`
    compiles without reference counts, which is safe because kernels only write into arrays that
    the caller holds, and makes an allocation a compile error. `forceinline` saves copying the
    tuple.
    """
    # The locator reads the global setting when it is made: set it for this call alone, so that
    # other users of Numba in the process keep theirs.
    before, _config.CACHE_DIR = _config.CACHE_DIR, str(_FOLDER)
    try:
        return numba.njit(**_OPTIONS)(function)
    finally:
        _config.CACHE_DIR = before
