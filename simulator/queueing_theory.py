"""Closed forms of queues with one replica, that the simulator is tested against.

Poisson arrivals, an unlimited queue, FIFO unless said otherwise. Rates per second, times in
seconds. Queues with several replicas: `multiserver_theory`; batches: `batch_theory`.
"""

import math
from collections.abc import Sequence

import numpy as np

from simulator.checks import check


def stable_offered_load(arrival_rate_rps: float, service_s: float, replicas: int = 1) -> float:
    """Offered load `rho = lambda S / c` of c replicas that serve one by one.

    Raises ValueError at a load of 1 or more, where no steady state exists.
    """
    check_times(arrival_rate_rps=arrival_rate_rps, service_s=service_s)
    check(replicas >= 1, "replicas", replicas, "must be at least 1")
    load = arrival_rate_rps * service_s / replicas
    check(load < 1.0, "offered load", load, "a steady state needs a load in [0, 1)")
    return load


def check_times(**values: float) -> None:
    """Raises ValueError unless every value is a finite number of at least 0."""
    for field, value in values.items():
        check(math.isfinite(value) and value >= 0, field, value, "must be finite, at least 0")


def mm1_waiting_s(arrival_rate_rps: float, service_s: float) -> float:
    """Mean waiting time of M/M/1: `W_q = rho S / (1 - rho)` with `rho = lambda S`.

    Kleinrock, Queueing Systems I, section 3.2. Raises ValueError at a load of 1 or more.
    """
    load = stable_offered_load(arrival_rate_rps, service_s)
    return load * service_s / (1.0 - load)


def mg1_waiting_s(arrival_rate_rps: float, service_s: float, service_cv: float) -> float:
    """Mean waiting time of M/G/1: `W_q = rho S (1 + cv^2) / (2 (1 - rho))`.

    Pollaczek and Khinchine; Kleinrock, Queueing Systems I, section 5.6. `service_cv` is the
    coefficient of variation of the service time. Raises ValueError at a load of 1 or more.
    """
    load = stable_offered_load(arrival_rate_rps, service_s)
    check_times(service_cv=service_cv)
    return load * service_s * (1.0 + service_cv**2) / (2.0 * (1.0 - load))


def md1_waiting_s(arrival_rate_rps: float, service_s: float) -> float:
    """Mean waiting time of M/D/1: half of that of M/M/1 (M/G/1 without variation)."""
    return mg1_waiting_s(arrival_rate_rps, service_s, 0.0)


def lognormal_third_moment_s3(service_s: float, service_cv: float) -> float:
    """Third moment `S^3 (1 + cv^2)^3` of a lognormal service time of mean S, in s^3.

    With `service_cv` 0 it is that of a constant one. Johnson, Kotz and Balakrishnan, Continuous
    Univariate Distributions 1, chapter 14.
    """
    check_times(service_s=service_s, service_cv=service_cv)
    return (service_s * (1.0 + service_cv**2)) ** 3


def mg1_waiting_variance_s2(
    arrival_rate_rps: float, service_s: float, service_cv: float, third_moment_s3: float
) -> float:
    """Variance of the waiting time of M/G/1: `W_q^2 + lambda E[S^3] / (3 (1 - rho))`, in s^2.

    Takacs 1962; Kleinrock, Queueing Systems I, section 5.7 (there the second moment, which is
    this plus `W_q^2`). Raises ValueError at a load of 1 or more, or at a third moment below the
    least that the mean and `service_cv` allow, `E[S^2]^2 / E[S]`.
    """
    waiting_s = mg1_waiting_s(arrival_rate_rps, service_s, service_cv)
    least_s3 = service_s**3 * (1.0 + service_cv**2) ** 2
    check(
        math.isfinite(third_moment_s3) and third_moment_s3 >= least_s3 * (1.0 - 1e-12),
        "third_moment_s3",
        third_moment_s3,
        f"must be finite and at least {least_s3!r}, by the inequality of Cauchy and Schwarz",
    )
    load = arrival_rate_rps * service_s
    return waiting_s**2 + arrival_rate_rps * third_moment_s3 / (3.0 * (1.0 - load))


