"""What holds for every test: checked array bounds in kernels, one thread, no telemetry."""

import os

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Sets the environment before anything imports NumPy or Numba.

    A kernel reads garbage at a bad index unless bounds checks were compiled in. Benchmarks measure
    what users run, without them.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("DVC_NO_ANALYTICS", "1")
    if config.option.markexpr != "benchmark":
        os.environ.setdefault("NUMBA_BOUNDSCHECK", "1")
