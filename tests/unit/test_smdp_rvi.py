"""The optimum as a rule: what its own table costs, and that it does what the table says."""

from typing import Any

import numpy as np
import pytest

from simulator.action import action_table, legal_actions
from simulator.observation import empty_observation
from simulator.optimal import evaluate
from simulator.policies.batch.smdp_rvi import SmdpRvi
from simulator.policies.registry import RULES, build_policy
from simulator.replica import Replica
from simulator.scenario import RequestClass, Scenario

EVERY = tuple(range(1, 33))
P4 = Replica(
    (0.0010524,), (0.0003051,), (0.0,), 32, energy_alpha_j=(0.019603,), energy_beta_j=(0.0198986,)
)
CAPACITY_RPS = 32 / (0.0003051 * 32 + 0.0010524)
GOOGLENET = Scenario((RequestClass("only", 0.1),), (P4,), EVERY)


def seed(beta_s: float) -> Scenario:
    """The paper's replica: alpha = 2 ms."""
    return Scenario(
        (RequestClass("only", 0.1),), (Replica((0.002,), (beta_s,), (0.0,), 32),), EVERY
    )


# Section 2b of the notes on serving systems: cost per ms and per W.
ROWS = [
    (GOOGLENET, 0.1 * CAPACITY_RPS, 0.0, 1.6687),
    (GOOGLENET, 0.1 * CAPACITY_RPS, 1.0, 12.168),
    (GOOGLENET, 0.3 * CAPACITY_RPS, 1.0, 25.989),
    (GOOGLENET, 0.5 * CAPACITY_RPS, 1.0, 38.859),
    (GOOGLENET, 0.7 * CAPACITY_RPS, 0.0, 4.953),
    (GOOGLENET, 0.7 * CAPACITY_RPS, 1.0, 51.705),
    (seed(0.005), 10.0, 0.0, 7.263),
    (seed(0.005), 100.0, 0.0, 13.227),
    (seed(0.020), 10.0, 0.0, 25.103),
    (seed(0.020), 40.0, 0.0, 84.203),
]


def act(rule: SmdpRvi, scenario: Scenario, waiting: np.ndarray, free: bool = True) -> np.ndarray:
    """The batch size `[B]` that the rule asks for, 0 for WAIT, one lane for each number waiting."""
    observation = empty_observation(scenario, len(waiting))._replace(
        queue_length=waiting[:, None], can_take=np.full((len(waiting), 1), float(free))
    )
    table = action_table(scenario)
    mask = legal_actions(table, observation.queue_length, observation.can_take, np.array([32]))
    rows = rule.action_probabilities(observation, mask)
    assert (rows.max(axis=1) == 1.0).all()
    return np.asarray(table.batch_size[rows.argmax(axis=1)])


@pytest.mark.parametrize(("scenario", "rate_rps", "power_weight", "cost"), ROWS)
def test_its_own_table_costs_what_the_optimum_costs_and_is_what_it_does(
    scenario: Scenario, rate_rps: float, power_weight: float, cost: float
) -> None:
    rule = SmdpRvi(scenario, rate_rps, power_weight=power_weight)
    found = evaluate(rule.problem, rule.batch_sizes).average_cost
    print(f"{rate_rps:.1f}/s: {found:.4f}, table {cost}, {rule.problem.state_limit} states")
    assert found == pytest.approx(cost, rel=0.005)
    number = np.arange(len(rule.batch_sizes))
    np.testing.assert_array_equal(act(rule, scenario, number), rule.batch_sizes)
    assert (act(rule, scenario, number, free=False) == 0).all()


def test_more_than_the_last_state_counts_as_the_last_state() -> None:
    rule = SmdpRvi(GOOGLENET, 0.5 * CAPACITY_RPS)
    last = len(rule.batch_sizes) - 1
    assert (act(rule, GOOGLENET, np.array([last, last + 1, 10 * last])) == 32).all()


