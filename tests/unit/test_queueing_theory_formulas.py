"""Closed forms against each other in their limits, published tables and small numeric chains."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from simulator.batch_theory import stationary_probabilities
from simulator.multiserver_theory import (
    crommelin_roots,
    erlang_b,
    erlang_c,
    mdc_waiting_s,
    mmc_waiting_s,
    mmcn_blocking_probability,
    mmcn_waiting_s,
)
from simulator.queueing_theory import (
    lognormal_third_moment_s3,
    md1_waiting_s,
    mg1_cold_start_waiting_s,
    mg1_priority_waiting_s,
    mg1_processor_sharing_response_of_s,
    mg1_processor_sharing_response_s,
    mg1_waiting_s,
    mg1_waiting_variance_s2,
    mm1_waiting_s,
)


def poisson(mean: float, count: int) -> np.ndarray:
    """Probabilities of 0..count-1, by their recursion."""
    probability = [math.exp(-mean)]
    for number in range(1, count):
        probability.append(probability[-1] * mean / number)
    return np.array(probability)


def iterated_law(first: dict[int, np.ndarray], served: int, rest: np.ndarray) -> np.ndarray:
    """Law of `Y' = Y - served + A`, A of law `rest`; `first[y]` is the law of Y' from a small y.

    By iteration from an empty system, not by a linear solve: independent of the code under test.
    """
    law = np.zeros(len(rest))
    law[0] = 1.0
    for _ in range(20_000):
        after = np.convolve(law[len(first) :], rest)
        moved = np.zeros(len(rest))
        kept = after[: len(rest) - (len(first) - served)]
        moved[len(first) - served :] = kept
        for state, arrived in first.items():
            moved += law[state] * arrived
        moved /= moved.sum()
        if np.abs(moved - law).max() < 1e-16:
            break
        law = moved
    return law


# One replica


def test_mg1_with_the_variation_of_an_exponential_service_is_mm1() -> None:
    assert mg1_waiting_s(0.7, 1.2, 1.0) == pytest.approx(mm1_waiting_s(0.7, 1.2), rel=1e-14)
    assert md1_waiting_s(0.7, 1.2) == pytest.approx(mm1_waiting_s(0.7, 1.2) / 2, rel=1e-14)


def test_waiting_variance_of_mm1_is_that_of_its_known_law() -> None:
    # W is 0 with probability 1 - rho, else exponential with mean S / (1 - rho).
    load, service_s = 0.8, 2.0
    variance_s2 = load * (2 - load) * (service_s / (1 - load)) ** 2
    found = mg1_waiting_variance_s2(load / service_s, service_s, 1.0, 6 * service_s**3)
    assert found == pytest.approx(variance_s2, rel=1e-13)


def test_waiting_variance_of_md1_is_that_of_its_embedded_chain() -> None:
    # Those left behind arrived during the response time T: E[Y (Y - 1)] = lambda^2 E[T^2].
    load = 0.6
    arrived = poisson(load, 120)
    law = iterated_law({0: arrived}, 1, arrived)
    number = np.arange(len(law))
    second_s2 = law @ (number * (number - 1.0)) / load**2
    variance_s2 = second_s2 - (md1_waiting_s(load, 1.0) + 1.0) ** 2
    third_s3 = lognormal_third_moment_s3(1.0, 0.0)
    assert mg1_waiting_variance_s2(load, 1.0, 0.0, third_s3) == pytest.approx(variance_s2, rel=1e-9)


def test_third_moment_is_that_of_a_lognormal_sample() -> None:
    sigma = math.sqrt(math.log1p(0.3**2))
    node, weight = np.polynomial.hermite_e.hermegauss(60)
    sample = 2.0 * np.exp(sigma * node - sigma**2 / 2)
    expected = weight @ sample**3 / weight.sum()
    assert lognormal_third_moment_s3(2.0, 0.3) == pytest.approx(expected, rel=1e-12)


def test_cold_start_of_no_time_is_mg1_and_an_exponential_one_adds_its_mean() -> None:
    plain_s = mg1_waiting_s(0.4, 1.5, 0.5)
    assert mg1_cold_start_waiting_s(0.4, 1.5, 0.5, 0.0, 0.0) == plain_s
    found_s = mg1_cold_start_waiting_s(0.4, 1.5, 0.5, 7.0, 1.0)
    assert found_s == pytest.approx(plain_s + 7.0, rel=1e-14)


def test_constant_cold_start_is_that_of_the_embedded_chain() -> None:
    # The request that finds nobody occupies the replica for U + S, all others for S.
    rate_rps, service_s, cold_start_s = 0.5, 1.0, 3.0
    first = poisson(rate_rps * (service_s + cold_start_s), 100)
    law = iterated_law({0: first}, 1, poisson(rate_rps * service_s, 100))
    response_s = law @ np.arange(len(law)) / rate_rps
    found_s = mg1_cold_start_waiting_s(rate_rps, service_s, 0.0, cold_start_s, 0.0)
    assert found_s + service_s == pytest.approx(response_s, rel=1e-10)


def test_processor_sharing_has_the_mean_response_of_mm1_and_averages_over_demands() -> None:
    fifo_s = mm1_waiting_s(0.5, 1.6) + 1.6
    assert mg1_processor_sharing_response_s(0.5, 1.6) == pytest.approx(fifo_s, rel=1e-14)
    by_demand_s = [mg1_processor_sharing_response_of_s(0.5, 1.6, x) for x in (0.4, 2.8)]
    assert np.mean(by_demand_s) == pytest.approx(fifo_s, rel=1e-14)  # the mean of 0.4, 2.8 is 1.6
    assert by_demand_s[1] / by_demand_s[0] == pytest.approx(7.0, rel=1e-14)


# Priorities


def test_priority_of_one_class_is_mg1() -> None:
    assert mg1_priority_waiting_s([0.4], [1.5], [0.5])[0] == pytest.approx(
        mg1_waiting_s(0.4, 1.5, 0.5), rel=1e-14
    )


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 2, 0]])
def test_priorities_obey_the_conservation_law(order: list[int]) -> None:
    # sum rho_k W_k = rho W_0 / (1 - rho), whatever the order (Kleinrock 1965).
    rate_rps, service_s = np.array([0.3, 0.05, 0.2])[order], np.array([0.5, 6.0, 1.0])[order]
    service_cv = np.array([0.0, 1.0, 2.0])[order]
    load = rate_rps * service_s
    residual_s = np.sum(rate_rps * service_s**2 * (1 + service_cv**2)) / 2
    waiting_s = mg1_priority_waiting_s(rate_rps, service_s, service_cv)
    conserved_s = load.sum() * residual_s / (1 - load.sum())
    assert load @ waiting_s == pytest.approx(conserved_s, rel=1e-13)
    assert np.all(np.diff(waiting_s) > 0)


def test_two_exponential_classes_wait_as_in_their_markov_chain() -> None:
    rate, service = (0.2, 0.25), (0.8, 1.1)
    most = 22  # of each class waiting; the rest of the probability is below 1e-7
    states = [(0, 0, 0)]  # class in service + 1 (0 = idle), number waiting of each class
    states += [(s, i, j) for s in (1, 2) for i in range(most) for j in range(most)]
    index = {state: number for number, state in enumerate(states)}
    flow = np.zeros((len(states), len(states)))
    for (busy, high, low), row in index.items():
        for arriving in (0, 1):
            after = (busy, high + (arriving == 0), low + (arriving == 1))
            column = index.get(after if busy else (arriving + 1, 0, 0))
            if column is not None:
                flow[row, column] += rate[arriving]
        if busy:
            after = (1, high - 1, low) if high else (2, 0, low - 1) if low else (0, 0, 0)
            flow[row, index[after]] += 1 / service[busy - 1]
    flow /= 4.0  # faster than any state is left: the chain observed at Poisson instants
    flow[np.diag_indices(len(states))] = 1 - flow.sum(1)
    law = stationary_probabilities(flow)
    waiting = law @ np.array([state[1:] for state in states])
    found_s = mg1_priority_waiting_s(rate, service, (1.0, 1.0))
    assert found_s == pytest.approx(waiting / np.array(rate), rel=1e-5)


# Several replicas


@pytest.mark.parametrize(
    ("replicas", "traffic"), [(1, 0.0101), (5, 1.361), (10, 4.461), (20, 12.03), (100, 84.06)]
)
def test_erlang_b_is_one_percent_at_the_published_traffic(replicas: int, traffic: float) -> None:
    # The usual table of Erlang B at grade of service 0.01, traffic given to four digits.
    assert erlang_b(traffic, 1.0, replicas) == pytest.approx(0.01, abs=2e-5)


@pytest.mark.parametrize(
    ("replicas", "traffic", "waits"), [(2, 1, Fraction(1, 3)), (3, 2, Fraction(4, 9))]
)
def test_erlang_c_is_that_of_the_textbook(replicas: int, traffic: int, waits: Fraction) -> None:
    terms = [Fraction(traffic**k, math.factorial(k)) for k in range(replicas + 1)]
    last = terms[-1] * replicas / (replicas - traffic)
    assert last / (sum(terms[:-1]) + last) == waits
    assert erlang_c(traffic, 1.0, replicas) == pytest.approx(float(waits), rel=1e-14)


def test_mmc_with_one_replica_is_mm1_and_mdc_is_md1() -> None:
    assert erlang_c(0.7, 1.2, 1) == pytest.approx(0.84, rel=1e-14)
    assert mmc_waiting_s(0.7, 1.2, 1) == pytest.approx(mm1_waiting_s(0.7, 1.2), rel=1e-13)
    assert mdc_waiting_s(0.7, 1.2, 1) == pytest.approx(md1_waiting_s(0.7, 1.2), rel=1e-13)


@pytest.mark.parametrize(("rate_rps", "capacity"), [(1.0, 4), (3.0, 1), (5.0, 7)])
def test_mmcn_is_its_birth_and_death_process(rate_rps: float, capacity: int) -> None:
    replicas, service_s = 3, 0.9
    weight = [1.0]
    for number in range(1, replicas + capacity + 1):
        weight.append(weight[-1] * rate_rps * service_s / min(number, replicas))
    law = np.array(weight) / sum(weight)
    queue_length = law @ np.maximum(np.arange(len(law)) - replicas, 0)
    shed = mmcn_blocking_probability(rate_rps, service_s, replicas, capacity)
    assert shed == pytest.approx(law[-1], rel=1e-13)
    waiting_s = mmcn_waiting_s(rate_rps, service_s, replicas, capacity)
    assert waiting_s == pytest.approx(queue_length / (rate_rps * (1 - law[-1])), rel=1e-13)


def test_mmcn_tends_to_erlang_b_and_to_mmc() -> None:
    assert mmcn_blocking_probability(5.0, 1.0, 4, 0) == erlang_b(5.0, 1.0, 4)
    assert mmcn_waiting_s(5.0, 1.0, 4, 0) == 0.0
    waiting_s = mmcn_waiting_s(3.2, 1.0, 4, 400)
    assert waiting_s == pytest.approx(mmc_waiting_s(3.2, 1.0, 4), rel=1e-12)
    # In overload the replicas are always busy: they accept what they can serve.
    assert mmcn_blocking_probability(8.0, 1.0, 4, 2000) == pytest.approx(0.5, rel=1e-12)
    assert mmcn_waiting_s(8.0, 1.0, 4, 2000) == pytest.approx((2000 - 1) / 4, rel=1e-12)


@pytest.mark.parametrize(("replicas", "load"), [(2, 0.5), (3, 0.8), (8, 0.7), (20, 0.9)])
def test_mdc_is_the_chain_of_numbers_one_service_time_apart(replicas: int, load: float) -> None:
    arrived = poisson(replicas * load, 330)
    law = iterated_law(dict.fromkeys(range(replicas), arrived), replicas, arrived)
    queue_length = law @ np.maximum(np.arange(len(law)) - replicas, 0)
    waiting_s = mdc_waiting_s(replicas * load, 1.0, replicas)
    assert waiting_s == pytest.approx(queue_length / (replicas * load), abs=1e-10)


@pytest.mark.parametrize(("replicas", "load"), [(1, 0.5), (2, 0.02), (5, 0.1), (7, 0.6), (64, 0.8)])
def test_mdc_is_exact_to_ten_digits_of_a_service_time(replicas: int, load: float) -> None:
    # Spitzer 1956: E[Q] = sum_n E[max(A_n - n c, 0)] / n, A_n Poisson of mean n a. No cancellation.
    traffic, queue_length = replicas * load, 0.0
    for n in range(1, 300):
        mean, above = n * traffic, np.arange(1, 400)
        log_first = n * replicas * math.log(mean) - mean - math.lgamma(n * replicas + 1)
        ratio = np.cumsum(np.log(mean) - np.log(n * replicas + above))
        queue_length += above @ np.exp(log_first + ratio) / n
    waiting_s = mdc_waiting_s(traffic / 3.0, 3.0, replicas) / 3.0
    assert waiting_s == pytest.approx(queue_length / traffic, abs=1e-12)


@pytest.mark.parametrize(("mean", "places"), [(0.3, 4), (11.9, 12), (60.0, 64), (999.9, 1000)])
def test_crommelin_roots_are_different_and_solve_their_equation(mean: float, places: int) -> None:
    root = crommelin_roots(mean, places)
    residual = places * np.log(root) + mean * (1 - root)  # a multiple of 2 pi i
    assert np.abs(np.exp(residual) - 1).max() < 1e-9
    assert np.all(np.abs(root) < 1)
    assert len(np.unique(np.round(root, 9))) == places - 1


def test_mdc_waiting_is_half_of_mmc_in_heavy_traffic() -> None:
    ratio = mdc_waiting_s(3.9999, 1.0, 4) / mmc_waiting_s(3.9999, 1.0, 4)
    assert ratio == pytest.approx(0.5, abs=1e-4)


# Errors

UNSTABLE: list[Callable[[], object]] = [
    lambda: mm1_waiting_s(1.0, 1.0),
    lambda: mg1_waiting_s(2.0, 1.0, 0.5),
    lambda: mg1_waiting_variance_s2(1.0, 1.0, 0.0, 1.0),
    lambda: mg1_cold_start_waiting_s(1.0, 1.0, 0.0, 0.0, 0.0),
    lambda: mg1_processor_sharing_response_s(1.0, 1.0),
    lambda: mg1_processor_sharing_response_of_s(1.0, 1.0, 1.0),
    lambda: mg1_priority_waiting_s([0.5, 0.5], [1.0, 1.0], [0.0, 0.0]),
    lambda: erlang_c(4.0, 1.0, 4),
    lambda: mmc_waiting_s(4.0, 1.0, 4),
    lambda: mdc_waiting_s(4.0, 1.0, 4),
]
WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: mm1_waiting_s(-1.0, -0.5), "arrival_rate_rps = -1.0"),
    (lambda: mm1_waiting_s(math.nan, 0.5), "arrival_rate_rps = nan"),
    (lambda: mg1_waiting_s(0.5, 1.0, -0.1), "service_cv = -0.1"),
    (lambda: mg1_waiting_variance_s2(0.5, 1.0, 1.0, 3.9), "third_moment_s3 = 3.9"),
    (lambda: mg1_cold_start_waiting_s(0.5, 1.0, 0.0, -1.0, 0.0), "cold_start_s = -1.0"),
    (lambda: mg1_priority_waiting_s([0.5], [1.0, 1.0], [0.0]), "classes"),
    (lambda: erlang_b(1.0, 1.0, 0), "replicas = 0"),
    (lambda: mmcn_waiting_s(1.0, 1.0, 1, -1), "queue_capacity = -1"),
    (lambda: mmcn_waiting_s(0.0, 1.0, 1, 1), "arrival_rate_rps = 0.0"),
]


@pytest.mark.parametrize("number", range(len(UNSTABLE)))
def test_a_load_of_one_or_more_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match=r"offered load = .*needs a load in"):
        UNSTABLE[number]()


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_bad_input_is_refused_by_name(number: int) -> None:
    call, message = WRONG[number]
    with pytest.raises(ValueError, match=message):
        call()
