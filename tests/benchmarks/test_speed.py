"""Speed, side by side in one run: `pytest -m benchmark -s tests/benchmarks`. Asserts no time.

Needs the extra `bench`. The table is printed and written to reports/benchmarks/speed.md.
"""

import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np
import pytest

from pipeline.agents.settings import PPOSettings
from pipeline.agents.training import train
from simulator.action import sample_actions
from simulator.engine import advance, start_episode
from simulator.environment import Environment
from simulator.events import batch_is_dispatched
from simulator.observation import full_encoder
from simulator.parameters import Parameters, Replica, RequestClass, Scenario
from simulator.policies.registry import build_policy
from simulator.reward import weighted_reward
from simulator.state import ClusterState, empty_state
from simulator.workload import PoissonWorkload

pytestmark = pytest.mark.benchmark

ROUNDS = 5
RATE_RPS, REPLICAS, ALPHA_S, BETA_S, CAP = 300.0, 2, 0.002, 0.005, 8
ENGINE_REQUESTS, SIMPY_REQUESTS = 1_000_000, 50_000
LANES, DECISIONS, PPO_STEPS = 256, 500_000, 200_000
REPORT = Path(__file__).resolve().parents[2] / "reports" / "benchmarks" / "speed.md"


@numba.njit(_nrt=False)
def run_static_cap(parameters: Parameters, state: ClusterState, cap: int) -> None:
    """The whole trace of lane 0 under static_cap, compiled together with the engine."""
    start_episode(parameters, state, 0)
    while True:
        advance(parameters, state, 0)
        if state.ending[0] != 0:
            return
        replica = 0
        while state.batch_size[0, replica] > 0:
            replica += 1
        batch_is_dispatched(parameters, state, 0, replica, 0, cap)


def engine_rps() -> tuple[float, float]:
    """Requests per second of the engine under a compiled static_cap, and mean response in s."""
    scenario = Scenario(
        (RequestClass("only", 1.0),),
        (Replica((ALPHA_S,), (BETA_S,), (0.0,), CAP),) * REPLICAS,
        batch_sizes=(1, 2, 4, 8),
        queue_capacity=10_000,
    )
    parameters, state = scenario.parameters(), empty_state(scenario, 1, ENGINE_REQUESTS)
    generator = np.random.default_rng(0)
    state.arrival_s[0] = np.cumsum(generator.exponential(1.0 / RATE_RPS, ENGINE_REQUESTS))
    state.size[:] = 1.0
    state.request_count[0], state.horizon_s[0], state.drains[0] = ENGINE_REQUESTS, 1e9, True
    run_static_cap(parameters, state, CAP)  # compiles

    def once() -> int:
        run_static_cap(parameters, state, CAP)
        return ENGINE_REQUESTS

    return rate(once), float(state.reward_terms[0, 1] / ENGINE_REQUESTS)


def simpy_mean_response_s(
    requests: int,
    rate_rps: float,
    replicas: int,
    alpha_s: float,
    beta_s: float,
    cap: int,
    seed: int,
) -> float:
    """Mean response time in s of `requests` Poisson requests, in idiomatic SimPy.

    An idle replica takes what waits, up to `cap`, at once.
    """
    import simpy  # of the extra `bench`

    generator, env = random.Random(seed), simpy.Environment()
    waiting: list[float] = []
    idle = list(range(replicas))[::-1]
    total_s = 0.0

    def serve(replica: int, batch: list[float]):
        nonlocal total_s
        yield env.timeout(alpha_s + beta_s * len(batch))
        total_s += env.now * len(batch) - sum(batch)
        idle.append(replica)
        dispatch()

    def dispatch() -> None:
        while idle and waiting:
            batch = waiting[:cap]
            del waiting[:cap]
            env.process(serve(idle.pop(), batch))

    def arrive():
        for _ in range(requests):
            yield env.timeout(generator.expovariate(rate_rps))
            waiting.append(env.now)
            dispatch()

    env.process(arrive())
    env.run()
    return total_s / requests


