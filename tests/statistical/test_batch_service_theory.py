"""One replica that serves in batches against exact chains and closed forms."""

import numpy as np
import pytest

from simulator.batch_theory import (
    constant_batch_response_s,
    full_batch_response_s,
    greedy_batch_queue,
)
from simulator.replica import Replica
from tests.statistical.steady_state import (
    NEVER_S,
    Records,
    Span,
    assert_agrees,
    engine_scenario,
    estimate,
    measured,
    poisson_arrivals,
    simulate,
)

pytestmark = pytest.mark.slow
SPAN = Span(tail=100)  # the tail fills the last batch


def batch_service(
    replica: Replica, rate_rps: float, seed: int, batch_timeout_s: float = 0.0
) -> Records:
    generator = np.random.default_rng(seed)
    lanes = poisson_arrivals(rate_rps, SPAN, generator)
    scenario = engine_scenario(replica, batch_timeout_s=batch_timeout_s)
    return measured(simulate(scenario, lanes, generator), SPAN, rate_rps)


@pytest.mark.parametrize("max_batch_size", [4, 32])
@pytest.mark.parametrize("load", [0.3, 0.7, 0.9])
def test_greedy_batches_of_linear_latency_are_those_of_the_exact_chain(
    max_batch_size: int, load: float
) -> None:
    replica = Replica((1.0,), (0.25,), (0.0,), max_batch_size)
    latency_s = 1.0 + 0.25 * np.arange(1, max_batch_size + 1)
    rate_rps = load * max_batch_size / float(latency_s[-1])
    queue = greedy_batch_queue(rate_rps, latency_s)
    records = batch_service(replica, rate_rps, seed=31)
    name = f"greedy b {max_batch_size} load {load}"
    assert_agrees(
        f"{name} response",
        estimate(records.response_s.mean(1), records.gap_excess),
        queue.response_s,
    )
    # A request in so many starts a batch, and keeps the replica busy for its batch latency.
    found = estimate(records.starts_batch.mean(1), records.gap_excess)
    assert_agrees(f"{name} 1 / batch size", found, 1.0 / queue.batch_size)
    busy_s = np.where(records.starts_batch, records.departure_s - records.dispatch_s, 0.0)
    found = estimate(rate_rps * busy_s.mean(1), records.gap_excess)
    assert_agrees(f"{name} utilization", found, queue.utilization)


@pytest.mark.parametrize("max_batch_size", [4, 32])
@pytest.mark.parametrize("load", [0.3, 0.7, 0.9])
def test_greedy_batches_of_constant_latency_respond_as_bailey_says(
    max_batch_size: int, load: float
) -> None:
    rate_rps = load * max_batch_size / 2.0
    records = batch_service(Replica((2.0,), (0.0,), (0.0,), max_batch_size), rate_rps, seed=32)
    theory_s = constant_batch_response_s(rate_rps, 2.0, max_batch_size)
    found = estimate(records.response_s.mean(1), records.gap_excess)
    assert_agrees(f"constant b {max_batch_size} load {load} response", found, theory_s)


@pytest.mark.parametrize("max_batch_size", [4, 16])
@pytest.mark.parametrize("load", [0.3, 0.7, 0.9])
def test_full_batches_respond_as_static_fill_should(max_batch_size: int, load: float) -> None:
    latency_s = 1.0 + 0.25 * max_batch_size
    rate_rps = load * max_batch_size / latency_s
    replica = Replica((1.0,), (0.25,), (0.0,), max_batch_size)
    records = batch_service(replica, rate_rps, seed=33, batch_timeout_s=NEVER_S)
    theory_s = full_batch_response_s(rate_rps, latency_s, max_batch_size)
    found = estimate(records.response_s.mean(1), records.gap_excess)
    assert_agrees(f"full b {max_batch_size} load {load} response", found, theory_s)
