"""The policy of relative value iteration costs in the engine what was computed, and least."""

import dataclasses

import numpy as np
import pytest

from simulator.environment import Environment
from simulator.observation import Observation
from simulator.optimal import BatchingProblem, OptimalBatching, solve
from simulator.replica import Replica
from simulator.scenario import Scenario
from simulator.workload import Arrivals
from tests.statistical.steady_state import (
    NEVER_S,
    ONLY,
    Span,
    engine_scenario,
    estimate,
    measured,
    poisson_arrivals,
    simulate,
)

pytestmark = pytest.mark.slow

# GoogLeNet on a P4 (arXiv 2301.12865): ms and mJ, as in section 2b of `reference/serving.md`.
ALPHA_S, BETA_S, ENERGY_ALPHA_J, ENERGY_BETA_J, LARGEST = (
    1.0524e-3,
    0.3051e-3,
    0.019603,
    0.0198986,
    32,
)
P4 = Replica((ALPHA_S,), (BETA_S,), (0.0,), LARGEST)
STATE_LIMIT = 150
# What an engine can be set to: max_batch_size and batch_timeout_s.
RULES = {
    "greedy": (32, 0.0),
    "greedy, at most 8": (8, 0.0),
    "static_fill(2)": (2, NEVER_S),
    "static_fill(4)": (4, NEVER_S),
    "static_fill(8)": (8, NEVER_S),
    "static_fill(16)": (16, NEVER_S),
    "timeout 2 ms, up to 4": (4, 0.002),
    "timeout 2 ms, up to 8": (8, 0.002),
    "timeout 5 ms, up to 16": (16, 0.005),
    "timeout 10 ms, up to 32": (32, 0.010),
}
CASES = [(0.1, 0.0), (0.1, 1.0), (0.3, 1.0), (0.5, 1.0), (0.7, 0.0), (0.7, 1.0)]
# So many requests that the standard error is below 0.1 %: more where the queue remembers longer.
SPAN = Span(lanes=256, measured=8_000, warmup=1_000, tail=100)
ROUNDS = dict.fromkeys(CASES, 1) | {(0.7, 0.0): 4}


def p4(load: float, power_weight: float) -> BatchingProblem:
    """Cost is counted per ms of mean response time and per W."""
    return BatchingProblem(
        arrival_rate_rps=load * LARGEST / (ALPHA_S + BETA_S * LARGEST),
        alpha_s=ALPHA_S,
        beta_s=BETA_S,
        energy_alpha_j=ENERGY_ALPHA_J,
        energy_beta_j=ENERGY_BETA_J,
        response_weight=1000.0,
        power_weight=power_weight,
        max_batch_size=LARGEST,
        state_limit=STATE_LIMIT,
    )


def lane_costs(
    environment: Environment, span: Span, problem: BatchingProblem
) -> tuple[np.ndarray, np.ndarray]:
    """Cost and excess gap of each lane `[B]`.

    From the records: mean response time, and energy by the sizes of batches. Power is energy per
    request times the arrival rate, which is known.
    """
    records = measured(environment, span, problem.arrival_rate_rps)
    energy_j = ENERGY_BETA_J + ENERGY_ALPHA_J * records.starts_batch.mean(1)
    response_s = records.response_s.mean(1)
    power_w = problem.arrival_rate_rps * energy_j
    cost = problem.response_weight * response_s + problem.power_weight * power_w
    return cost, records.gap_excess


def table_costs(
    optimum: OptimalBatching,
    problem: BatchingProblem,
    lanes: list[Arrivals],
    span: Span,
    generator: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Cost and excess gap of each lane `[B]` under the table of the optimum."""
    sizes = tuple(range(1, LARGEST + 1))  # so action b is a batch of b
    scenario = Scenario(ONLY, (P4,), sizes, queue_capacity=10_000, tick_s=NEVER_S)

    def decide(observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        waiting = observation.queue_length[:, 0].astype(np.int64)
        return np.asarray(optimum.batch_sizes[np.minimum(waiting, STATE_LIMIT)])

    return lane_costs(simulate(scenario, lanes, generator, decide), span, problem)


@pytest.mark.parametrize(("load", "power_weight"), CASES)
def test_simulated_cost_of_the_optimal_policy_is_its_computed_optimum(
    load: float, power_weight: float
) -> None:
    problem = p4(load, power_weight)
    optimum = solve(problem)
    generator = np.random.default_rng(61)
    costs = []
    for _ in range(ROUNDS[load, power_weight]):
        lanes = poisson_arrivals(problem.arrival_rate_rps, SPAN, generator)
        costs.append(table_costs(optimum, problem, lanes, SPAN, generator))
    found, g = estimate(*np.concatenate(costs, axis=1)), optimum.average_cost
    print(
        f"P4 load {load}, w2 {power_weight}: simulated {found.mean:.5f}, computed {g:.5f} "
        f"({found.mean / g - 1:+.3%}), standard error {found.error / g:.3%}"
    )
    assert found.error < 0.001 * g
    assert abs(found.mean - g) < 0.005 * g
    assert abs(found.mean - g) < 3.0 * found.error


@pytest.mark.parametrize(("load", "power_weight"), CASES)
def test_no_rule_beats_the_optimal_policy_on_the_same_arrivals(
    load: float, power_weight: float
) -> None:
    problem = p4(load, power_weight)
    generator = np.random.default_rng(62)
    span = Span(lanes=128, measured=6_000, warmup=1_000, tail=100)
    lanes = poisson_arrivals(problem.arrival_rate_rps, span, generator)
    optimal, excess = table_costs(solve(problem), problem, lanes, span, generator)
    for name, (size, timeout_s) in RULES.items():
        if problem.arrival_rate_rps * (ALPHA_S + BETA_S * size) >= size:
            continue  # batches so small cannot keep up
        replica = dataclasses.replace(P4, max_batch_size=size)
        scenario = engine_scenario(replica, batch_timeout_s=timeout_s)
        costs, _ = lane_costs(simulate(scenario, lanes, generator), span, problem)
        more = estimate(costs - optimal, excess)  # paired lane by lane
        print(
            f"P4 load {load}, w2 {power_weight}: {name} costs {costs.mean():.4f}, "
            f"{more.mean:+.4f} (standard error {more.error:.4f}) beside the optimum"
        )
        assert more.mean + 3.0 * more.error >= 0.0
