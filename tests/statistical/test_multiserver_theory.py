"""Several replicas, one central queue: waiting and blocking against closed forms."""

import numpy as np
import pytest

from simulator.multiserver_theory import (
    erlang_c,
    mdc_waiting_s,
    mmc_waiting_s,
    mmcn_blocking_probability,
    mmcn_waiting_s,
)
from simulator.policies.batch.static_cap import StaticCap
from simulator.scenario import Scenario
from tests.statistical.steady_state import (
    ONLY,
    Span,
    assert_agrees,
    engine_scenario,
    estimate,
    exponential_sizes,
    mean_where,
    measured,
    poisson_arrivals,
    serving_rate_one,
    simulate,
)

pytestmark = pytest.mark.slow
SPAN = Span()


@pytest.mark.parametrize(("replicas", "load"), [(2, 0.5), (2, 0.8), (4, 0.5), (4, 0.85)])
def test_waiting_in_mmc_has_the_mean_and_the_probability_of_erlang(
    replicas: int, load: float
) -> None:
    generator = np.random.default_rng(21)
    rate_rps = load * replicas
    lanes = exponential_sizes(poisson_arrivals(rate_rps, SPAN, generator), generator)
    environment = simulate(engine_scenario(serving_rate_one(), replicas), lanes, generator)
    records = measured(environment, SPAN, rate_rps)
    waiting_s, excess = records.waiting_s, records.gap_excess
    name = f"M/M/{replicas} load {load}"
    theory_s = mmc_waiting_s(rate_rps, 1.0, replicas)
    assert_agrees(f"{name} waiting", estimate(waiting_s.mean(1), excess), theory_s, 0.02)
    theory = erlang_c(rate_rps, 1.0, replicas)
    assert_agrees(f"{name} waits", estimate((waiting_s > 0).mean(1), excess), theory)


@pytest.mark.parametrize(("replicas", "load"), [(2, 0.5), (2, 0.8), (4, 0.5), (4, 0.85)])
def test_mean_waiting_time_in_mdc_is_that_of_crommelin(replicas: int, load: float) -> None:
    generator = np.random.default_rng(22)
    lanes = poisson_arrivals(load * replicas, SPAN, generator)
    environment = simulate(engine_scenario(serving_rate_one(), replicas), lanes, generator)
    records = measured(environment, SPAN, load * replicas)
    theory_s = mdc_waiting_s(load * replicas, 1.0, replicas)
    found = estimate(records.waiting_s.mean(1), records.gap_excess)
    assert_agrees(f"M/D/{replicas} load {load} waiting", found, theory_s, 0.02)


@pytest.mark.parametrize(
    ("replicas", "queue_capacity", "load"), [(1, 1, 0.7), (2, 5, 0.9), (4, 10, 1.3)]
)
def test_a_finite_queue_sheds_and_keeps_waiting_what_mmcn_says(
    replicas: int, queue_capacity: int, load: float
) -> None:
    generator = np.random.default_rng(23)
    rate_rps = load * replicas
    lanes = exponential_sizes(poisson_arrivals(rate_rps, SPAN, generator), generator)
    scenario = engine_scenario(serving_rate_one(), replicas, queue_capacity=queue_capacity)
    records = measured(simulate(scenario, lanes, generator), SPAN, rate_rps)
    waiting_s, excess = records.waiting_s, records.gap_excess
    shed = np.isnan(waiting_s)
    name = f"M/M/{replicas}/{queue_capacity} load {load}"
    theory = mmcn_blocking_probability(rate_rps, 1.0, replicas, queue_capacity)
    assert_agrees(f"{name} shed", estimate(shed.mean(1), excess), theory, 0.02)
    theory_s = mmcn_waiting_s(rate_rps, 1.0, replicas, queue_capacity)
    found = estimate(mean_where(waiting_s, ~shed), excess)
    assert_agrees(f"{name} waiting of the accepted", found, theory_s, 0.02)


def test_a_policy_that_dispatches_at_once_waits_as_mmc_and_as_the_rule_of_the_engine() -> None:
    span = SPAN._replace(measured=4_000)
    generator = np.random.default_rng(24)
    lanes = exponential_sizes(poisson_arrivals(1.4, span, generator), generator)
    replicas = (serving_rate_one(),) * 2
    scenario = Scenario(ONLY, replicas, batch_sizes=(1,), queue_capacity=10_000)
    policy = StaticCap(scenario, batch_size=1)
    environment = simulate(
        scenario,
        lanes,
        generator,
        lambda observation, mask: policy.action_probabilities(observation, mask).argmax(1),
    )
    dispatched = measured(environment, span, 1.4)
    found = estimate(dispatched.waiting_s.mean(1), dispatched.gap_excess)
    assert_agrees("M/M/2 load 0.7 dispatched", found, mmc_waiting_s(1.4, 1.0, 2), 0.02)
    environment = simulate(engine_scenario(replicas[0], 2), lanes, generator)
    by_rule = measured(environment, span, 1.4)
    np.testing.assert_array_equal(by_rule.departure_s, dispatched.departure_s)
