"""Fits a Markov-modulated Poisson process: starts from smoothed counts, then the likelihood."""

import itertools
import math

import numpy as np
from scipy.optimize import minimize

from pipeline.calibration.arrival_models.modulated import MarkovModulated, total_log_likelihood
from pipeline.calibration.arrival_models.observed import COUNTS, GAPS, Observed

_MOST_TRIED = 20_000  # observations that one evaluation of the likelihood reads, from new starts
_MOST_REFITTED = 150_000  # the same, from a known model
_MOST_PER_TICK = 0.5  # arrivals on average, for gaps to be fitted
_MOST_JUDGED = 500_000
_PER_BIN = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0)  # arrivals in a bin of a start
_LEAST_BINS = 12
_POLISHED = 2  # starts that are carried to the peak


def fit_modulated(
    observed: Observed, phases: int, near: MarkovModulated | None = None
) -> MarkovModulated | None:
    """The model of highest likelihood among what was tried; None where nothing alternates.

    Starts: counts in bins of several lengths, cut into levels by k-means; the runs of one level
    give the mean length of its phase. The best starts are carried to a peak of the likelihood of
    the observations (L-BFGS in the logarithms of rates and jumps). With `near`, it alone is.

    With more than half an arrival in a tick the fit is to counts per tick: in gaps, the rounding of
    one arrival is met twice, which makes phases seem too long and rates too much alike.

    Of more than 20,000 observations (150,000 with `near`) two thinned views are fitted, each of at
    most that many: the latest stretch as it is, which sees short phases, and counts of the whole
    in wider bins, which see long ones. The better of the two on the latest 500,000 is returned.
    """
    per_tick = observed.arrivals * observed.resolution_s / observed.duration_s
    if observed.kind == GAPS and per_tick > _MOST_PER_TICK:
        observed = observed.counted()
    found = []
    views = _views(observed, _MOST_REFITTED if near else _MOST_TRIED)
    for view in views:
        starts = [near] if near else _best_starts(view, phases, 1 if len(views) > 1 else _POLISHED)
        found += [_polish(view, start) for start in starts]
    if len(found) <= 1:
        return found[0] if found else None
    judged = _late(observed, _MOST_JUDGED)
    return min(found, key=lambda model: _loss(judged, model))


def _best_starts(view: Observed, phases: int, count: int) -> list[MarkovModulated]:
    starts = {start: _loss(view, start) for start in _starts(view, phases)}
    return sorted(starts, key=lambda start: starts[start])[:count]


def _loss(observed: Observed, model: MarkovModulated) -> float:
    return -total_log_likelihood(observed, model)


def _views(observed: Observed, most: int) -> list[Observed]:
    count = len(observed.amount)
    if count <= most:
        return [observed]
    bin_s = observed.duration_s / most
    amount = _counts(observed, bin_s)
    cell_amount, cell = np.unique(amount, return_inverse=True)
    middle_s = (np.arange(len(amount)) + 0.5) * bin_s
    wide = Observed(
        COUNTS,
        bin_s,
        observed.duration_s,
        observed.arrivals,
        amount,
        middle_s,
        cell,
        cell_amount,
    )
    return [_late(observed, most), wide]


def _late(observed: Observed, most: int) -> Observed:
    """The latest observations, at most that many."""
    count = len(observed.amount)
    if count <= most:
        return observed
    start_s = float(observed.instant_s[-most - 1])
    return observed._replace(
        duration_s=observed.duration_s - start_s,
        amount=observed.amount[-most:],
        instant_s=observed.instant_s[-most:] - start_s,
        cell=observed.cell[-most:],
        arrivals=int(observed.arrivals * most / count),
    )


def _counts(observed: Observed, bin_s: float) -> np.ndarray:
    """Arrivals `[N]` in bins of that length."""
    bins = max(math.ceil(observed.duration_s / bin_s - 1e-9), 1)
    place = np.minimum((observed.instant_s / bin_s).astype(np.int64), bins - 1)
    weights = observed.amount if observed.kind == COUNTS else None
    return np.bincount(place, weights=weights, minlength=bins).astype(float)


