"""Cold starts: the distribution of measured ones, and those that a log of batches gives away."""

import math
from typing import NamedTuple

import numpy as np
from scipy import stats

from simulator.checks import check, checked_number

LOGNORMAL, CONSTANT, OTHER = "lognormal", "constant", "other"
_CONSTANT_CV = 0.01
_CONFIDENCE = 0.95
_LILLIEFORS = 0.886  # of n ** -0.5: 5 % critical value with mean and deviation fitted, n > 30
_WARM_QUANTILE = 0.999  # of warm batches: what a cold one must exceed
_LEAST_FACTOR = 1.5  # of the expected service time that a cold one takes at least
_LEAST_FOUND = 5  # cold batches below which nothing is claimed
_LEAST_RISE = 10.0  # times as often after idleness as chance alone would have it


class ColdStartFit(NamedTuple):
    """Mean and variation of cold starts, as `Scaling` takes them. Intervals are of 95 %."""

    cold_start_s: float  # mean
    cv: float
    distribution: str  # LOGNORMAL, CONSTANT, or OTHER where neither fits: mean and cv still hold
    mean_interval_s: tuple[float, float]  # infinite width from a single one
    cv_interval: tuple[float, float]  # NaN where the distribution is OTHER
    distance: float  # Kolmogorov-Smirnov, to the lognormal fitted
    starts: int  # that the fit rests on


def fit_cold_starts(cold_start_s: np.ndarray) -> ColdStartFit:
    """Mean, coefficient of variation and kind of the cold starts `[n]` in s, each above 0.

    Below a variation of 1 % they are CONSTANT. Else with m and s the mean and the deviation of
    their logarithms, LOGNORMAL where the Kolmogorov-Smirnov distance is below its 5 % value
    (Lilliefors, 1967): `mean = exp(m + s^2 / 2)`, interval
    `exp(m + s^2 / 2 +- t sqrt(s^2 / n + s^4 / (2 (n - 1))))` (Cox's, with t: Olsson, 2005),
    `cv = sqrt(exp(s^2) - 1)`, interval by that of s^2, chi-squared. Else the moments, and the
    interval of the mean by t, which skew makes too narrow at small n. Raises ValueError where there
    is none, or one is not finite and above 0. Independence is taken for granted: starts that share
    a disk or an image pull are not, and their interval is wider than told.
    """
    values_s = np.asarray(cold_start_s, float)
    n = len(values_s)
    check(n > 0, "len(cold_start_s)", n, "needs at least one")
    wrong = ~(np.isfinite(values_s) & (values_s > 0))
    if wrong.any():
        place = int(np.argmax(wrong))
        value = float(values_s[place])
        check(False, f"cold_start_s[{place}]", value, "must be finite and above 0")
    mean_s = float(values_s.mean())
    spread_s = float(values_s.std(ddof=1)) if n > 1 else 0.0
    t = float(stats.t.ppf(0.5 + _CONFIDENCE / 2, max(1, n - 1)))
    half_s = t * spread_s / math.sqrt(n) if n > 1 else math.inf
    plain = ColdStartFit(
        mean_s,
        spread_s / mean_s,
        CONSTANT,
        (max(0.0, mean_s - half_s), mean_s + half_s),
        (0.0, math.inf) if n == 1 else (0.0, max(_CONSTANT_CV, spread_s / mean_s)),
        math.nan,
        n,
    )
    if plain.cv < _CONSTANT_CV:
        return plain
    logs = np.log(values_s)
    center, deviation = float(logs.mean()), float(logs.std(ddof=1))
    distance = float(stats.kstest(logs, "norm", args=(center, deviation)).statistic)
    if distance >= _LILLIEFORS / math.sqrt(n):
        return plain._replace(
            distribution=OTHER, distance=distance, cv_interval=(math.nan, math.nan)
        )
    return _lognormal(center, deviation, n, t)._replace(distance=distance)


def _lognormal(center: float, deviation: float, n: int, t: float) -> ColdStartFit:
    variance = deviation**2
    log_mean = center + variance / 2
    half = t * math.sqrt(variance / n + variance**2 / (2 * (n - 1)))
    tails = stats.chi2.ppf([0.5 + _CONFIDENCE / 2, 0.5 - _CONFIDENCE / 2], n - 1)
    low, high = (variance * (n - 1) / float(tail) for tail in tails)
    return ColdStartFit(
        math.exp(log_mean),
        math.sqrt(math.expm1(variance)),
        LOGNORMAL,
        (math.exp(log_mean - half), math.exp(log_mean + half)),
        (math.sqrt(math.expm1(low)), _root_of_expm1(high)),
        math.nan,
        n,
    )


