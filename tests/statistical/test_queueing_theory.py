"""Mean waiting times of the simulator against closed forms, at a million requests."""

import math

import numpy as np
import pytest

from simulator.environment import Environment
from simulator.parameters import Replica, RequestClass, Scenario
from simulator.queueing_theory import md1_waiting_s, mg1_waiting_s, mm1_waiting_s
from simulator.reward import Reward
from simulator.state import Recording
from simulator.workload import Arrivals, RecordedWorkload

LANES, MEASURED, WARMUP = 64, 15_625, 2_000  # 64 * 15,625 = 1,000,000 measured requests


def mean_waiting_s(
    rate_rps: float, noise_cv: float, exponential: bool, seed: int
) -> tuple[float, float]:
    """Mean waiting time of one replica serving one by one, and its standard error.

    Lanes are independent runs, so the standard error comes from their means.
    """
    generator = np.random.default_rng(seed)
    count = WARMUP + MEASURED
    workloads = []
    for _ in range(LANES):
        size = generator.exponential(1.0, count) if exponential else np.ones(count)
        arrival_s = np.cumsum(generator.exponential(1.0 / rate_rps, count))
        workloads.append(RecordedWorkload(Arrivals(arrival_s, np.zeros(count, int), size)))
    scenario = Scenario(
        (RequestClass("only", 1.0),),
        (Replica((0.0,), (1.0,), (noise_cv,), 1),),
        batch_sizes=(1,),
        queue_capacity=10_000,
    )
    environment = Environment(
        scenario,
        workloads,
        LANES,
        horizon_s=10.0 * count / rate_rps,
        reward=Reward(np.zeros(7)),
        generator=generator,
        drain_s=10_000.0,
        recording=Recording(requests=True),
    )
    environment.reset()
    while environment.running().any():
        environment.step(environment.running().astype(int))  # a batch of 1 whenever it can
    records = environment.request_records()
    waiting_s = (records.dispatch_s - records.arrival_s).reshape(LANES, count)[:, WARMUP:]
    lane_means = waiting_s.mean(1)
    return float(lane_means.mean()), float(lane_means.std(ddof=1) / math.sqrt(LANES))


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_md1_mean_waiting_time_is_within_three_standard_errors(load: float) -> None:
    mean_s, error_s = mean_waiting_s(load, 0.0, exponential=False, seed=11)
    theory_s = md1_waiting_s(load, 1.0)
    print(f"M/D/1 load {load}: {mean_s:.4f} s, theory {theory_s:.4f}, se {error_s:.4f}")
    assert abs(mean_s - theory_s) < 3 * error_s


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_mm1_mean_waiting_time_is_within_three_standard_errors(load: float) -> None:
    mean_s, error_s = mean_waiting_s(load, 0.0, exponential=True, seed=12)
    theory_s = mm1_waiting_s(load, 1.0)
    print(f"M/M/1 load {load}: {mean_s:.4f} s, theory {theory_s:.4f}, se {error_s:.4f}")
    assert abs(mean_s - theory_s) < 3 * error_s


@pytest.mark.slow
def test_mean_waiting_time_with_lognormal_noise_is_that_of_mg1() -> None:
    mean_s, error_s = mean_waiting_s(0.6, 0.5, exponential=False, seed=13)
    assert abs(mean_s - mg1_waiting_s(0.6, 1.0, 0.5)) < 3 * error_s
