"""What a clock of finite resolution tells of arrivals: gaps in ticks, or counts per tick.

All models are judged on the same observations, so that their likelihoods can be compared.
"""

import math
from typing import NamedTuple

import numpy as np

from simulator.checks import check

GAPS, COUNTS = "gaps", "counts"
_MOST_PER_TICK = 4.0  # arrivals; beyond it nearly all gaps are 0 ticks and say nothing
_EXACT_TICKS = 200  # gaps of at most that many ticks keep a cell each
_CELL_WIDTH = 0.005  # relative, of the cells of longer gaps


class Observed(NamedTuple):
    """N observations of R arrivals in time order: gaps, or counts in bins of one tick.

    With a resolution r > 0 a gap is a whole number of ticks of length r; its probability is that
    of two instants which lie that far apart once each is rounded. At r = 0 a gap is in seconds and
    has a probability density. Equal or nearly equal amounts share a cell of index `cell`: 0.5 %
    wide and only where gaps are above 200 ticks (or seconds at r = 0, at any length).
    """

    kind: str  # GAPS or COUNTS
    resolution_s: float  # r; 0 where instants are exact
    duration_s: float
    arrivals: int  # R
    amount: np.ndarray  # [N] ticks, seconds (r = 0) or counts
    instant_s: np.ndarray  # [N] s: the arrival that ends the gap, the middle of the bin
    cell: np.ndarray  # [N] index of the cell of each amount
    cell_amount: np.ndarray  # [C] mean amount of the cell

    @property
    def unit_s(self) -> float:
        """Seconds per unit of a gap."""
        return self.resolution_s or 1.0

    def until(self, end_s: float) -> "Observed":
        """The observations whose instant lies before `end_s`; the cells stay."""
        count = int(np.searchsorted(self.instant_s, end_s))
        first = 0 if self.kind == COUNTS else 1  # the first arrival ends no gap
        counted = self.amount[:count].sum() if self.kind == COUNTS else count
        return self._replace(
            duration_s=end_s,
            arrivals=int(counted) + first,
            amount=self.amount[:count],
            instant_s=self.instant_s[:count],
            cell=self.cell[:count],
        )

    def counted(self) -> "Observed":
        """Gaps told again as counts per tick, without the first arrival, which ends no gap."""
        return _counts(self.instant_s, self.duration_s, self.resolution_s)

    def latest(self, count: int) -> "Observed":
        """The last `count` observations, all instants as they are; all if there are fewer."""
        first = max(len(self.amount) - count, 0)
        return self._replace(
            amount=self.amount[first:], instant_s=self.instant_s[first:], cell=self.cell[first:]
        )

    def blocks(self, start_s: float, count: int) -> np.ndarray:
        """Number of the block `[N]` of each observation; -1 before `start_s`.

        The time from `start_s` to the end is cut into `count` blocks of equal length.
        """
        share = (self.instant_s - start_s) / (self.duration_s - start_s)
        return np.where(share < 0, -1, np.minimum(share * count, count - 1)).astype(np.int64)

    def cell_counts(self, group: np.ndarray, groups: int) -> np.ndarray:
        """How often each cell occurs in each group `[G, C]`; `group [N]`, -1 for none."""
        cells = len(self.cell_amount)
        inside = group >= 0
        place = group[inside] * cells + self.cell[inside]
        return np.bincount(place, minlength=groups * cells).reshape(groups, cells).astype(float)


def observe(arrival_s: np.ndarray, duration_s: float, resolution_s: float = 0.0) -> Observed:
    """The observations of ascending instants `arrival_s [R]` in [0, duration_s], at least two.

    Gaps where a tick holds at most four arrivals on average, counts per tick beyond. With
    `resolution_s` 0 and equal instants, the resolution is the smallest gap above 0: instants that
    coincide have no density. Raises ValueError for what cannot be such instants.
    """
    check_instants(arrival_s, duration_s, resolution_s)
    check(len(arrival_s) >= 2, "len(arrival_s)", len(arrival_s), "a gap needs two arrivals")
    gaps_s = np.diff(arrival_s)
    if resolution_s == 0.0 and not gaps_s.all():
        above = gaps_s[gaps_s > 0.0]
        check(len(above) > 0, "arrival_s", float(arrival_s[0]), "all arrivals are at one instant")
        resolution_s = float(above.min())
    if len(arrival_s) * resolution_s > _MOST_PER_TICK * duration_s:
        return _counts(arrival_s, duration_s, resolution_s)
    amount = gaps_s
    if resolution_s > 0.0:
        ticks = np.rint((arrival_s - arrival_s[0]) / resolution_s)
        amount = np.diff(ticks)
    return _with_cells(GAPS, resolution_s, duration_s, arrival_s, amount, arrival_s[1:])


def check_instants(arrival_s: np.ndarray, duration_s: float, resolution_s: float) -> None:
    """Raises ValueError unless these are ascending instants in [0, duration_s]."""
    holds = math.isfinite(duration_s) and duration_s > 0
    check(holds, "duration_s", duration_s, "must be positive and finite")
    holds = math.isfinite(resolution_s) and 0 <= resolution_s < duration_s
    check(holds, "resolution_s", resolution_s, f"must be in [0, {duration_s:g}), the duration")
    if len(arrival_s) == 0:
        return
    check(bool(np.isfinite(arrival_s).all()), "arrival_s", arrival_s, "must be finite")
    check(bool((np.diff(arrival_s) >= 0).all()), "arrival_s", arrival_s, "must be ascending")
    for instant_s in (float(arrival_s[0]), float(arrival_s[-1])):
        holds = 0 <= instant_s <= duration_s
        check(holds, "arrival_s", instant_s, f"must be in [0, {duration_s:g}], the duration")


def _counts(arrival_s: np.ndarray, duration_s: float, resolution_s: float) -> Observed:
    # Ticks are counted from a rounded instant: a bin holds what was rounded to its middle.
    tick = np.rint((arrival_s - arrival_s[0]) / resolution_s).astype(np.int64)
    first = -math.floor(arrival_s[0] / resolution_s)
    bins = max(int(tick[-1]) - first + 1, math.floor(duration_s / resolution_s))
    amount = np.bincount(tick - first, minlength=bins).astype(float)
    instant_s = np.minimum((np.arange(bins) + 0.5) * resolution_s, duration_s)
    return _with_cells(COUNTS, resolution_s, duration_s, arrival_s, amount, instant_s)


def _with_cells(
    kind: str,
    resolution_s: float,
    duration_s: float,
    arrival_s: np.ndarray,
    amount: np.ndarray,
    instant_s: np.ndarray,
) -> Observed:
    key = amount.astype(np.int64)
    if kind == GAPS:
        base = _EXACT_TICKS if resolution_s > 0.0 else 1e-12
        wide = amount > base if resolution_s > 0.0 else np.ones(len(amount), bool)
        key[wide] = _EXACT_TICKS + 1 + np.log(amount[wide] / base) / _CELL_WIDTH
    _, cell = np.unique(key, return_inverse=True)
    cell_amount = np.bincount(cell, weights=amount) / np.bincount(cell)
    return Observed(
        kind, resolution_s, duration_s, len(arrival_s), amount, instant_s, cell, cell_amount
    )