def simpy_rps() -> tuple[float, float]:
    """The same of SimPy."""
    means = []

    def once() -> int:
        means.append(
            simpy_mean_response_s(
                SIMPY_REQUESTS, RATE_RPS, REPLICAS, ALPHA_S, BETA_S, CAP, seed=len(means)
            )
        )
        return SIMPY_REQUESTS

    return rate(once), statistics.mean(means)


def two_classes() -> Scenario:
    """Two replicas, two classes and noise: the shape of the sample log."""
    replica = Replica((0.003, 0.006), (0.001, 0.006), (0.1, 0.1), 16)
    classes = (RequestClass("fast", 0.1), RequestClass("slow", 0.5))
    return Scenario(classes, (replica,) * 2, batch_sizes=(1, 2, 4, 8, 16))


def lanes_environment(lanes: int) -> Environment:
    """Lanes of that scenario at a load of about two thirds."""
    scenario = two_classes()
    reward = weighted_reward(scenario, {"completed": 1.0, "slo_misses": -1.0, "shed": -2.0}, {})
    workload = PoissonWorkload((200.0, 80.0))
    return Environment(scenario, workload, lanes, 10.0, reward, np.random.default_rng(0))


def environment_dps() -> float:
    """Decisions per second at 256 lanes under the NumPy rule static_cap, resets included."""
    environment = lanes_environment(LANES)
    policy = build_policy("static_cap", environment.scenario, {"batch_size": CAP})
    generator = np.random.default_rng(1)

    def once() -> int:
        observation, action_mask = environment.reset()
        decisions = 0
        while decisions < DECISIONS:
            probabilities = policy.action_probabilities(observation, action_mask)
            action, _ = sample_actions(probabilities, generator)
            step = environment.step(action)
            observation, action_mask = step.observation, step.action_mask
            decisions += LANES
            ended = step.terminated | step.truncated
            if ended.any():
                observation, action_mask = environment.reset(ended)
        return decisions

    once()
    return rate(once)


def ppo_sps() -> float:
    """Environment steps per second of PPO, end to end: simulator, collection and updates."""
    settings = PPOSettings(steps=PPO_STEPS)
    environment = lanes_environment(settings.lanes)
    encoder = full_encoder(environment.scenario)

    def once() -> int:
        trained = train(environment, encoder, settings, np.random.default_rng(2))
        return trained.curve[-1].steps

    return rate(once)


def rate(once: Callable[[], int]) -> float:
    """Median over the rounds of what `once` did per second."""
    rates = []
    for _ in range(ROUNDS):
        begin_s = time.perf_counter()
        done = once()
        rates.append(done / (time.perf_counter() - begin_s))
    return statistics.median(rates)


def test_speed_table() -> None:
    pytest.importorskip("simpy", reason="needs the extra `bench`")
    engine, engine_mean_s = engine_rps()
    simpy, simpy_mean_s = simpy_rps()
    rows = [
        ("engine, compiled static_cap, K=2 batch service", engine, "requests/s"),
        ("SimPy, the same model", simpy, "requests/s"),
        ("engine / SimPy", engine / simpy, "times"),
        (f"environment, NumPy static_cap, {LANES} lanes", environment_dps(), "decisions/s"),
        ("PPO end to end, 128 lanes", ppo_sps(), "steps/s"),
    ]
    table = f"Medians of {ROUNDS}, one run, one core.\n\n| what | median | unit |\n|---|---|---|\n"
    table += "".join(f"| {what} | {value:,.0f} | {unit} |\n" for what, value, unit in rows)
    print("\n" + table)
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(table, encoding="utf-8")
    # Not a time: both simulate the same system, so their mean response times must agree.
    assert simpy_mean_s == pytest.approx(engine_mean_s, rel=0.02)