def _root_of_expm1(variance: float) -> float:
    return math.sqrt(math.expm1(variance)) if variance < 700.0 else math.inf


class LoggedColdStarts(NamedTuple):
    """The cold starts that a log of batches gives away; empty where it gives none away."""

    cold_start_s: np.ndarray  # [n] s by which the batch took longer than expected
    batch: np.ndarray  # [n] its number
    candidates: int  # batches that were the first of their replica, or the first after idleness
    longest_warm: float  # service time over the expected one that warm batches hardly exceed
    text: str  # what was found, or why nothing is claimed


def cold_starts_of_log(
    replica: np.ndarray,
    dispatch_s: np.ndarray,
    departure_s: np.ndarray,
    expected_s: np.ndarray,
    idle_s: float,
) -> LoggedColdStarts:
    """What first batches took beyond `expected_s [m]`, the batch latency of a warm replica.

    A candidate is the first batch of its replica, or one dispatched at least `idle_s` after its
    last departure. It is cold if service over expectation is above the 99.9th percentile of the
    other batches and above 1.5. Nothing is claimed from fewer than five, nor unless candidates
    exceed it ten times as often as the others do: a slow batch after a pause may be chance.

    Batches `[m]` in order of dispatch. A start that ends before the dispatch (requests wait for the
    replica to be up) shows in waiting times, not here; model loading inside the first service does.
    Raises ValueError for lengths that differ and for an expectation or `idle_s` that is not
    positive.
    """
    checked_number("idle_s", idle_s, above=True)
    for field, values in (("replica", replica), ("departure_s", departure_s)):
        check(len(values) == len(dispatch_s), f"len({field})", len(values), "lengths must be equal")
    check(len(expected_s) == len(dispatch_s), "len(expected_s)", len(expected_s), "one per batch")
    positive = bool((np.isfinite(expected_s) & (expected_s > 0)).all())
    check(positive, "expected_s", expected_s, "must be finite and above 0")
    ratio = (departure_s - dispatch_s) / expected_s
    after_idle = _after_idleness(replica, dispatch_s, departure_s, idle_s)
    candidates, warm = int(after_idle.sum()), ratio[~after_idle]
    none = LoggedColdStarts(np.zeros(0), np.zeros(0, np.int64), candidates, math.nan, "")
    if len(warm) < 1 / (1 - _WARM_QUANTILE):
        told = f"{len(warm)} warm batches are too few to say how slow a warm batch can be"
        return none._replace(text=told)
    longest = max(_LEAST_FACTOR, float(np.quantile(warm, _WARM_QUANTILE)))
    cold = np.flatnonzero(after_idle & (ratio > longest))
    none = none._replace(longest_warm=longest)
    often, by_chance = len(cold) / max(1, candidates), max(1, int((warm > longest).sum()))
    if len(cold) < _LEAST_FOUND or often < _LEAST_RISE * by_chance / len(warm):
        told = f"{len(cold)} of {candidates} first batches took more than {longest:.2f} times"
        return none._replace(text=f"{told} what was expected: too few to call them cold starts")
    return none._replace(
        cold_start_s=(ratio[cold] - 1.0) * expected_s[cold],
        batch=cold,
        text=f"{len(cold)} of {candidates} first batches took more than {longest:.2f} times what "
        f"was expected, which warm batches do in {by_chance} of {len(warm)} cases",
    )


def _after_idleness(
    replica: np.ndarray, dispatch_s: np.ndarray, departure_s: np.ndarray, idle_s: float
) -> np.ndarray:
    """True `[m]` for first batches of a replica, and those at least `idle_s` after its last."""
    first = np.zeros(len(replica), bool)
    for number in np.unique(replica):
        rows = np.flatnonzero(replica == number)
        latest_s = np.maximum.accumulate(departure_s[rows])
        first[rows[0]] = True
        first[rows[1:]] = dispatch_s[rows][1:] - latest_s[:-1] >= idle_s
    return first
