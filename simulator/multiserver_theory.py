"""Closed forms of queues with several equal replicas and one central FIFO queue.

Poisson arrivals, requests served one by one. Rates per second, times in seconds; c = `replicas`,
S = `service_s`, a = `lambda S`, rho = a / c.
"""

import numpy as np

from simulator.checks import check
from simulator.queueing_theory import check_times, stable_offered_load

NEWTON_STEPS = 60
ROOT_TOLERANCE = 1e-14


def erlang_b(arrival_rate_rps: float, service_s: float, replicas: int) -> float:
    """Blocking probability of M/G/c without waiting places (Erlang B), at any load.

    `B(0) = 1`, `B(k) = a B(k-1) / (k + a B(k-1))`: the recursion has no large factorials.
    Kleinrock, Queueing Systems I, section 3.7; Cooper, Introduction to Queueing Theory, chapter 3.
    """
    check_times(arrival_rate_rps=arrival_rate_rps, service_s=service_s)
    check(replicas >= 1, "replicas", replicas, "must be at least 1")
    traffic = arrival_rate_rps * service_s
    blocking = 1.0
    for busy in range(1, replicas + 1):
        blocking = traffic * blocking / (busy + traffic * blocking)
    return blocking


def erlang_c(arrival_rate_rps: float, service_s: float, replicas: int) -> float:
    """Probability that a request of M/M/c has to wait: `B / (1 - rho (1 - B))`, B of Erlang B.

    Kleinrock, Queueing Systems I, section 3.5. Raises ValueError at a load of 1 or more.
    """
    load = stable_offered_load(arrival_rate_rps, service_s, replicas)
    blocking = erlang_b(arrival_rate_rps, service_s, replicas)
    return blocking / (1.0 - load * (1.0 - blocking))


def mmc_waiting_s(arrival_rate_rps: float, service_s: float, replicas: int) -> float:
    """Mean waiting time of M/M/c, all requests: `W_q = C S / (c (1 - rho))`, C of Erlang C.

    Kleinrock, Queueing Systems I, section 3.5. Raises ValueError at a load of 1 or more.
    """
    load = stable_offered_load(arrival_rate_rps, service_s, replicas)
    waits = erlang_c(arrival_rate_rps, service_s, replicas)
    return waits * service_s / (replicas * (1.0 - load))


def _mmcn(
    arrival_rate_rps: float, service_s: float, replicas: int, queue_capacity: int
) -> tuple[float, float]:
    # Blocking probability and mean queue length. One more waiting place divides all former state
    # probabilities by 1 + rho P(full), so no power of a load above 1 is ever formed.
    check(queue_capacity >= 0, "queue_capacity", queue_capacity, "must be at least 0")
    blocking = erlang_b(arrival_rate_rps, service_s, replicas)
    load = arrival_rate_rps * service_s / replicas
    queue_length = 0.0
    for place in range(1, queue_capacity + 1):
        full = load * blocking
        queue_length = (queue_length + place * full) / (1.0 + full)
        blocking = full / (1.0 + full)
    return blocking, queue_length


def mmcn_blocking_probability(
    arrival_rate_rps: float, service_s: float, replicas: int, queue_capacity: int
) -> float:
    """Share of the requests of M/M/c/N that are shed, at any load.

    N = `queue_capacity` is the number of *waiting* places, those in service excluded: at most
    c + N requests are in the system, and an arrival that finds c + N is shed. (Many books write
    M/M/c/K with K = c + N.) N = 0 is Erlang B. Gross and Harris, Fundamentals of Queueing
    Theory, chapter 2 (M/M/c/K).
    """
    return _mmcn(arrival_rate_rps, service_s, replicas, queue_capacity)[0]


def mmcn_waiting_s(
    arrival_rate_rps: float, service_s: float, replicas: int, queue_capacity: int
) -> float:
    """Mean waiting time of the *accepted* requests of M/M/c/N, at any load.

    Little's law: mean queue length / (lambda (1 - blocking probability)). N as in
    `mmcn_blocking_probability`; same sources. Raises ValueError at an arrival rate of 0.
    """
    check(arrival_rate_rps > 0, "arrival_rate_rps", arrival_rate_rps, "must be above 0")
    blocking, queue_length = _mmcn(arrival_rate_rps, service_s, replicas, queue_capacity)
    return queue_length / (arrival_rate_rps * (1.0 - blocking))


def crommelin_roots(mean_arrivals: float, places: int) -> np.ndarray:
    """The roots of `z^c = exp(-a (1 - z))` inside the unit circle, z = 1 left out: `[c - 1]`.

    a = `mean_arrivals` < c = `places`. The k-th root solves `z = omega^k exp(-(a / c) (1 - z))`
    with `omega = exp(2 pi i / c)`: a contraction on the disc, so repeated substitution approaches
    its only root there, and Newton's method finishes. Crommelin 1932; Tijms, A First Course in
    Stochastic Models, appendix G. Raises ValueError unless a < c, RuntimeError if a root is not
    found.
    """
    load = stable_offered_load(mean_arrivals, 1.0, places)
    unit_root = np.exp(2j * np.pi * np.arange(1, places) / places)
    root = np.zeros(places - 1, complex)
    for _ in range(NEWTON_STEPS):
        root = unit_root * np.exp(-load * (1.0 - root))
    for _ in range(NEWTON_STEPS):
        image = unit_root * np.exp(-load * (1.0 - root))
        if np.all(np.abs(root - image) < ROOT_TOLERANCE):
            return root
        root = root - (root - image) / (1.0 - load * image)
    raise RuntimeError(f"no {places} roots at mean_arrivals = {mean_arrivals!r}")


def left_behind(mean_arrivals: float, places: int) -> float:
    """Mean of the stationary Q of `Q' = max(Q + A - c, 0)`, A Poisson of mean a < c.

    It is the queue length of M/D/c, and the requests left over when a batch of up to c is taken
    at constant intervals. With the roots `z_k` of `crommelin_roots`:

        E[Q] = (a^2 - c (c - 1)) / (2 (c - a)) + sum_k 1 / (1 - z_k)

    Crommelin 1932, Post Office Electrical Engineers' Journal 25; Bailey 1954, Journal of the
    Royal Statistical Society B 16. Raises ValueError unless a < c.
    """
    root = crommelin_roots(mean_arrivals, places)
    load = mean_arrivals / places
    unit_root = np.exp(2j * np.pi * np.arange(1, places) / places)
    # sum_k 1 / (1 - omega^k) = (c - 1) / 2 is taken from the sum and put into the first term: what
    # is left is of the size of a, not of c, and keeps its digits when hardly anybody waits.
    excess = unit_root * np.expm1(-load * (1.0 - root)) / ((1.0 - root) * (1.0 - unit_root))
    mean = mean_arrivals * (0.5 / (places - mean_arrivals) - 0.5) + float(np.sum(excess.real))
    return max(mean, 0.0)  # rounding may leave -1e-17 at a load near 0


def mdc_waiting_s(arrival_rate_rps: float, service_s: float, replicas: int) -> float:
    """Mean waiting time of M/D/c, exact: mean queue length / lambda, by `left_behind`.

    Whoever is in service at t has left by t + S and nobody else has, so the number in system obeys
    `X(t + S) = max(X(t) - c, 0) + A`. Crommelin 1932; Tijms, A First Course in Stochastic Models,
    section 9.6. Rounding stays below 1e-10 S. Raises ValueError at a load of 1 or more.
    """
    load = stable_offered_load(arrival_rate_rps, service_s, replicas)
    if load == 0.0:
        return 0.0
    return left_behind(load * replicas, replicas) / arrival_rate_rps