def test_a_menu_without_the_best_size_sends_the_largest_below_or_else_its_smallest() -> None:
    scenario = Scenario(GOOGLENET.request_classes, (P4,), (4, 8, 32))
    rule = SmdpRvi(scenario, 0.1 * CAPACITY_RPS, power_weight=1.0)
    best = SmdpRvi(GOOGLENET, 0.1 * CAPACITY_RPS, power_weight=1.0).batch_sizes
    np.testing.assert_array_equal(rule.optimum.batch_sizes, best)  # solved for every size to 32
    assert best[:6].tolist() == [0, 0, 2, 3, 4, 5]
    sent = act(rule, scenario, np.arange(len(best)))
    assert sent[:6].tolist() == [0, 0, 4, 4, 4, 4]  # with 2 and 3 waiting, clipped to them
    assert rule.batch_sizes[:6].tolist() == [0, 0, 2, 3, 4, 4]


def test_what_a_busy_replica_draws_beyond_an_idle_one_is_energy_of_its_batches() -> None:
    replica = Replica((0.002,), (0.001,), (0.0,), 8, idle_power_w=40.0, busy_power_w=100.0)
    scenario = Scenario((RequestClass("only", 0.1),), (replica,), tuple(range(1, 9)))
    problem = SmdpRvi(scenario, 100.0).problem
    assert problem.energy_alpha_j == pytest.approx(0.12)  # 60 W for 2 ms
    assert problem.energy_beta_j == pytest.approx(0.06)


# Energy that counts so much that to stay in the overflow would pay if it were cheap.
DEAR = Scenario(
    (RequestClass("only", 0.1),),
    (Replica((0.002,), (0.02,), (0.0,), 32, energy_alpha_j=(1.0,), energy_beta_j=(0.1,)),),
    EVERY,
)


@pytest.mark.parametrize("scenario", [GOOGLENET, seed(0.005), DEAR])
@pytest.mark.parametrize("high", [False, True])
def test_every_corner_of_its_space_can_be_solved(scenario: Scenario, high: bool) -> None:
    build_policy("smdp_rvi", scenario, RULES["smdp_rvi"].space(scenario).corner(high))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"arrival_rate_rps": 0.0}, "smdp_rvi.arrival_rate_rps = 0.0: must be above 0"),
        ({"arrival_rate_rps": "many"}, "smdp_rvi.arrival_rate_rps = 'many': must be a number"),
        ({"arrival_rate_rps": 1.1 * CAPACITY_RPS}, "smdp_rvi.offered load = 1.1"),
        ({"arrival_rate_rps": 10.0, "response_weight": 0.0}, "one of the weights must be above 0"),
        ({"arrival_rate_rps": 10.0, "power_weight": -1.0}, "smdp_rvi.power_weight = -1.0"),
        ({"arrival_rate_rps": 10.0, "response_weight": -1.0}, "smdp_rvi.response_weight = -1.0"),
    ],
)
def test_bad_parameters_are_refused_by_name(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_policy("smdp_rvi", GOOGLENET, parameters)


def test_scenarios_that_are_no_such_queue_are_refused() -> None:
    two = RequestClass("other", 0.1)
    pair = Replica((0.002, 0.002), (0.005, 0.005), (0.0, 0.0), 32)
    tabled = Replica((0.002,), (0.005,), (0.0,), 32, latency_table=(((1.0, 0.01),),))
    only = GOOGLENET.request_classes
    for scenario, reason in [
        (Scenario(only, (P4, P4), EVERY), "one replica"),
        (Scenario((*only, two), (pair,), EVERY), "one request class"),
        (Scenario(only, (tabled,), EVERY), "the latency line"),
        (Scenario(only, (P4,), EVERY, replica_backlog=1), "an idle replica"),
    ]:
        assert reason in (RULES["smdp_rvi"].misfit(scenario) or "")
    assert RULES["smdp_rvi"].misfit(GOOGLENET) is None
