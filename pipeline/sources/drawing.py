"""Requests drawn from traces that state counts or rates only, and the text rows of such traces."""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import numpy as np
from backports import zstd

from pipeline.store.text import LINE_BYTES, unpacked
from simulator.checks import check

SPREADS = ("uniform", "exponential", "equidistant")


def text_rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    """(line, cells) of each row of a CSV file, .gz and .zst unpacked; blank lines are no rows.

    Raises ValueError for a packed file that is not whole, a line that is too long and a cell that
    the csv module does not take.
    """
    try:
        with unpacked(file) as packed:
            text = io.TextIOWrapper(packed, "utf-8-sig", errors="backslashreplace", newline="")
            rows = csv.reader(_lines(text, file.name))
            for row in rows:
                if any(cell.strip() for cell in row):
                    yield rows.line_num, [cell.strip() for cell in row]
    except (gzip.BadGzipFile, EOFError, zlib.error, zstd.ZstdError) as error:
        raise ValueError(f"{file.name}: not a whole packed file: {error}") from None
    except csv.Error as error:
        raise ValueError(f"{file.name}: not readable as CSV: {error}") from None


def _lines(text: TextIO, name: str) -> Iterator[str]:
    while line := text.readline(LINE_BYTES):
        check(len(line) < LINE_BYTES, f"{name}: line", line[:50], "is of more than 8 MiB")
        yield line


def spread_within(
    counts: np.ndarray, width_us: int, spread: str, generator: np.random.Generator
) -> np.ndarray:
    """Sorted arrival times `[sum(counts)]` us, `counts[i]` of them in window i of `width_us`.

    uniform: independent and uniform in the window, as a Poisson process given its count.
    equidistant: at (k + 1/2) / n of the window. exponential: the first at the window's start, then
    n - 1 of n exponential gaps that are scaled to fill the window (one request sits at each start,
    as load generators replay such traces). Counts say nothing of what is inside a window, so none
    of the three can be checked against the trace.
    """
    windows = np.repeat(np.arange(len(counts)), counts)
    first = np.repeat(np.cumsum(counts) - counts, counts)  # index of each window's first request
    if spread == "equidistant":
        inside = (np.arange(len(windows)) - first + 0.5) / np.repeat(counts, counts)
    elif spread == "uniform":
        inside = generator.random(len(windows))
    else:
        ends = np.cumsum(generator.standard_exponential(len(windows)))
        starts = np.concatenate(([0.0], ends[:-1])) if len(ends) else ends
        last = np.repeat(np.cumsum(counts) - 1, counts)
        inside = (starts - starts[first]) / (ends[last] - starts[first])
    inside_us = np.minimum(np.floor(inside * width_us).astype(np.int64), width_us - 1)
    return np.sort(windows * width_us + inside_us)


def filled_arrivals(
    family: str, shape: float, count: int, width_s: float, generator: np.random.Generator
) -> np.ndarray:
    """Arrival times `[count]` s in a window of `width_s`: count + 1 gaps scaled to fill it.

    Gaps are Gamma or Weibull of the given shape. For Gamma this is the renewal process given its
    count (its gaps are Dirichlet shares of the window); for Weibull it is an approximation. Without
    the count, a process of the stated rate has it in the mean only and misses it by far where the
    cv is large, and the rates of such traces are counts that were measured.
    """
    draw = generator.gamma if family == "Gamma" else generator.weibull
    total = 0.0
    while total == 0.0:  # gaps of a shape near 0 may all be below the smallest float
        ends = np.cumsum(draw(shape, size=count + 1))
        total = float(ends[-1])
    return np.minimum(ends[:count] / total * width_s, np.nextafter(width_s, 0))
