"""Iteration times by regression over the spans of a log, with intervals."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls
from scipy.stats import t as student_t

from pipeline.calibration.tokens.covariance import inverse_where_known
from pipeline.calibration.tokens.log import LoggedTokens
from pipeline.calibration.tokens.progress import (
    Coefficients,
    IterationClock,
    Sequences,
    anchored_clock,
    even_clock,
    fitted_clock,
    sequences_of,
)
from pipeline.calibration.tokens.spans import Spans, decoding_spans, prefill_spans, unbroken

_PASSES = 3  # the clock needs coefficients, and these the clock; it stands still after two
_MOST_SPANS = 500  # of each kind and replica: the covariance is a square of that
_JITTER = 0.3  # iterations: by how much an instant may miss the boundary that it stands for


class Regression(NamedTuple):
    """Coefficients of an iteration in the order t0, t_prefill, t_decode, t_kv, and their interval.

    The interval is of the estimate under independent noise of iterations; 0 bounds it from below.
    """

    value: Coefficients
    low: np.ndarray  # [4] s
    high: np.ndarray  # [4] s
    iteration_cv: float  # coefficient of variation of an iteration around the fit
    spans: int  # that the fit rests on


def regress(log: LoggedTokens, replicas: int, level: float = 0.95) -> Regression:
    """Coefficients by generalized least squares, none below 0.

    A span lasts `work @ coefficients`. The noise of an iteration is in every span that holds the
    iteration, so two spans covary by the squared durations of the iterations they share; ordinary
    least squares would take 200 overlapping spans for 200 witnesses. Preempted requests are left
    out (`unbroken`). Where the log does not say the replica, the work is split evenly.

    Raises ValueError where no seen request decodes from its first to its last token, or fewer
    spans than coefficients are known.
    """
    numbers = [int(number) for number in np.unique(log.replica[~np.isnan(log.first_token_s)])]
    runs = [sequences_of(log, number) for number in numbers]
    sharers = [replicas if number < 0 else 1 for number in numbers]
    clocks = [even_clock(run) for run in runs]
    for attempt in range(_PASSES):
        parts = [_rows(*part) for part in zip(runs, clocks, sharers, strict=True)]
        design = np.concatenate([part[0] for part in parts])
        target = np.concatenate([part[1] for part in parts])
        if len(target) <= design.shape[1]:
            raise ValueError(f"len(spans) = {len(target)}: must exceed the 4 coefficients")
        value = _fit(design, target)
        if attempt + 1 < _PASSES:
            clocks = [
                fitted_clock(run, clock, value, share)
                for run, clock, share in zip(runs, clocks, sharers, strict=True)
            ]
    return _with_intervals(design, target, value, level)


def _rows(
    sequences: Sequences, clock: IterationClock, sharers: int
) -> tuple[np.ndarray, np.ndarray]:
    """Whitened work `[n, 4]` and durations `[n]` of the spans of a replica."""
    rows = unbroken(sequences, clock, _MOST_SPANS)
    if sharers == 1:  # else the sequences ran on several clocks
        clock = anchored_clock(sequences, clock, rows)
    decoding = decoding_spans(sequences, clock, rows, sharers)
    return _whitened(decoding, prefill_spans(sequences, clock, sharers, _MOST_SPANS), clock)


def _whitened(
    decoding: Spans, prefill: Spans, clock: IterationClock
) -> tuple[np.ndarray, np.ndarray]:
    """Work and durations of all spans, divided by a root of their covariance."""
    start_s = np.concatenate([decoding.start_s, prefill.start_s])
    end_s = np.concatenate([decoding.end_s, prefill.end_s])
    work = np.concatenate([decoding.work, prefill.work])
    before, until = (np.interp(at_s, clock.instant_s, clock.square_s) for at_s in (start_s, end_s))
    shared = np.minimum(until[:, None], until) - np.maximum(before[:, None], before)
    own = until - before
    covariance = np.maximum(shared, 0.0)
    covariance[np.diag_indices_from(covariance)] += _JITTER**2 * own / work[:, 0]
    root = np.linalg.cholesky(covariance)
    return np.linalg.solve(root, work), np.linalg.solve(root, end_s - start_s)


def _fit(design: np.ndarray, target: np.ndarray) -> Coefficients:
    scale = np.sqrt((design * design).sum(0))
    scale[scale == 0] = 1.0
    return nnls(design / scale, target)[0] / scale


def _with_intervals(
    design: np.ndarray, target: np.ndarray, value: Coefficients, level: float
) -> Regression:
    """The normal theory of least squares, over all four coefficients even where one is 0."""
    residual = target - design @ value
    free = len(target) - len(value)
    variance = float(residual @ residual) / free
    scale = np.sqrt((design * design).sum(0))
    scale[scale == 0] = 1.0
    inverse, known = inverse_where_known((design / scale).T @ (design / scale))
    spread = np.where(known, np.sqrt(variance * np.diag(inverse)) / scale, np.inf)
    half = student_t.ppf(0.5 + level / 2.0, free) * spread
    low = np.maximum(value - half, 0.0)
    return Regression(value, low, value + half, float(np.sqrt(variance)), len(target))
