"""How late requests are that wait for a batch to fill or to time out, in closed form."""

from typing import NamedTuple

import numpy as np

from simulator.batch_theory import poisson_probabilities

LEAST_MEAN = 1e-300  # in place of 0, whose logarithm does not exist


class FormedBatches(NamedTuple):
    """Expected values of one batch, for each batch timeout `[T]`."""

    requests: np.ndarray  # [T] requests
    busy_s: np.ndarray  # [T] s of batch latency
    late: np.ndarray  # [T] requests answered later than the limit


def formed_batches(
    arrival_rate_rps: float, timeout_s: np.ndarray, latency_s: np.ndarray, within_s: float
) -> FormedBatches:
    """What batches are like that go when b requests are there or the oldest has waited `timeout_s`.

    Poisson arrivals, and a replica is free at once: response = time to fill or time out + L(size).
    `latency_s [b]` s is L(1) .. L(b), `timeout_s [T]` s is tau, `within_s` the limit x. N(t) is the
    number of arrivals in t, S_m the instant of the m-th after the first request; y_k = x - L(k).

    - k < b requests, with probability P(N(tau) = k - 1): the first waits tau, the others arrive
      uniformly over tau. Late: 1[tau > y_k] + (k - 1) (1 - y_k / tau), the share cut to 0..1.
    - b requests, where S_{b-1} <= tau. The first waits S = S_{b-1}, the last not at all, the rest
      arrive uniformly over S; as the density of S_m over t is lambda / (m - 1) times that of
      S_{m-1}, late = (b - 1) P(y < S_{b-1} <= tau) - lambda y P(y < S_{b-2} <= tau), with y = y_b
      at least 0; below 0 all b are late.

    The analytic tail of BATCH (SC20) for arrivals of one rate; derived here.
    """
    most = len(latency_s)
    size = np.arange(1, most + 1)
    in_timeout = _arrivals(arrival_rate_rps * timeout_s, most)
    early = in_timeout[:, :-1]  # [T, b - 1] probability of 1 .. b - 1 requests
    full = 1.0 - early.sum(axis=1)  # [T]
    spare_s = within_s - latency_s
    with np.errstate(divide="ignore", invalid="ignore"):
        share = 1.0 - spare_s[:-1] / timeout_s[:, None]  # of those after the first
    share = np.where(timeout_s[:, None] > 0.0, share, spare_s[:-1] < 0.0).clip(0.0, 1.0)
    late = (timeout_s[:, None] > spare_s[:-1]) + (size[:-1] - 1) * share
    return FormedBatches(
        requests=early @ size[:-1] + most * full,
        busy_s=early @ latency_s[:-1] + latency_s[-1] * full,
        late=(early * late).sum(axis=1)
        + _late_of_full(arrival_rate_rps, timeout_s, most, float(spare_s[-1]), full),
    )


def _late_of_full(
    rate_rps: float, timeout_s: np.ndarray, most: int, spare_s: float, full: np.ndarray
) -> np.ndarray:
    """Late requests `[T]` of batches of `most`, which happen with probability `full [T]`."""
    if spare_s < 0.0:
        return most * full
    until_s = np.minimum(timeout_s, spare_s)
    within, until = (_arrivals(rate_rps * time_s, most) for time_s in (timeout_s, until_s))
    # P(y < S_m <= tau) = P(N(y) < m) - P(N(tau) < m)
    all_after = (until - within)[:, : most - 1].sum(axis=1)
    rest_after = (until - within)[:, : max(most - 2, 0)].sum(axis=1)
    # Both differences round to something near 0 where the timeout is shorter than y.
    return np.maximum((most - 1) * all_after - rate_rps * spare_s * rest_after, 0.0)


def _arrivals(mean: np.ndarray, count: int) -> np.ndarray:
    return poisson_probabilities(np.maximum(mean, LEAST_MEAN), count)


class Candidates(NamedTuple):
    """What a set-point of a class may be, and what its batches take."""

    sizes: np.ndarray  # [Z] requests
    timeout_s: np.ndarray  # [T] s, ascending
    latency_s: np.ndarray  # [M] s of 1 .. M requests, M at least the largest size


class SetPoint(NamedTuple):
    """A batch size by its place among the candidates, and a batch timeout."""

    place: int
    timeout_s: float


def best_set_point(
    rates_rps: np.ndarray,
    candidates: Candidates,
    within_s: float,
    percentile: float,
    replicas: int,
) -> SetPoint:
    """The candidate with the least busy time per request whose responses are in time.

    `rates_rps [P]`: phases that last long against a batch timeout, each as often as the next. At
    most 1 - `percentile` of the requests may take longer than `within_s`, and `replicas` must carry
    the busiest phase. Ties: the shortest timeout, then the smallest size. Where no candidate will
    do, the largest size without a timeout.
    """
    sizes, timeout_s, latency_s = candidates
    busy_s = np.zeros((len(sizes), len(timeout_s)))  # per second, over the phases
    late, load = np.zeros_like(busy_s), np.zeros_like(busy_s)
    for place, size in enumerate(sizes.tolist()):
        for rate_rps in rates_rps[rates_rps > 0.0].tolist():
            formed = formed_batches(rate_rps, timeout_s, latency_s[:size], within_s)
            batches_rps = rate_rps / formed.requests
            busy_s[place] += batches_rps * formed.busy_s
            late[place] += batches_rps * formed.late
            load[place] = np.maximum(load[place], batches_rps * formed.busy_s / replicas)
    will_do = (late <= (1.0 - percentile) * rates_rps.sum()) & (load < 1.0)
    if not will_do.any():
        return SetPoint(len(sizes) - 1, 0.0)
    cost = np.where(will_do, busy_s, np.inf).T  # [T, Z]: the first of equals has a short timeout
    column, best = divmod(int(cost.argmin()), len(sizes))
    return SetPoint(best, float(timeout_s[column]))
