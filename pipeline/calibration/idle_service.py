"""Service estimated from end-to-end times: requests that met an idle system did not wait."""

from typing import NamedTuple

import numpy as np

from pipeline.calibration.batch_reconstruction import time_resolution
from pipeline.calibration.bootstrap import Bounds, cut_into_blocks, log_bounds
from pipeline.calibration.service import ServiceFit, fit_service
from simulator.checks import check

_LEAST_REQUESTS = 20
_CONFIDENCE, _RESAMPLES = 0.95, 300
_MOST_SPREAD = 2.0  # of the median over the 5th percentile: noise alone needs a CV of 0.45 for it
_LEAST_SIZE_RATIO = 1.5  # of the P95 of sizes to the P5, for a slope over sizes


class IdleService(NamedTuple):
    """What requests that met an idle system tell of the service model. All is derived."""

    requests: int  # that met an idle system
    share: float  # of all requests
    mean_s: float  # response of a batch of one: service, network and any batch timeout
    mean_interval_s: Bounds  # of 95 %, and half a step of the log's clock wider on both sides
    median_s: float
    floor_s: float  # 5th percentile: the lower envelope
    noise_cv: float
    waits: bool  # the median is above twice the floor: many waited for company; trust the floor
    alone: int  # of them, those during whose stay no other request arrived
    alone_median_s: float  # well below `median_s`: later arrivals slow a request; NaN without
    fit: ServiceFit | None  # over request sizes, where these differ enough
    identifiable: tuple[str, ...]  # what the log can tell; the rest must come from elsewhere
    by_replica: bool  # idle means: nothing in flight on the request's replica, not in the system


class OverlapFit(NamedTuple):
    """A line of the response over the number in flight: a guess at beta, and named so."""

    alpha_s: float
    beta_s: float
    origin: str  # always `derived`


def idle_service(
    arrival_s: np.ndarray,
    departure_s: np.ndarray,
    generator: np.random.Generator,
    replica: np.ndarray | None = None,
    size: np.ndarray | None = None,
    answered: np.ndarray | None = None,
) -> IdleService:
    """The service of a batch of one, from the requests that met an idle system.

    A request meets an idle system when none that arrived before it, or at the same instant, is
    still in flight: on its own replica where `replica` is known, else anywhere. One that left in
    the very instant of the arrival has left. Its response is then `alpha + beta * size`, with the
    network between the clock and the replica, and the batch timeout where the server waits for
    company (`waits`: then the floor alone is near the service). So `alpha + beta` is known at the
    size of one request, and beta over the batch size is not; where the sizes of requests differ and
    none waits, alpha and the beta over sizes are, in batches of one.

    Arguments: `arrival_s`, `departure_s` `[n]` s, of every request that entered the system, also of
    those that failed; `replica [n]` or None; `size [n]` or None; `answered [n]`, True where the
    response counts, or None for all. Raises ValueError where a time is not finite, a departure is
    before its arrival, or fewer than 20 requests met an idle system. Load that never lets up hides
    what this needs; requests that met an idle system may be unlike the rest (nights, retries).
    """
    flight = in_flight(arrival_s, departure_s, replica)
    counts = np.ones(len(arrival_s), bool) if answered is None else answered.astype(bool)
    rows = np.flatnonzero((flight == 0) & counts & (departure_s > arrival_s))
    rule = (
        f"of {len(arrival_s)} requests met an idle system; at least {_LEAST_REQUESTS} must, for "
        "service to be told from end-to-end times"
    )
    check(len(rows) >= _LEAST_REQUESTS, "requests", len(rows), rule)
    response_s = departure_s[rows] - arrival_s[rows]
    alone = _alone(arrival_s, departure_s, replica)[rows]
    median_s, floor_s = (float(value) for value in np.quantile(response_s, [0.5, 0.05]))
    fit = None if size is None else _fit_over_sizes(size[rows], response_s)
    waits = fit is None and median_s > _MOST_SPREAD * floor_s
    noise_cv = float(response_s.std(ddof=1) / response_s.mean()) if fit is None else fit.noise_cv
    return IdleService(
        requests=len(rows),
        share=len(rows) / len(arrival_s),
        mean_s=float(response_s.mean()),
        mean_interval_s=_mean_interval(arrival_s[rows], response_s, generator),
        median_s=median_s,
        floor_s=floor_s,
        noise_cv=noise_cv,
        waits=waits,
        alone=int(alone.sum()),
        alone_median_s=float(np.median(response_s[alone])) if alone.any() else float("nan"),
        fit=fit,
        identifiable=("alpha_s + beta_s",) if fit is None else ("alpha_s", "beta_s over size"),
        by_replica=replica is not None,
    )


