"""Queues with batches: exact formulas, numeric solutions and generating functions agree."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from simulator.batch_theory import (
    constant_batch_response_s,
    full_batch_response_s,
    greedy_batch_queue,
    poisson_probabilities,
    stationary_probabilities,
)
from simulator.queueing_theory import md1_waiting_s


def poisson(mean: float, count: int) -> np.ndarray:
    """Probabilities of 0..count-1, by their recursion."""
    probability = [math.exp(-mean)]
    for number in range(1, count):
        probability.append(probability[-1] * mean / number)
    return np.array(probability)


@pytest.mark.parametrize("load", [0.01, 0.5, 0.95])
def test_batches_of_one_are_md1(load: float) -> None:
    response_s = md1_waiting_s(load / 2.0, 2.0) + 2.0
    assert constant_batch_response_s(load / 2.0, 2.0, 1) == pytest.approx(response_s, rel=1e-12)
    assert full_batch_response_s(load / 2.0, 2.0, 1) == pytest.approx(response_s, rel=1e-12)
    assert greedy_batch_queue(load / 2.0, [2.0]).response_s == pytest.approx(response_s, rel=1e-10)


@pytest.mark.parametrize("size", [2, 8, 32, 64])
@pytest.mark.parametrize("load", [0.001, 0.3, 0.8, 0.97])
def test_numeric_batches_of_constant_latency_are_the_formula_by_roots(
    size: int, load: float
) -> None:
    queue = greedy_batch_queue(load * size / 0.1, [0.1] * size)
    response_s = constant_batch_response_s(load * size / 0.1, 0.1, size)
    assert queue.response_s == pytest.approx(response_s, rel=1e-10)
    # In a cycle of L / utilization, as many arrive as are served.
    assert queue.batch_size * queue.utilization == pytest.approx(load * size, rel=1e-10)


@pytest.mark.parametrize("rate_rps", [0.1, 0.9, 1.2])
def test_batches_of_up_to_two_are_their_generating_function(rate_rps: float) -> None:
    one_s, two_s = 0.7, 1.4
    a, c = rate_rps * one_s, rate_rps * two_s  # arrivals during a batch of one, of two
    low, high = -1.0, 0.0
    for _ in range(100):  # the root of z^2 = exp(c (z - 1)) in (-1, 0)
        root = (low + high) / 2
        low, high = (root, high) if root**2 > math.exp(c * (root - 1)) else (low, root)
    one = math.exp(a * (root - 1))
    # The numerator of the generating function of Y is 0 at the root, and Y has total mass 1.
    p0, p1 = np.linalg.solve([[one - 1, one - root], [2 + a - c, 1 + a - c]], [0.0, 2 - c])
    second = p0 * (2 + 4 * a + a**2 - c**2) + p1 * (2 + 4 * a + a**2 - 2 * c - c**2)
    left = (second - (2 - c**2)) / (2 * (2 - c))  # E[Y]
    p2 = 1 - p0 - p1
    cycle_s = (p0 + p1) * one_s + p2 * two_s + p0 / rate_rps
    in_system_s = (p0 + p1) * one_s * (1 + a / 2) + two_s * (left - p1 + p2 * c / 2)
    queue = greedy_batch_queue(rate_rps, [one_s, two_s])
    assert queue.response_s == pytest.approx(in_system_s / (rate_rps * cycle_s), rel=1e-10)
    assert queue.batch_size == pytest.approx(p0 + p1 + 2 * p2, rel=1e-10)
    assert queue.utilization == pytest.approx(1 - p0 / rate_rps / cycle_s, rel=1e-10)


@pytest.mark.parametrize(("size", "load"), [(2, 0.3), (8, 0.9)])
def test_full_batches_are_their_embedded_chain(size: int, load: float) -> None:
    # Y left at a completion: Y' = max(Y - b, 0) + A. A cycle serves b requests; in it the number
    # in system is Y, ..., b - 1 for 1/lambda each, then max(Y, b) and the arrivals of one batch.
    left = np.arange(300)
    arrived = poisson(size * load, 300)
    chain = np.zeros((300, 300))
    for row, kept in enumerate(np.maximum(left - size, 0)):
        chain[row, kept:] = arrived[: 300 - kept]
    law = np.linalg.matrix_power(chain / chain.sum(1, keepdims=True), 4096)[0]
    filling = np.maximum(size * (size - 1) - left * (left - 1), 0) / (2 * size * load)
    in_system = law @ (filling + np.maximum(left, size) + size * load / 2)
    response_s = full_batch_response_s(size * load, 1.0, size)
    assert response_s == pytest.approx(in_system / size, rel=1e-10)


def test_poisson_probabilities_are_those_of_the_recursion() -> None:
    found = poisson_probabilities(np.array([0.2, 30.0]), 90)
    np.testing.assert_allclose(found, [poisson(0.2, 90), poisson(30.0, 90)], rtol=1e-12)


def test_stationary_law_is_found_with_transient_states() -> None:
    chain = np.array([[0.0, 1.0, 0.0], [0.0, 0.5, 0.5], [0.0, 0.25, 0.75]])
    np.testing.assert_allclose(stationary_probabilities(chain), [0, 1 / 3, 2 / 3], atol=1e-15)


@pytest.mark.parametrize(
    "call",
    [
        lambda: full_batch_response_s(4.0, 1.0, 4),
        lambda: constant_batch_response_s(4.0, 1.0, 4),
        lambda: greedy_batch_queue(2.0, [0.5, 1.0]),
    ],
    ids=["full", "constant", "greedy"],
)
def test_a_load_of_one_or_more_is_refused(call: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"offered load = 1\.0: .*needs a load in"):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: full_batch_response_s(0.0, 1.0, 2), "arrival_rate_rps = 0.0"),
        (lambda: greedy_batch_queue(0.0, [1.0]), "arrival_rate_rps = 0.0"),
        (lambda: greedy_batch_queue(0.5, [0.0, 1.0]), "batch_latency_s of 1 = 0.0"),
        (lambda: greedy_batch_queue(0.5, []), "batch_latency_s"),
        (lambda: greedy_batch_queue(0.9999, [1.0]), "load too near 1"),
    ],
    ids=["full rate", "greedy rate", "no latency", "no table", "near 1"],
)
def test_bad_input_is_refused_by_name(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
