"""How fast the simulator is: `pytest -m benchmark -s tests/benchmarks/test_speed.py`.

Asserts no time. CPU time of one core, medians of five. The table is printed and written to
reports/benchmarks/speed.md. Beside other simulators: test_peers.py.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pipeline.agents.settings import PPOSettings
from pipeline.agents.training import train
from simulator.action import sample_actions
from simulator.environment import Environment
from simulator.observation import full_encoder
from simulator.policies.registry import build_policy
from simulator.replica import Replica
from simulator.reward import weighted_reward
from simulator.scenario import RequestClass, Scenario
from simulator.traffic import PoissonWorkload
from tests.benchmarks.compiled_rules import (
    batch_scenario,
    batch_seconds,
    continuous_scenario,
    continuous_seconds,
)

pytestmark = pytest.mark.benchmark

ROUNDS = 5
LANES, DECISIONS, PPO_STEPS = 256, 500_000, 200_000
CONTINUOUS_CAPACITY_RPS = 87.7  # of two replicas, by saturation
REPORT = Path(__file__).resolve().parents[2] / "reports" / "benchmarks" / "speed.md"
ROOT = Path(__file__).resolve().parents[2]
Row = tuple[str, str, str]


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
    """Decisions per second at 256 lanes under the NumPy rule static_cap, resets included.

    Every step fills all fields of the observation, the mask and the reward terms.
    """
    environment = lanes_environment(LANES)
    policy = build_policy("static_cap", environment.scenario, {"batch_size": 8})
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
    """Median over the rounds of what `once` did per second of CPU time."""
    rates = []
    for _ in range(ROUNDS):
        begin_s = time.process_time()
        done = once()
        rates.append(done / (time.process_time() - begin_s))
    return statistics.median(rates)


def median_ns(requests: int, measure: Callable[[], float]) -> float:
    """Nanoseconds a request, median over the rounds."""
    return statistics.median(measure() for _ in range(ROUNDS)) / requests * 1e9


def batch_ns(replicas: int, requests: int, lanes: int) -> float:
    """Nanoseconds a request of batch service at 150 requests/s a replica."""
    scenario = batch_scenario(replicas, 0.002, 0.005, 8, queue_capacity=100)
    rate_rps = 150.0 * replicas
    return median_ns(
        requests * lanes, lambda: batch_seconds(scenario, rate_rps, requests, lanes)[0]
    )


def continuous_rps() -> float:
    """Requests per second of continuous batching, 512 prompt and 64 output tokens, load 0.8."""
    scenario, requests = continuous_scenario(2), 200_000
    measured = 0.8 * CONTINUOUS_CAPACITY_RPS
    return 1e9 / median_ns(
        requests, lambda: continuous_seconds(scenario, measured, requests, 512, 64)[0]
    )


def in_fresh_python(code: str, cache: Path | None = None) -> tuple[str, float]:
    """What the code prints in a new interpreter, and the wall time in s."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests/benchmarks'}"}
    environment.pop("NUMBA_BOUNDSCHECK", None)
    if cache is not None:
        environment["XDG_CACHE_HOME"] = str(cache)
    begin_s = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip(), time.perf_counter() - begin_s


FIRST_STEP = """
import numpy as np
from simulator.environment import Environment
from simulator.replica import Replica
from simulator.reward import Reward
from simulator.scenario import RequestClass, Scenario
from simulator.traffic import PoissonWorkload

replica = Replica((0.002,), (0.005,), (0.1,), 8)
scenario = Scenario((RequestClass("only", 1.0),), (replica,) * 2, batch_sizes=(1, 8))
environment = Environment(
    scenario, PoissonWorkload((300.0,)), 4, 1.0, Reward(np.ones(8)), np.random.default_rng(0)
)
environment.reset()
environment.step(np.zeros(4, int))
"""
TEN_MILLION = """
import resource
from compiled_rules import batch_scenario, batch_seconds

batch_seconds(batch_scenario(2, 0.002, 0.005, 8), 300.0, 10_000_000, 1)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""


def rows_of_size() -> list[Row]:
    """Cost per request by number of requests, lanes and replicas."""
    by_requests = {n: batch_ns(2, n, 1) for n in (10_000, 100_000, 1_000_000, 10_000_000)}
    by_lanes = {b: batch_ns(2, 1_048_576 // b, b) for b in (1, 16, 256, 1_024)}
    by_replicas = {k: batch_ns(k, 300_000, 1) for k in (2, 4, 8, 16, 32, 64)}
    rows = []
    for title, costs in (
        ("requests, one lane, K=2", by_requests),
        ("lanes, 2^20 requests in all, K=2", by_lanes),
        ("replicas, one lane", by_replicas),
    ):
        rows += [(f"{count:,} {title}", f"{ns:,.0f}", "ns/request") for count, ns in costs.items()]
        spread = max(costs.values()) / min(costs.values())
        rows.append(
            (f"dearest / cheapest of these {title.split(',')[0]}", f"{spread:.2f}", "times")
        )
    return rows


def test_speed_table(tmp_path: Path) -> None:
    batch_ns(2, 1_000, 1)  # compiles
    continuous_seconds(continuous_scenario(2), 20.0, 1_000, 512, 64)
    rows: list[Row] = [
        (
            "engine, compiled static_cap, K=2 batch service",
            f"{1e9 / batch_ns(2, 1_000_000, 1):,.0f}",
            "requests/s",
        ),
        (
            "continuous batching, 512 + 64 tokens, K=2, load 0.8, routed in turn",
            f"{continuous_rps():,.0f}",
            "requests/s",
        ),
        (
            f"environment, NumPy static_cap, {LANES} lanes",
            f"{environment_dps():,.0f}",
            "decisions/s",
        ),
        ("PPO end to end, 128 lanes", f"{ppo_sps():,.0f}", "steps/s"),
        *rows_of_size(),
    ]
    gib, _ = in_fresh_python(TEN_MILLION)
    rows.append(("memory of 10,000,000 requests, arrivals included", f"{float(gib):.2f}", "GiB"))
    _, first_s = in_fresh_python(FIRST_STEP, tmp_path)
    _, later_s = in_fresh_python(FIRST_STEP, tmp_path)
    rows.append(("first start: import, compilation, first step", f"{first_s:.1f}", "s"))
    rows.append(("later start: import, first step", f"{later_s:.2f}", "s"))
    table = f"Medians of {ROUNDS}, one run, CPU time of one core; starts are wall time.\n\n"
    table += "| what | measured | unit |\n|---|---:|---|\n"
    table += "".join(f"| {what} | {value} | {unit} |\n" for what, value, unit in rows)
    print("\n" + table)
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(table, encoding="utf-8")
    assert float(gib) < 2.0  # not a time