def in_flight(
    arrival_s: np.ndarray, departure_s: np.ndarray, replica: np.ndarray | None = None
) -> np.ndarray:
    """How many other requests `[n]` each arrival finds in flight; on its own replica where given.

    Those of the same instant count, as a coarse clock cannot order them.
    """
    _check_times(arrival_s, departure_s)
    found = np.zeros(len(arrival_s), int)
    for rows in _by_replica(len(arrival_s), replica):
        arrivals_s, departures_s = np.sort(arrival_s[rows]), np.sort(departure_s[rows])
        instant_s = arrival_s[rows]
        arrived = np.searchsorted(arrivals_s, instant_s, side="right") - 1
        departed = np.searchsorted(departures_s, instant_s, side="right")
        # One that took no time at all has both arrived and departed, and is not another.
        itself = departure_s[rows] <= instant_s
        found[rows] = arrived - (departed - itself)
    return found


def fit_overlap(
    arrival_s: np.ndarray, departure_s: np.ndarray, replica: np.ndarray | None = None
) -> OverlapFit:
    """The relative least-squares line of the response over 1 + the number in flight at arrival.

    A rough guide where nothing better is logged: the number in flight is no batch size, and the
    response holds waiting too, so beta is too large under load and too small where a server runs
    requests in turn. Never take it for a measurement.
    """
    flight = in_flight(arrival_s, departure_s, replica)
    response_s = departure_s - arrival_s
    counts = response_s > 0
    line = fit_service(1.0 + flight[counts], response_s[counts])
    return OverlapFit(line.alpha_s, line.beta_s, "derived")


def _check_times(arrival_s: np.ndarray, departure_s: np.ndarray) -> None:
    for field, values in (("arrival_s", arrival_s), ("departure_s", departure_s)):
        check(bool(np.isfinite(values).all()), field, "nan", "must be known for every request")
    before = np.flatnonzero(departure_s < arrival_s)
    if len(before):
        rule = f"must not be before the arrival {arrival_s[before[0]]}; {len(before)} requests are"
        check(False, "departure_s", float(departure_s[before[0]]), rule)


def _by_replica(requests: int, replica: np.ndarray | None) -> list[np.ndarray]:
    if replica is None:
        return [np.arange(requests)]
    return [np.flatnonzero(replica == number) for number in np.unique(replica)]


def _alone(
    arrival_s: np.ndarray, departure_s: np.ndarray, replica: np.ndarray | None
) -> np.ndarray:
    """True `[n]` where no other request arrived during the stay."""
    alone = np.zeros(len(arrival_s), bool)
    for rows in _by_replica(len(arrival_s), replica):
        arrivals_s = np.sort(arrival_s[rows])
        since = np.searchsorted(arrivals_s, arrival_s[rows], side="left")
        until = np.searchsorted(arrivals_s, departure_s[rows], side="left")
        alone[rows] = until - since <= 1
    return alone


def _fit_over_sizes(size: np.ndarray, response_s: np.ndarray) -> ServiceFit | None:
    """The line over request sizes; None where they are too alike, or where many waited."""
    low, high = np.quantile(size, [0.05, 0.95])
    if not high >= _LEAST_SIZE_RATIO * low:
        return None
    fit = fit_service(size, response_s)
    middle, floor = np.quantile(response_s / fit.expected_s(size), [0.5, 0.05])
    return fit if middle <= _MOST_SPREAD * floor else None


def _mean_interval(
    instant_s: np.ndarray, response_s: np.ndarray, generator: np.random.Generator
) -> Bounds:
    blocks = cut_into_blocks(instant_s, response_s[:, None])
    columns = np.stack([response_s, np.ones(len(response_s))], axis=1)
    sums = blocks.resample(_RESAMPLES, generator) @ blocks.sums(columns)
    # Percentiles of 6 blocks cover 92 of 100 logs, Student's t covers 95.
    mean_s = float(response_s.mean())
    chance = log_bounds(sums[:, 0] / sums[:, 1], mean_s, _CONFIDENCE, blocks.number)
    # A server that cuts durations to whole steps of its clock, as Envoy does, is half a step short
    # on average; one that rounds is not. The log does not say which.
    half_s = 0.5 * time_resolution(response_s)
    return Bounds(max(chance.low - half_s, 0.0), chance.high + half_s)
