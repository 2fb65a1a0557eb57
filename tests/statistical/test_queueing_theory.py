"""Waiting times of one replica that serves one by one against closed forms, a million requests."""

import numpy as np
import pytest

from simulator.queueing_theory import (
    lognormal_third_moment_s3,
    md1_waiting_s,
    mg1_waiting_s,
    mg1_waiting_variance_s2,
    mm1_waiting_s,
)
from simulator.replica import Replica
from simulator.scenario import Scenario
from tests.statistical.steady_state import (
    ONLY,
    Records,
    Span,
    assert_agrees,
    estimate,
    exponential_sizes,
    measured,
    poisson_arrivals,
    simulate,
)

pytestmark = pytest.mark.slow
SPAN = Span()


def simulated(rate_rps: float, noise_cv: float, exponential: bool, seed: int) -> Records:
    """One replica that a policy sends a batch of 1 when it can."""
    generator = np.random.default_rng(seed)
    lanes = poisson_arrivals(rate_rps, SPAN, generator)
    if exponential:
        lanes = exponential_sizes(lanes, generator)
    replica = Replica((0.0,), (1.0,), (noise_cv,), 1)
    scenario = Scenario(ONLY, (replica,), batch_sizes=(1,), queue_capacity=10_000)
    at_once = np.ones(SPAN.lanes, np.int64)
    environment = simulate(scenario, lanes, generator, lambda observation, mask: at_once)
    return measured(environment, SPAN, rate_rps)


def assert_mean_and_variance(
    claim: str, records: Records, theory_s: float, variance_s2: float
) -> None:
    """The variance is taken about the mean of theory, so that lanes have no bias."""
    waiting_s, excess = records.waiting_s, records.gap_excess
    assert_agrees(f"{claim} waiting", estimate(waiting_s.mean(1), excess), theory_s, 0.02)
    found = estimate(((waiting_s - theory_s) ** 2).mean(1), excess)
    assert_agrees(f"{claim} variance of waiting", found, variance_s2, 0.05)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_md1_waiting_time_is_within_three_standard_errors(load: float) -> None:
    records = simulated(load, 0.0, exponential=False, seed=11)
    variance_s2 = mg1_waiting_variance_s2(load, 1.0, 0.0, 1.0)
    assert_mean_and_variance(f"M/D/1 load {load}", records, md1_waiting_s(load, 1.0), variance_s2)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_mm1_waiting_time_is_within_three_standard_errors(load: float) -> None:
    records = simulated(load, 0.0, exponential=True, seed=12)
    variance_s2 = mg1_waiting_variance_s2(load, 1.0, 1.0, 6.0)  # E[S^3] = 3! S^3
    assert_mean_and_variance(f"M/M/1 load {load}", records, mm1_waiting_s(load, 1.0), variance_s2)


@pytest.mark.parametrize(("load", "noise_cv"), [(0.6, 0.5), (0.5, 1.0)])
def test_waiting_time_with_lognormal_noise_is_that_of_mg1(load: float, noise_cv: float) -> None:
    records = simulated(load, noise_cv, exponential=False, seed=13)
    third_moment_s3 = lognormal_third_moment_s3(1.0, noise_cv)
    variance_s2 = mg1_waiting_variance_s2(load, 1.0, noise_cv, third_moment_s3)
    theory_s = mg1_waiting_s(load, 1.0, noise_cv)
    assert_mean_and_variance(f"M/G/1 cv {noise_cv} load {load}", records, theory_s, variance_s2)
