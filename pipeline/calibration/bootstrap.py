"""Intervals by resampling blocks of time: batches near in time share slow spells."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.stats import t

from pipeline.validation.intervals import expanded_tail
from simulator.checks import check

_MOST_CELLS = 2048
_LONGEST_PAUSE = 100  # median gaps: a longer pause of the log counts as that long
_LEAST_ROWS = 20
_LENGTHENED = 2  # blocks are so many times what is best for the variance


class Bounds(NamedTuple):
    """A confidence interval; NaN where the log does not tell."""

    low: float
    high: float

    @classmethod
    def unknown(cls) -> "Bounds":
        """No interval: the log does not tell."""
        return cls(float("nan"), float("nan"))


class Blocks(NamedTuple):
    """A log cut into cells of equal time; a block is `block_cells` consecutive ones."""

    cell: np.ndarray  # [n] of each row of the log
    cells: int
    block_cells: int
    cell_s: float

    @property
    def number(self) -> int:
        """How many blocks the log is long: what an interval rests on."""
        return math.ceil(self.cells / self.block_cells)

    @property
    def block_s(self) -> float:
        """The length of a block in seconds."""
        return self.block_cells * self.cell_s

    def sums(self, columns: np.ndarray) -> np.ndarray:
        """Sums over the rows of each cell, `[cells, q]`, of `columns [n, q]`."""
        found = [np.bincount(self.cell, column, self.cells) for column in columns.T]
        return np.stack(found, axis=1)

    def grouped_sums(self, group: np.ndarray, groups: int, column: np.ndarray) -> np.ndarray:
        """Sums over the rows of each cell and group, `[cells, groups]`, of `column [n]`."""
        place = self.cell * groups + group
        return np.bincount(place, column, self.cells * groups).reshape(self.cells, groups)

    def resample(self, resamples: int, generator: np.random.Generator) -> np.ndarray:
        """How often each cell is drawn, `[resamples, cells]`: blocks from anywhere, in a circle.

        Their number makes a resample as long as the log, rounded up to whole blocks; so what is
        computed from it must not depend on how many rows it holds. Circular block bootstrap:
        Politis and Romano (1992).
        """
        start = generator.integers(0, self.cells, (resamples, self.number))
        row = np.arange(resamples)[:, None]
        change = np.zeros((resamples, self.cells + self.block_cells))
        np.add.at(change, (row, start), 1.0)
        np.add.at(change, (row, start + self.block_cells), -1.0)
        drawn = np.cumsum(change, axis=1)
        times, over = drawn[:, : self.cells], drawn[:, self.cells :]
        times[:, : over.shape[1]] += over
        return times


def cut_into_blocks(instant_s: np.ndarray, influence: np.ndarray) -> Blocks:
    """Blocks long enough for the correlation in time of `influence [n, q]`, one column a figure.

    The influence of a row on a figure is what it adds to its error, such as a relative residual.
    The log is cut into cells, one for each four rows, 2048 at most; the block is the longest that
    the rule of Politis and White (2004; corrected by Patton, Politis and White, 2009) asks for in
    the sums of a column by cell, and twice that: the rule has the least squared error of a
    variance, which leaves it too small on average, and an interval suffers from that the most.
    Pauses of more than 100 median gaps are shortened to that.

    Arguments: `instant_s [n]` s, in any order. Raises ValueError below 20 rows and where all rows
    are of one instant.
    """
    check(len(instant_s) >= _LEAST_ROWS, "rows", len(instant_s), f"needs at least {_LEAST_ROWS}")
    check(bool(np.isfinite(instant_s).all()), "instant_s", "nan", "must be finite")
    order = np.argsort(instant_s, kind="stable")
    gap_s = np.diff(instant_s[order])
    check(bool((gap_s > 0).any()), "instant_s", float(instant_s[0]), "must differ between rows")
    clock_s = np.cumsum(np.minimum(gap_s, _LONGEST_PAUSE * np.median(gap_s[gap_s > 0])))
    cells = min(_MOST_CELLS, max(_LEAST_ROWS // 2, len(instant_s) // 4))
    cell_s = float(clock_s[-1]) / cells
    cell = np.zeros(len(instant_s), int)
    cell[order[1:]] = np.minimum((clock_s / cell_s).astype(int), cells - 1)
    whole = Blocks(cell, cells, 1, cell_s)
    sums = whole.sums(influence - influence.mean(0))
    longest = _LENGTHENED * max(block_length(column) for column in sums.T)
    return whole._replace(block_cells=min(longest, cells // 3))


def block_length(series: np.ndarray) -> int:
    """Length of the blocks for the mean of `series [N]`, by the rule of Politis and White.

    `b = (2 G^2 / D)^(1/3) N^(1/3)` with `G = sum lambda(k/M) |k| R(k)`, `D = 4/3 (sum lambda(k/M)
    R(k))^2` over the lags -M .. M; lambda is the flat-top window, R the autocovariance, and M twice
    the lag after which the next correlations are all within chance. At most `min(3 sqrt N, N/3)`.
    """
    count = len(series)
    longest = math.ceil(min(3.0 * math.sqrt(count), count / 3.0))
    centered = series - series.mean()
    quiet = max(5, math.ceil(math.sqrt(math.log10(count))))
    lags = min(math.ceil(math.sqrt(count)) + quiet, count - 1)
    covariance = np.array([centered[: count - k] @ centered[k:] for k in range(lags + 1)]) / count
    if covariance[0] <= 0.0:
        return 1
    chance = 2.0 * math.sqrt(math.log10(count) / count)
    loud = np.flatnonzero(np.abs(covariance[1:] / covariance[0]) > chance) + 1
    ends = np.concatenate([[0], loud])
    after = np.diff(np.append(ends, lags + quiet + 1))
    bandwidth = min(2 * max(int(ends[np.argmax(after > quiet)]), 1), lags)
    lag = np.arange(1, bandwidth + 1)
    weighted = np.minimum(1.0, 2.0 * (1.0 - lag / bandwidth)) * covariance[1 : bandwidth + 1]
    slope = 2.0 * float((weighted * lag).sum())
    spectrum = float(covariance[0] + 2.0 * weighted.sum())
    if spectrum <= 0.0:
        return 1
    best = (2.0 * slope**2 / (4.0 / 3.0 * spectrum**2)) ** (1 / 3) * count ** (1 / 3)
    return int(min(max(math.ceil(best), 1), longest))


def percentile_bounds(replicates: np.ndarray, confidence: float, blocks: int) -> Bounds:
    """The percentile interval of `replicates [R]`, expanded for few blocks (Hesterberg, 2015)."""
    if blocks < 2:
        return Bounds.unknown()
    tail = max(expanded_tail((1.0 - confidence) / 2.0, blocks), 1.0 / (len(replicates) + 1))
    low, high = np.quantile(replicates, [tail, 1.0 - tail])
    return Bounds(float(low), float(high))


def log_bounds(replicates: np.ndarray, estimate: float, confidence: float, blocks: int) -> Bounds:
    """The interval of a positive figure that resamples find too small, as they do a spread.

    Student's t with the spread of the log of `replicates [R]`, blocks - 1 degrees of freedom, about
    the log of the estimate less the bias seen in the resamples (Davison and Hinkley, 1997, 5.2).
    The figure itself where it does not vary.
    """
    if blocks < 2:
        return Bounds.unknown()
    if not (estimate > 0.0 and (replicates > 0.0).all()):
        return percentile_bounds(replicates, confidence, blocks)
    logs = np.log(replicates)
    center = 2.0 * math.log(estimate) - float(logs.mean())
    reach = float(t.ppf(0.5 + confidence / 2.0, blocks - 1) * logs.std(ddof=1))
    return Bounds(math.exp(center - reach), math.exp(center + reach))


def block_bootstrap(
    blocks: Blocks,
    columns: np.ndarray,
    statistic: Callable[[np.ndarray], np.ndarray],
    generator: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = 300,
) -> Bounds:
    """The interval of a figure that follows from sums over the log, by its blocks.

    `statistic` turns sums `[R, q]` of `columns [n, q]` into a figure `[R]`; it must not depend on
    the number of rows, as a mean or a ratio does not.
    """
    check_bootstrap(confidence, resamples)
    sums = blocks.resample(resamples, generator) @ blocks.sums(columns)
    return percentile_bounds(statistic(sums), confidence, blocks.number)


def check_bootstrap(confidence: float, resamples: int) -> None:
    """Raises ValueError unless an interval of that confidence can be had from the resamples."""
    check(0.0 < confidence < 1.0, "confidence", confidence, "must be between 0 and 1")
    least = math.ceil(2.0 / (1.0 - confidence))
    check(resamples >= least, "resamples", resamples, f"must be at least {least}")
