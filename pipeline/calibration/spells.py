"""Slow spells: how much of the noise of service times is shared by batches near in time."""

from typing import NamedTuple

import numpy as np

_EDGES_S = np.array([0.0, 0.03, 0.06, 0.1, 0.2, 0.3, 0.6, 1.0, 2.0, 3.0, 6.0, 10.0])
_TIMES_S = np.geomspace(0.02, 30.0, 60)
_LEAST_PAIRS = 200  # in a bin of lags, for its correlation to count
_FARTHEST = 400  # batches between the two of a pair, at most


class Spells(NamedTuple):
    """The share of the variance of log noise that is shared, and how long it lasts."""

    share: float  # in [0, 1)
    time_s: float  # correlation falls to 1/e in this time

    @classmethod
    def none(cls) -> "Spells":
        """Noise that is independent from batch to batch."""
        return cls(0.0, 1.0)


def lag_correlations(dispatch_s: np.ndarray, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean lags in s and the mean products of standardized residuals, over bins of lags."""
    bins = len(_EDGES_S) - 1
    count, lag_sum, product_sum = np.zeros(bins), np.zeros(bins), np.zeros(bins)
    for step in range(1, min(_FARTHEST, len(residual))):
        lag_s = dispatch_s[step:] - dispatch_s[:-step]
        place = np.searchsorted(_EDGES_S, lag_s, side="right") - 1
        inside = place < bins
        place, product = place[inside], (residual[step:] * residual[:-step])[inside]
        count += np.bincount(place, minlength=bins)
        lag_sum += np.bincount(place, weights=lag_s[inside], minlength=bins)
        product_sum += np.bincount(place, weights=product, minlength=bins)
    counts = count >= _LEAST_PAIRS
    return lag_sum[counts] / count[counts], product_sum[counts] / count[counts]


def fit_spells(dispatch_s: np.ndarray, residual: np.ndarray) -> Spells:
    """Least squares of `share * exp(-lag / time)` to the correlations of residuals by lag.

    Arguments: `dispatch_s [n]`, ascending; `residual [n]`, log of measured over expected service
    time, standardized within each replica and class. No spells where there is too little to tell.
    """
    lag_s, correlation = lag_correlations(dispatch_s, residual)
    if len(lag_s) < 3:
        return Spells.none()
    best = (np.inf, Spells.none())
    for time_s in _TIMES_S:
        shape = np.exp(-lag_s / time_s)
        share = float(np.clip(shape @ correlation / (shape @ shape), 0.0, 0.99))
        miss = float(np.square(correlation - share * shape).sum())
        if miss < best[0]:
            best = (miss, Spells(share, float(time_s)))
    return best[1] if best[1].share > 0.0 else Spells.none()
