"""Decisions a second of online training end to end: `pytest -m benchmark -s tests/benchmarks`.

Asserts no time. One core; figures are of CPU time, so that a busy machine does not spoil them.
"""

import time

import numpy as np
import pytest

from pipeline.agents.settings import PPOSettings, ReinforceSettings
from pipeline.agents.training import train
from simulator.environment import Environment
from simulator.observation import full_encoder
from simulator.replica import Replica
from simulator.reward import paper_reward
from simulator.scenario import RequestClass, Scenario
from simulator.traffic import PoissonWorkload

SETTINGS = {
    "ppo": PPOSettings(steps=200_000),
    "ppo, attention": PPOSettings(steps=50_000, network="attention", hidden=(64,)),
    "reinforce": ReinforceSettings(steps=100_000),
}


@pytest.mark.benchmark
@pytest.mark.parametrize("algorithm", SETTINGS)
def test_decisions_a_second_of_training(algorithm):
    scenario = Scenario(
        (RequestClass("fast", 0.1, 200.0), RequestClass("slow", 0.5, 20.0)),
        (Replica((0.002, 0.002), (0.005, 0.02), (0.05, 0.05), 16),) * 2,
        (1, 2, 4, 8, 16),
    )
    settings = SETTINGS[algorithm]
    environment = Environment(
        scenario,
        PoissonWorkload((55.0, 55.0)),
        lanes=settings.lanes,
        horizon_s=10.0,
        reward=paper_reward(scenario),
        generator=np.random.default_rng(1),
    )
    environment.reset()
    environment.step(np.zeros(settings.lanes, int))  # compiled before the clock starts
    begin_s = time.process_time()
    trained = train(environment, full_encoder(scenario), settings, np.random.default_rng(2))
    seconds = time.process_time() - begin_s
    steps = trained.curve[-1].steps + settings.normalizer_steps * settings.lanes
    print(f"\n{algorithm}: {steps / seconds:,.0f} decisions a CPU second")
    assert steps >= settings.steps
