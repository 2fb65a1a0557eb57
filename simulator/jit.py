"""The decorators for compiled kernels, with a disk cache that notices every edit.

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
import numpy as np
from numba.core import config

_config: Any = config  # its settings are made at run time, unknown to a type checker
_SOURCES = Path(__file__).resolve().parent
# What uses the engine, so that no kernel can depend on it.
_WITHOUT_KERNELS = {
    *("policies", "reference", "environment.py", "rollout.py", "metrics.py"),
    *("windows.py", "gymnasium_env.py"),
}


def _digest() -> str:
    digest = hashlib.sha256(f"{numba.__version__} {_config.BOUNDSCHECK}".encode())
    for source in sorted(_SOURCES.rglob("*.py")):
        if source.relative_to(_SOURCES).parts[0] in _WITHOUT_KERNELS:
            continue
        digest.update(source.relative_to(_SOURCES).as_posix().encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder() -> Path:
    """The folder of the compiled kernels of exactly these sources."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "batchwright" / f"kernels-{_digest()}"


# A whole number that is neither narrow nor, to Numba, a literal: it would compile every callee once
# more for each of those. (Untyped, for to a type checker it is no int.)
int64: Any = np.int64
_FOLDER = cache_folder()
_OPTIONS: dict[str, Any] = {"_nrt": False, "error_model": "numpy", "no_cfunc_wrapper": True}
_INNER: dict[str, Any] = {"no_cpython_wrapper": True}
if not _FOLDER.exists():
    print("Compiling the simulator: once for each version, under a minute.", file=sys.stderr)


def kernel(function: Callable) -> Callable:
    """The function compiled for calls from other kernels only, and put in line there.

    `_nrt=False` compiles without reference counts: counting those of some ninety arrays at every
    call made the engine thirty times slower. It is safe because kernels only write into arrays that
    the caller holds, and makes an allocation a compile error.
    """
    return _compiled(function, **_INNER, forceinline=True)


def single_kernel(function: Callable) -> Callable:
    """A kernel with one caller, of which it becomes a part before that is compiled."""
    return _compiled(function, inline="always")


def rare_kernel(function: Callable) -> Callable:
    """A kernel that is called, for what seldom happens: one body compiles faster than many."""
    return _compiled(function, **_INNER)


def entry_kernel(function: Callable) -> Callable:
    """The function compiled for calls from Python."""
    return _compiled(function, cache=True)


def _compiled(function: Callable, **options: Any) -> Callable:
    # The locator reads the global setting when it is made: set it for this call alone, so that
    # other users of Numba in the process keep theirs.
    before, _config.CACHE_DIR = _config.CACHE_DIR, str(_FOLDER)
    try:
        return numba.njit(**_OPTIONS, **options)(function)
    finally:
        _config.CACHE_DIR = before