def mg1_cold_start_waiting_s(
    arrival_rate_rps: float,
    service_s: float,
    service_cv: float,
    cold_start_s: float,
    cold_start_cv: float,
) -> float:
    """Mean waiting time of M/G/1 whose replica is off whenever it is empty.

    The departure that leaves nobody behind switches the replica off at once. The next arrival
    finds it off and starts it; service begins `U` later, the cold start (in theory: setup time),
    independent of the service times. The cold start counts as waiting:

        W_q = W_q(M/G/1) + (2 E[U] + lambda E[U^2]) / (2 (1 + lambda E[U]))

    Welch 1964, Operations Research 12(5), whose exceptional first service is here `U + S`;
    Harchol-Balter, Performance Modeling and Design, section 27.3. `cold_start_cv` is the
    coefficient of variation of U. Raises ValueError at a load of 1 or more.
    """
    waiting_s = mg1_waiting_s(arrival_rate_rps, service_s, service_cv)
    check_times(cold_start_s=cold_start_s, cold_start_cv=cold_start_cv)
    second_moment_s2 = cold_start_s**2 * (1.0 + cold_start_cv**2)
    delay_s = 2.0 * cold_start_s + arrival_rate_rps * second_moment_s2
    return waiting_s + delay_s / (2.0 * (1.0 + arrival_rate_rps * cold_start_s))


def mg1_processor_sharing_response_s(arrival_rate_rps: float, service_s: float) -> float:
    """Mean response time of M/G/1 under processor sharing: `S / (1 - rho)`, whatever the law of S.

    All n requests in the system are served at once, each at speed 1/n. Kleinrock, Queueing
    Systems II, section 4.4. Raises ValueError at a load of 1 or more.
    """
    return service_s / (1.0 - stable_offered_load(arrival_rate_rps, service_s))


def mg1_processor_sharing_response_of_s(
    arrival_rate_rps: float, service_s: float, demand_s: float
) -> float:
    """Mean response time of a request that alone would take x = `demand_s`: `x / (1 - rho)`.

    M/G/1 under processor sharing with mean service time `service_s`; Kleinrock, Queueing
    Systems II, section 4.4. Raises ValueError at a load of 1 or more.
    """
    check_times(demand_s=demand_s)
    return demand_s / (1.0 - stable_offered_load(arrival_rate_rps, service_s))


def mg1_priority_waiting_s(
    arrival_rate_rps: Sequence[float], service_s: Sequence[float], service_cv: Sequence[float]
) -> np.ndarray:
    """Mean waiting time of each class of M/G/1 with priorities that never interrupt a service.

    Arguments and answer are `[C]`, the class served first at index 0; FIFO within a class.

        W_k = W_0 / ((1 - sigma_{k-1}) (1 - sigma_k)),   W_0 = sum_i lambda_i E[S_i^2] / 2

    with `sigma_k = rho_0 + ... + rho_k`. Cobham 1954, Operations Research 2(1); Kleinrock,
    Queueing Systems II, chapter 3 (there the last class goes first). Raises ValueError where
    the lengths differ, or at a total load of 1 or more.
    """
    lengths = (len(arrival_rate_rps), len(service_s), len(service_cv))
    check(len(set(lengths)) == 1, "classes", lengths, "needs one value of each kind per class")
    check(lengths[0] >= 1, "classes", lengths[0], "needs at least one class")
    for rate_rps, mean_s, cv in zip(arrival_rate_rps, service_s, service_cv, strict=True):
        check_times(arrival_rate_rps=rate_rps, service_s=mean_s, service_cv=cv)
    rates_rps, means_s, cvs = (
        np.asarray(values, float) for values in (arrival_rate_rps, service_s, service_cv)
    )
    higher_load = np.concatenate([[0.0], np.cumsum(rates_rps * means_s)])
    load = float(higher_load[-1])
    check(load < 1.0, "offered load", load, "a steady state needs a load in [0, 1)")
    residual_s = 0.5 * np.sum(rates_rps * means_s**2 * (1.0 + cvs**2))
    return residual_s / ((1.0 - higher_load[:-1]) * (1.0 - higher_load[1:]))
