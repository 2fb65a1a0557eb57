"""Queues with one replica that serves in batches: Poisson arrivals, one central FIFO queue.

Rates per second, times in seconds; b = `max_batch_size`, L = batch latency, a = `lambda L(b)`.
"Greedy" is the rule `static_cap(b)`: an idle replica takes min(n, b) of the n waiting at once.
"Full" is `static_fill(b)`: it takes b, and waits until b are there.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from simulator.checks import check
from simulator.multiserver_theory import crommelin_roots, left_behind, mdc_waiting_s
from simulator.queueing_theory import check_times, stable_offered_load

TAIL = 1e-15
MOST_STATES = 4000


class BatchQueue(NamedTuple):
    """Steady state of a replica that serves greedily in batches."""

    response_s: float  # mean
    batch_size: float  # mean over batches
    utilization: float


def poisson_probabilities(mean: np.ndarray, count: int) -> np.ndarray:
    """Probabilities of 0..count-1 arrivals: `[M, count]` for means `[M]`, all above 0."""
    number = np.arange(count)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, count)))])
    return np.exp(number * np.log(mean)[:, None] - mean[:, None] - log_factorial)


def stationary_probabilities(transition: np.ndarray) -> np.ndarray:
    """Stationary law `[S]` of a chain with one recurrent class, from its matrix `[S, S]`.

    Solves `p P = p` with one equation exchanged for `sum(p) = 1`; transient states may exist.
    """
    equations = transition.T - np.eye(len(transition))
    equations[-1] = 1.0
    right_side = np.zeros(len(transition))
    right_side[-1] = 1.0
    return np.linalg.solve(equations, right_side)


def full_batch_response_s(
    arrival_rate_rps: float, batch_latency_s: float, max_batch_size: int
) -> float:
    """Mean response time under `static_fill(b)`, exact: `(b - 1) / (2 lambda) + W_q(M/D/b) + L`.

    A request waits for its batch to fill, then the batch waits in the queue E_b/D/1. In M/D/b each
    server gets every b-th request, which is the same queue, so the waiting times are equal. The
    last, partial batch is never sent. Iversen, Teletraffic Engineering Handbook, on
    M/D/n, for the equality. Raises ValueError at `lambda L / b` of 1 or more, or at an arrival
    rate of 0 (no batch ever fills).
    """
    check(arrival_rate_rps > 0, "arrival_rate_rps", arrival_rate_rps, "must be above 0")
    filling_s = (max_batch_size - 1) / (2.0 * arrival_rate_rps)
    waiting_s = mdc_waiting_s(arrival_rate_rps, batch_latency_s, max_batch_size)
    return filling_s + waiting_s + batch_latency_s


def constant_batch_response_s(
    arrival_rate_rps: float, batch_latency_s: float, max_batch_size: int
) -> float:
    """Mean response time of greedy batches, M/D^(1..b)/1, exact, if L does not depend on the size.

    The number Y left at a completion has the law that Bailey found (there an empty service is
    started when nobody waits, which leaves the same law): `E[Y] = a + E[Q]` with `left_behind`, and
    `P(Y = 0) = (b - a) prod_k z_k / (z_k - 1)` with `crommelin_roots`. A cycle from completion to
    completion lasts L, plus 1/lambda if Y = 0; so by Little's law

        response = L (E[Y] + P(Y = 0) + a / 2) / (a + P(Y = 0))

    Bailey 1954, Journal of the Royal Statistical Society B 16; Downton 1955, the same, B 17.
    Raises ValueError at `lambda L / b` of 1 or more.
    """
    load = stable_offered_load(arrival_rate_rps, batch_latency_s, max_batch_size)
    if load == 0.0:
        return batch_latency_s
    arrivals = load * max_batch_size  # mean during one batch
    root = crommelin_roots(arrivals, max_batch_size)
    empty = (max_batch_size - arrivals) * float(np.prod(root / (root - 1.0)).real)
    left = arrivals + left_behind(arrivals, max_batch_size)
    return batch_latency_s * (left + empty + arrivals / 2.0) / (arrivals + empty)


def state_limit(arrivals: np.ndarray) -> int:
    """The number left S by a greedy batch above which less than 1e-15 of a geometric tail lies.

    `arrivals [b]` is the mean number during a batch of 1..b; ascending, the last below b.
    """
    # The number left has a tail like z^-n, where z > 1 solves z^b = exp(a (z - 1)). The function
    # b log(z) - a (z - 1) is 0 at z = 1, rises to z = b / a and then falls to its other zero.
    size, mean, most = len(arrivals), float(arrivals[-1]), float(arrivals.max())
    low, high = size / mean, 2.0 * size / mean
    while size * math.log(high) > mean * (high - 1.0):
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        above = size * math.log(middle) > mean * (middle - 1.0)
        low, high = (middle, high) if above else (low, middle)
    tail = -math.log(TAIL) / math.log(low)
    limit = size + math.ceil(tail + most + 9.0 * math.sqrt(most))  # 9 deviations of one batch
    check(limit <= MOST_STATES, "states", limit, f"load too near 1: at most {MOST_STATES}")
    return limit


def _chain(arrivals: np.ndarray, number: np.ndarray, size: np.ndarray) -> np.ndarray:
    # [S, S] from the number left at a completion to that at the next one; the last state holds
    # whatever lies above it.
    states = len(number)
    arrived = poisson_probabilities(arrivals, states)
    transition = np.zeros((states, states))
    for state, kept in enumerate(number - size):
        transition[state, kept:] = arrived[size[state] - 1, : states - kept]
        transition[state, -1] += 1.0 - transition[state].sum()
    return transition


def greedy_batch_queue(arrival_rate_rps: float, batch_latency_s: Sequence[float]) -> BatchQueue:
    """Steady state of greedy batches whose latency depends on their size, `[b]` s for sizes 1..b.

    With Y requests left at a completion, the next batch has `m = min(max(Y, 1), b)` requests, n =
    max(Y, 1) are in the system when it starts, and `Y' = n - m + Poisson(lambda L(m))`. The law of
    Y is solved on 0..S, where S is chosen so that less than 1e-15 of a geometric tail lies above;
    the mean number in system, integrated over a cycle, gives the response time by Little's law.
    Truncation and rounding together stay below 1e-9 of it up to a load of 0.98, 1e-8 above. Bailey
    1954; Neuts 1967, Annals of Mathematical Statistics 38(3), for the batches of 1..b.

    Raises ValueError unless `lambda L(b) < b`, or where S would pass 4000 (above a load of 0.995).
    """
    latency_s = np.asarray(batch_latency_s, float)
    check(latency_s.ndim == 1 and latency_s.size >= 1, "batch_latency_s", batch_latency_s, "[b] s")
    for size, value in enumerate(latency_s, start=1):
        check_times(**{f"batch_latency_s of {size}": float(value)})
        check(value > 0, f"batch_latency_s of {size}", float(value), "must be above 0")
    check(arrival_rate_rps > 0, "arrival_rate_rps", arrival_rate_rps, "must be above 0")
    stable_offered_load(arrival_rate_rps, float(latency_s[-1]), latency_s.size)
    arrivals = arrival_rate_rps * latency_s
    number = np.maximum(np.arange(state_limit(arrivals) + 1), 1)
    taken = np.minimum(number, latency_s.size)
    probability = stationary_probabilities(_chain(arrivals, number, taken))
    busy_s = float(probability @ latency_s[taken - 1])
    cycle_s = busy_s + float(probability[0]) / arrival_rate_rps
    in_system_s = probability @ (latency_s[taken - 1] * (number + arrivals[taken - 1] / 2.0))
    return BatchQueue(
        response_s=float(in_system_s) / (cycle_s * arrival_rate_rps),
        batch_size=float(probability @ taken),
        utilization=busy_s / cycle_s,
    )
