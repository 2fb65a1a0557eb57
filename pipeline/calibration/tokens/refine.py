"""Iteration times by simulation: those with which the engine retells the seen token times."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares, minimize

from pipeline.calibration.tokens.covariance import inverse_where_known
from pipeline.calibration.tokens.log import LoggedTokens, token_times
from pipeline.calibration.tokens.replay import TokenCluster, replay

_SOFT, _SOFTER = 0.5, 2.0  # log error from which on an error hardly counts more
# Softness and step of each stage. A replay jumps where a request just misses a departure: slopes
# over a tenth see the hill, not the stones on it. Slopes over 2 % left the search at 5 to 20 times
# the loss, on every log tried.
_STAGES = ((_SOFTER, 0.1), (_SOFT, 0.1), (_SOFT, 0.03))
_LOWEST, _HIGHEST = -9.0, 3.0  # log of the share of an iteration: from nothing to twenty times
_EVALUATIONS = 12  # of each stage
_POLISH = (300, 300)  # replays of each simplex search; the second gets out of a folded simplex
_EDGE = 0.15  # of its first simplex, in logs
_STEP = 0.03  # share of an iteration, of the slopes for the intervals
_BLOCK = 20  # consecutive requests that err together: they share iterations
_NORMAL_95 = 1.959964

Errors = Callable[[np.ndarray, float], np.ndarray]


class Refined(NamedTuple):
    """t0, t_prefill, t_decode, t_kv and the dispatch delay, with their 95 % interval."""

    value: np.ndarray  # [5] s
    low: np.ndarray  # [5] s
    high: np.ndarray  # [5] s
    loss: float  # mean squared softened log error
    residual: float  # median absolute log error of the token times that were compared


def typical_s(log: LoggedTokens, replicas: int) -> np.ndarray:
    """The values `[5]` s that would each fill a typical iteration, or prefill, alone.

    Typical are the median TPOT, the mean number of seen requests that decode at once and their mean
    context. Raises ValueError where no seen request has a TPOT.
    """
    tpot_s = token_times(log).tpot_s
    decoding_s = log.departure_s - log.first_token_s
    seen = decoding_s > 0
    if not (seen & np.isfinite(tpot_s)).any():
        raise ValueError("departure_s: no seen request has a second token and a departure")
    iteration_s = float(np.nanmedian(tpot_s))
    span_s = float(np.nanmax(log.departure_s) - np.nanmin(log.first_token_s))
    batch = max(float(decoding_s[seen].sum()) / span_s / replicas, 1.0)
    context = batch * float((log.prompt_tokens + log.output_tokens / 2.0).mean())
    # Without a dispatch, as of a gateway, the wait is in it: a unit to search in, no more.
    begun_s = np.where(np.isnan(log.dispatch_s), log.arrival_s, log.dispatch_s)
    per_prompt_s = np.nanmedian((log.first_token_s - begun_s) / log.prompt_tokens)
    prefill_s = max(float(per_prompt_s), iteration_s * 1e-6)
    return np.array(
        [iteration_s, prefill_s, iteration_s / batch, iteration_s / context, iteration_s]
    )


def refine(log: LoggedTokens, cluster: TokenCluster, starts: list[np.ndarray]) -> Refined:
    """The best values found from the `starts`, each `[5]` shares of `typical_s`.

    Minimizes the mean over the seen requests of `(c arctan(e / c))^2`, c = 0.5, with e the log of
    simulated over logged TTFT, TPOT and response time: a request that a small change lets wait one
    departure longer errs by a factor, and must not rule. Gauss and Newton from every start, then
    Nelder and Mead from the best. Limits, replicas and routing are those of `cluster`. Nothing is
    random; the loss has many local minima, and the best of them is not sure to be found.

    The intervals are of the sandwich form, with the errors of 20 consecutive requests as one
    witness. They tell sampling error at this minimum; not that the model lacks a term, nor that
    another minimum is as good.
    """
    unit_s = typical_s(log, cluster.replicas)
    logged_s = np.array(token_times(log))
    known = np.isfinite(logged_s) & (logged_s > 0)

    def errors(shares: np.ndarray, soft: float) -> np.ndarray:
        simulated_s = np.array(token_times(replay(changed(cluster, shares * unit_s), log.arrivals)))
        return soft * np.arctan(np.log(simulated_s[known] / logged_s[known]) / soft)

    found = [_descend(errors, start) for start in starts]
    losses = [float(np.square(errors(shares, _SOFT)).mean()) for shares in found]
    shares = _polish(errors, found[int(np.argmin(losses))])
    error = errors(shares, _SOFT)
    half = _NORMAL_95 * _spread(_slopes(errors, shares), error, np.nonzero(known)[1])
    return Refined(
        shares * unit_s,
        np.maximum(shares - half, 0.0) * unit_s,
        (shares + half) * unit_s,
        float(np.square(error).mean()),
        float(np.median(np.abs(_SOFT * np.tan(error / _SOFT)))),
    )


def changed(cluster: TokenCluster, values_s: np.ndarray) -> TokenCluster:
    """The cluster with other iteration times and another delay, `[5]` s."""
    t0_s, t_prefill_s, t_decode_s, t_kv_s, delay_s = (float(value) for value in values_s)
    tokens = dataclasses.replace(
        cluster.tokens, t0_s=t0_s, t_prefill_s=t_prefill_s, t_decode_s=t_decode_s, t_kv_s=t_kv_s
    )
    return cluster._replace(tokens=tokens, dispatch_delay_s=delay_s)


def _descend(errors: Errors, start: np.ndarray) -> np.ndarray:
    """Shares `[5]` at the local minimum that coarse slopes lead to."""
    place = np.log(np.clip(start, np.exp(_LOWEST + 1.0), np.exp(_HIGHEST - 1.0)))
    for soft, step in _STAGES:

        def at(logs: np.ndarray, soft: float = soft) -> np.ndarray:
            return errors(np.exp(logs), soft)

        def slopes(logs: np.ndarray, step: float = step) -> np.ndarray:
            moves = step * np.eye(len(logs))
            return np.stack([at(logs + move) - at(logs - move) for move in moves], 1) / (2 * step)

        solution = least_squares(
            at,
            place,
            jac=slopes,
            bounds=(_LOWEST, _HIGHEST),
            max_nfev=_EVALUATIONS,
            xtol=1e-3,
            ftol=1e-3,
        )
        place = np.clip(solution.x, _LOWEST + 0.1, _HIGHEST - 0.1)  # strictly inside, to go on
    return np.exp(place)


def _polish(errors: Errors, shares: np.ndarray) -> np.ndarray:
    """Shares `[5]` at the best corner of simplexes that need no slopes."""

    def loss(logs: np.ndarray) -> float:
        inside = np.clip(logs, _LOWEST, _HIGHEST)
        return float(np.square(errors(np.exp(inside), _SOFT)).mean())

    place = np.log(shares)
    for replays in _POLISH:
        simplex = np.vstack([place, place + _EDGE * np.eye(len(place))])
        options = {"initial_simplex": simplex, "maxfev": replays, "xatol": 1e-3, "fatol": 1e-7}
        place = minimize(loss, place, method="Nelder-Mead", options=options).x
    return np.exp(np.clip(place, _LOWEST, _HIGHEST))


def _slopes(errors: Errors, shares: np.ndarray) -> np.ndarray:
    """Slopes `[m, 5]` of the errors over 3 % of an iteration to either side, none below 0."""
    columns = []
    for number in range(len(shares)):
        low, high = shares.copy(), shares.copy()
        low[number], high[number] = max(shares[number] - _STEP, 0.0), shares[number] + _STEP
        rise = errors(high, _SOFT) - errors(low, _SOFT)
        columns.append(rise / (high[number] - low[number]))
    return np.stack(columns, axis=1)


def _spread(slopes: np.ndarray, errors: np.ndarray, request: np.ndarray) -> np.ndarray:
    """Standard errors `[5]` of least squares whose errors depend on each other within blocks."""
    block = request // _BLOCK
    scores = np.array([slopes[block == b].T @ errors[block == b] for b in np.unique(block)])
    bread, told = inverse_where_known(slopes.T @ slopes)
    covariance = bread @ (scores.T @ scores) @ bread * (len(scores) / max(len(scores) - 1, 1))
    return np.where(told, np.sqrt(np.maximum(np.diag(covariance), 0.0)), np.inf)