def _starts(observed: Observed, phases: int) -> list[MarkovModulated]:
    mean_rps = observed.arrivals / observed.duration_s
    starts = []
    for per_bin in _PER_BIN:
        bin_s = per_bin / mean_rps
        long_enough = bin_s >= observed.resolution_s
        if long_enough and observed.duration_s >= _LEAST_BINS * bin_s:
            starts.append(_start(_counts(observed, bin_s), bin_s, phases))
    return [start for start in starts if start is not None]


def _start(counts: np.ndarray, bin_s: float, phases: int) -> MarkovModulated | None:
    """Phases from the levels of counts `[N]`; None where a level is never entered or left."""
    level = _levels(counts, phases)
    change = np.flatnonzero(np.diff(level)) + 1
    edges = np.concatenate([[0], change, [len(level)]])
    of_run, length = level[edges[:-1]], np.diff(edges)
    if len(set(of_run.tolist())) < phases or len(of_run) < 2 * phases:
        return None
    least_rps = 1e-3 * counts.mean() / bin_s
    rates = [max(counts[level == p].mean() / bin_s, least_rps) for p in range(phases)]
    lengths = [length[of_run == p].mean() * bin_s for p in range(phases)]
    jumps = np.full((phases, phases), 0.5)  # half a jump each way: none is ruled out
    np.add.at(jumps, (of_run[:-1], of_run[1:]), 1.0)
    np.fill_diagonal(jumps, 0.0)
    return _model(rates, lengths, jumps / jumps.sum(1, keepdims=True))


def _levels(counts: np.ndarray, phases: int) -> np.ndarray:
    """k-means of counts `[N]` in one dimension: the level of each, the lowest first."""
    centers = np.quantile(counts, (np.arange(phases) + 0.5) / phases)
    centers += np.arange(phases) * 1e-6 * (1.0 + counts.std())  # quantiles may coincide
    level = np.zeros(len(counts), np.int64)
    for _ in range(50):
        level = np.searchsorted((centers[1:] + centers[:-1]) / 2.0, counts)
        size = np.bincount(level, minlength=phases)
        if not size.all():
            return level
        after = np.bincount(level, weights=counts, minlength=phases) / size
        if np.allclose(after, centers):
            break
        centers = after
    return np.asarray(level)


def _model(rates: list[float], lengths: list[float], jumps: np.ndarray) -> MarkovModulated:
    order = np.argsort(rates, kind="stable")
    return MarkovModulated(
        tuple(float(rates[p]) for p in order),
        tuple(float(lengths[p]) for p in order),
        tuple(tuple(row) for row in jumps[np.ix_(order, order)].tolist()),
    )


def _others(phases: int) -> list[tuple[int, int]]:
    """The pairs of different phases, row by row."""
    return list(itertools.permutations(range(phases), 2))


def _encode(model: MarkovModulated) -> np.ndarray:
    """Rates, then rates of the jumps between different phases, as logarithms `[P + P (P - 1)]`."""
    jumps = model.jumps_per_s
    values = [*model.rate_rps, *(jumps[pair] for pair in _others(len(model.rate_rps)))]
    return np.log(np.maximum(values, 1e-12))


def _decode(coded: np.ndarray, phases: int) -> MarkovModulated:
    values = np.exp(coded)
    jumps = np.zeros((phases, phases))
    for pair, rate in zip(_others(phases), values[phases:], strict=True):
        jumps[pair] = rate
    leaving = jumps.sum(1)
    lengths = (1.0 / leaving).tolist()
    return _model(values[:phases].tolist(), lengths, jumps / leaving[:, None])


def _polish(observed: Observed, start: MarkovModulated) -> MarkovModulated:
    phases = len(start.rate_rps)
    coded = _encode(start)
    low = np.full(len(coded), math.log(0.05 / observed.duration_s))
    low[:phases] = math.log(1e-4 * observed.arrivals / observed.duration_s)
    high = np.full(len(coded), math.log(1e3 * observed.arrivals / observed.duration_s))
    found = minimize(
        lambda at: _loss(observed, _decode(at, phases)) / observed.arrivals,
        np.clip(coded, low, high),
        method="L-BFGS-B",
        bounds=list(zip(low, high, strict=True)),
        options={"maxiter": 40, "ftol": 1e-7, "eps": 1e-6},
    )
    return _decode(found.x, phases)
