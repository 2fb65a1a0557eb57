"""Statistics of a log and its replays, and how far chance alone would move them."""

from typing import NamedTuple

import numpy as np

from pipeline.calibration.bootstrap import Blocks, Bounds, percentile_bounds
from pipeline.calibration.fidelity.bands import WINDOW_S

PERCENTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
STATISTICS = ("mean", *PERCENTILES)
_LEAST_BLOCK_S = 10.0
_RESPONSES = 2.0  # a block is at least so many median response times: what waits, waits together
_MOST_OF_LOG = 3  # a block is at most a third of the log


class Resamples(NamedTuple):
    """Which windows and which replay each resample holds. S resamples, W windows."""

    weight: np.ndarray  # [S, W] how often a window is drawn
    replay: np.ndarray  # [S]
    block_windows: int

    @property
    def block_s(self) -> float:
        """The length of a block in seconds."""
        return WINDOW_S * self.block_windows

    def bounds(self, error: np.ndarray, windows: int, confidence: float) -> Bounds:
        """The interval of an error `[S]` that rests on so many windows; NaN where too few tell."""
        told = error[np.isfinite(error)]
        if 2 * len(told) < len(error):
            return Bounds.unknown()
        return percentile_bounds(told, confidence, -(-windows // self.block_windows))


def draw_resamples(
    windows: int,
    response_s: np.ndarray,
    replays: int,
    resamples: int,
    generator: np.random.Generator,
) -> Resamples:
    """Blocks of consecutive windows from anywhere, in a circle, and one replay for each resample.

    A block is 10 s long, or two median response times `[R]` s where these are longer. Log and
    replay share the blocks, because they share the arrivals. Circular block bootstrap: Politis and
    Romano (1992).
    """
    answered_s = response_s[~np.isnan(response_s)]
    typical_s = float(np.median(answered_s)) if len(answered_s) else 0.0
    wanted = int(np.ceil(max(_LEAST_BLOCK_S, _RESPONSES * typical_s) / WINDOW_S))
    length = max(1, min(wanted, windows // _MOST_OF_LOG))
    weight = Blocks(np.arange(windows), windows, length, WINDOW_S).resample(resamples, generator)
    return Resamples(weight, generator.integers(0, replays, resamples), length)


class Sample(NamedTuple):
    """Values in ascending order, and the window that each is of."""

    value: np.ndarray  # [n]
    window: np.ndarray  # [n]

    @classmethod
    def of(cls, value: np.ndarray, window: np.ndarray) -> "Sample":
        """Of values `[m]` in any order; NaN is left out."""
        rows = np.flatnonzero(~np.isnan(value))
        order = rows[np.argsort(value[rows], kind="stable")]
        return cls(value[order], window[order])

    def statistics(self, weight: np.ndarray) -> np.ndarray:
        """`STATISTICS` `[S, 4]` of the sample with each value as often as its window is drawn.

        `weight [S, W]` are whole numbers. As `numpy.percentile` of the repeated values; NaN where
        none is drawn.
        """
        found = np.full((len(weight), len(STATISTICS)), np.nan)
        if len(self.value) == 0:
            return found
        levels = np.array(list(PERCENTILES.values()))
        for row, drawn in zip(found, weight, strict=True):
            times = drawn[self.window]
            reach = np.cumsum(times)  # how many of the repeated values are up to each
            if reach[-1] == 0:
                continue
            place = (reach[-1] - 1) * levels
            below = np.floor(place)
            low = self.value[np.searchsorted(reach, below, side="right")]
            above = np.minimum(below + 1, reach[-1] - 1)
            high = self.value[np.searchsorted(reach, above, side="right")]
            row[0] = times @ self.value / reach[-1]
            row[1:] = low + (place - below) * (high - low)
        return found


def of_drawn_replay(by_replay: list[Sample], resamples: Resamples) -> np.ndarray:
    """`STATISTICS` `[S, 4]` of the replay that each resample drew, in the windows that it drew."""
    found = np.full((len(resamples.replay), len(STATISTICS)), np.nan)
    for number, sample in enumerate(by_replay):
        drawn = resamples.replay == number
        found[drawn] = sample.statistics(resamples.weight[drawn])
    return found
