"""Slow spells: how much of the noise of service times is shared by batches near in time."""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from simulator.noise import NO_PATH, NoisePath

_EDGES_S = np.array([0.0, 0.03, 0.06, 0.1, 0.2, 0.3, 0.6, 1.0, 2.0, 3.0, 6.0, 10.0])
_TIMES_S = np.geomspace(0.02, 30.0, 60)
_LEAST_PAIRS = 200  # in a bin of lags, for its correlation to count
_FARTHEST = 400  # batches between the two of a pair, at most
_LEAST_PATH = 1000  # batches; fewer tell too little of slow spells to resample them
_MOST_PATH = 20_000  # batches that a path keeps, in as many stretches as the next says
_STRETCHES = 20


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


def fit_noise_path(
    dispatch_s: np.ndarray, residual: np.ndarray, group: np.ndarray, least: int = _LEAST_PATH
) -> NoisePath:
    """The residuals of a log as standard normals in the order of time, for `draw_noise`.

    `z = Phi^-1((rank - 1/2) / n)` by the rank of a residual among the n of its group: so z says
    how lucky the batch was, and the measured residuals of a replica and class (`Replica.residuals`)
    say what that luck costs there: a Gaussian copula with measured margins (Nelsen, 2006, section
    2.3). A lognormal in their place makes slow spells too cheap.

    Arguments: `dispatch_s [n]` s, ascending; `residual [n]`, measured over expected service time,
    or its logarithm; `group [n]`, a number for each replica and class. An empty path where there
    are fewer than `least` batches. More than 20,000 are thinned to 20 stretches, evenly spread over
    the log and put behind each other: spells longer than a stretch are cut.
    """
    chosen = _stretches(len(dispatch_s))
    at_s = _closed_up(dispatch_s, chosen)
    if len(dispatch_s) < max(least, 2) or at_s[-1] <= at_s[0]:
        return NO_PATH
    z = np.zeros(len(residual))
    for number in np.unique(group):
        rows = group == number
        z[rows] = ndtri((rankdata(residual[rows]) - 0.5) / rows.sum())
    return NoisePath(tuple(np.round(at_s, 6).tolist()), tuple(np.round(z[chosen], 4).tolist()))


def _stretches(batches: int) -> np.ndarray:
    """The numbers of the batches that a path keeps, ascending."""
    if batches <= _MOST_PATH:
        return np.arange(batches)
    length = _MOST_PATH // _STRETCHES
    first = np.linspace(0, batches - length, _STRETCHES).astype(np.int64)
    return (first[:, None] + np.arange(length)).ravel()


def _closed_up(dispatch_s: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The instants of the chosen batches from 0 on, a mean gap in place of what is left out."""
    if len(chosen) < 2:
        return np.zeros(len(chosen))
    gap_s = np.diff(dispatch_s[chosen])
    kept = np.diff(chosen) == 1
    gap_s[~kept] = gap_s[kept].mean()
    return np.concatenate([[0.0], np.cumsum(gap_s)])
