"""The arrivals of a source: order in the file, ties, duplicates, gaps and the clock's step."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import polars as pl

from pipeline.quality.resolution import StepFinder

BLOCK = 1_000_000  # rows that are in memory at once
_GAPS = 5  # that are named
_RARE = 0.99  # share of Poisson logs whose longest gap is shorter than the limit
# Where a row stood, and what follows from its times.
_NO_FACTS = ("source", "file", "line", "queue_origin", "service_origin")


class Gap(NamedTuple):
    """A time without arrivals."""

    start_us: int
    length_us: int


class Gaps(NamedTuple):
    """The longest gaps, and what they would be if arrivals were Poisson at the mean rate."""

    longest: tuple[Gap, ...]
    mean_us: float
    poisson_longest_us: float  # 99 % of such logs have no longer gap
    beyond_poisson: int  # gaps that are longer


class Order(NamedTuple):
    """How the arrivals of a source follow one another."""

    rows: int
    first_us: int
    last_us: int
    inversions: int  # rows that a later line of their file arrived before
    distinct_instants: int
    ties: int  # rows that arrive at the very instant of the one before
    most_at_once: int
    duplicates: int  # rows that equal another but for their line
    step_us: int | None  # of the clock, None where the rows are too few to tell
    gaps: Gaps


def order_of(requests: pl.LazyFrame) -> Order | None:
    """The order of the canonical `requests` of one source; None without rows.

    They are sorted by arrival, file and line. Read in blocks from the end to the start: a row is an
    inversion where one that arrived after it stands in a line above it, so that a running minimum
    of lines tells, and nothing is sorted.
    """
    ends = requests.select(
        pl.len().alias("rows"),
        pl.col("arrival_us").min().alias("first"),
        pl.col("arrival_us").max().alias("last"),
    )
    rows, first_us, last_us = ends.collect(engine="streaming").row(0)
    if rows == 0:
        return None
    mean_us = (last_us - first_us) / max(rows - 1, 1)
    limit_us = poisson_longest_us(mean_us, rows - 1)
    inversions, ties = _Inversions(), _Ties()
    repeated, gaps, steps = _Duplicates(requests), _Gaps(limit_us), StepFinder(rows)
    for start, block in _backward(requests.select("arrival_us", "file", "line"), rows):
        arrival_us = block["arrival_us"].to_numpy()
        inversions.see(block["file"].to_numpy(), block["line"].to_numpy())
        repeated.see(start, arrival_us)
        ties.see(arrival_us)
        gaps.see(arrival_us)
        steps.see(arrival_us)
    return Order(
        rows,
        first_us,
        last_us,
        inversions.count,
        ties.distinct,
        rows - ties.distinct,
        ties.most,
        repeated.count,
        steps.step_us(ties.distinct),
        Gaps(tuple(gaps.longest), mean_us, limit_us, gaps.beyond),
    )


def poisson_longest_us(mean_us: float, gaps: int) -> float:
    """What the longest of so many exponential gaps exceeds with probability 0.01 only.

    (1 - exp(-x / mean))^n = 0.99; 0 without gaps.
    """
    if gaps <= 0:
        return 0.0
    return -mean_us * math.log(-math.expm1(math.log(_RARE) / gaps))


def distinct_before_spread(requests: pl.LazyFrame, width_us: int, phase_us: int) -> int:
    """How many instants there were before arrivals were spread over `width_us`.

    `phase_us` is the instant of time 0. Holds where the clock's step was the width, from 0.
    """
    window = (pl.col("arrival_us") + phase_us % width_us) // width_us
    found = requests.select(window.n_unique()).collect(engine="streaming")
    return int(found.item())


def _backward(requests: pl.LazyFrame, rows: int) -> Iterator[tuple[int, pl.DataFrame]]:
    """(place of its first row, block) from the last block to the first."""
    for start in reversed(range(0, rows, BLOCK)):
        yield start, requests.slice(start, BLOCK).collect()


class _Inversions:
    """Rows with a later arrival in a line above, block by block from the end."""

    def __init__(self) -> None:
        self.count = 0
        self._least: dict[int, int] = {}  # line of each file in the later blocks

    def see(self, file: np.ndarray, line: np.ndarray) -> None:
        several = int(file[0]) != int(file[-1]) or bool((file != file[0]).any())
        for number in np.unique(file).tolist() if several else [int(file[0])]:
            lines = line[file == number] if several else line
            later = self._least.get(number, np.iinfo(np.int64).max)
            least = np.minimum.accumulate(np.append(later, lines[::-1]))
            self.count += int(np.count_nonzero(lines[::-1] > least[:-1]))
            self._least[number] = int(least[-1])


class _Ties:
    """Distinct instants, and the most rows at one, block by block from the end."""

    def __init__(self) -> None:
        self.distinct = self.most = 0
        self._next_us: int | None = None  # the first arrival of the later block
        self._length = 0  # rows at it

    def see(self, arrival_us: np.ndarray) -> None:
        starts = np.flatnonzero(np.diff(arrival_us, prepend=arrival_us[0] - 1))
        lengths = np.diff(starts, append=len(arrival_us))
        self.distinct += len(starts)
        if self._next_us == arrival_us[-1]:
            self.distinct -= 1
            lengths[-1] += self._length
        self.most = max(self.most, int(lengths.max()))
        self._next_us, self._length = int(arrival_us[0]), int(lengths[0])


class _Duplicates:
    """Rows that equal another but for file and line, block by block from the end.

    Equal rows arrive at one instant, so that ties alone are compared, by 64-bit hashes.
    """

    def __init__(self, requests: pl.LazyFrame) -> None:
        facts = [name for name in requests.collect_schema().names() if name not in _NO_FACTS]
        self._requests = requests.select(facts)
        self.count = 0
        self._next_us: int | None = None
        self._hashes = pl.Series(dtype=pl.UInt64)  # of the rows at it, each once
        self._unread: tuple[int, int] | None = None  # or the rows: from where, how many

    def see(self, start: int, arrival_us: np.ndarray) -> None:
        same = np.diff(arrival_us) == 0
        goes_on = self._next_us == arrival_us[-1]
        first_us = int(arrival_us[0])
        at_first = int(np.searchsorted(arrival_us, first_us, side="right"))
        self._next_us, later = first_us, self._at_next() if goes_on else None
        if later is None and not same.any():
            self._unread = (start, at_first)
            return
        tied = np.append(same, goes_on) | np.insert(same, 0, False)
        tied[:at_first] = True  # the block before may end with it
        rows = self._requests.slice(start, len(arrival_us)).collect().filter(pl.Series(tied))
        hashes = rows.hash_rows()
        own = hashes.head(at_first)
        if later is not None:
            hashes = pl.concat([hashes, later])
            own = pl.concat([own, later]) if first_us == arrival_us[-1] else own
        self.count += len(hashes) - hashes.n_unique()
        self._hashes, self._unread = own.unique(), None

    def _at_next(self) -> pl.Series:
        """The hashes of the rows at the first arrival of the later block."""
        if self._unread is None:
            return self._hashes
        return self._requests.slice(*self._unread).collect().hash_rows().unique()


class _Gaps:
    """The longest gaps, and how many exceed a limit, block by block from the end."""

    def __init__(self, limit_us: float) -> None:
        self._limit_us = limit_us
        self.beyond = 0
        self.longest: list[Gap] = []
        self._next_us: int | None = None

    def see(self, arrival_us: np.ndarray) -> None:
        after = () if self._next_us is None else (self._next_us,)
        gap_us = np.diff(arrival_us, append=after)
        self.beyond += int(np.count_nonzero(gap_us > self._limit_us))
        keep = min(_GAPS, len(gap_us))
        places = np.array([], dtype=np.int64)
        if keep:
            least = np.partition(gap_us, len(gap_us) - keep)[len(gap_us) - keep]
            equal = np.flatnonzero(gap_us == least)[:keep]  # the first of them
            places = np.concatenate([np.flatnonzero(gap_us > least), equal])
        found = [Gap(int(arrival_us[place]), int(gap_us[place])) for place in places]
        both = [gap for gap in (*self.longest, *found) if gap.length_us > 0]
        self.longest = sorted(both, key=lambda gap: (-gap.length_us, gap.start_us))[:_GAPS]
        self._next_us = int(arrival_us[0])
