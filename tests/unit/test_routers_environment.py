"""Every router in real environments: rows are valid and lanes do not know of each other."""

from dataclasses import replace

import numpy as np
import pytest

from simulator.action import sample_actions
from simulator.conditions import Fault, Faults, View
from simulator.environment import Environment
from simulator.observation import Observation
from simulator.policies import RULES, Policy, build_policy
from simulator.policies.registry import fitting_rules
from simulator.policies.space import nested
from simulator.replica import Replica, TokenModel, continuous_replica
from simulator.reward import paper_reward
from simulator.scenario import DecisionKind, RequestClass, Scenario
from simulator.sizes import Lognormal, RequestSizes
from simulator.traffic import PoissonWorkload

LANES = 3
CLASSES = (RequestClass("fast", 0.1, 3.0), RequestClass("slow", 0.5), RequestClass("rare", 0.5))
WHOLE = Scenario(
    CLASSES,
    tuple(
        Replica((0.002,) * 3, (0.005, 0.01, 0.02), (0.3,) * 3, 8 >> k, serves=serves).at_speed(s)
        for k, (s, serves) in enumerate(
            [(1.0, (True,) * 3), (0.5, (True, True, False)), (2.0, (False, True, True))]
        )
    ),
    (1, 2, 4, 8),
    queue_capacity=6,
    decision="route",
    queues="replica",
)
SIZES = RequestSizes(Lognormal(1.0, 0.5), Lognormal(200.0, 1.0), Lognormal(10.0, 1.0))
TOKENS = TokenModel(0.005, 1e-5, 1e-4, 1e-7, 4, 4000, 256)
SCENARIOS = {
    "whole batches, partial serves": WHOLE,
    "a stale view": replace(WHOLE, view=View(0.2)),
    "faults": replace(WHOLE, faults=Faults((Fault(0, 0.1, 0.3), Fault(2, 0.2, 0.3)))),
    "one replica": replace(WHOLE, replicas=WHOLE.replicas[:1]),
    "continuous": replace(WHOLE, replicas=(continuous_replica(3, TOKENS),) * 3),
}


def points(name: str, scenario: Scenario) -> list[dict]:
    """The corners of the rule's space and its default."""
    space = RULES[name].space(scenario)
    default = [] if space.default is None else [nested(space.default)]
    return [space.corner(high=False), space.corner(high=True), *default]


CASES = [
    pytest.param(name, scenario, id=f"{name}, {title}")
    for title, scenario in SCENARIOS.items()
    for name, rule in RULES.items()
    if DecisionKind.ROUTE in rule.builders and rule.misfit(scenario) is None
]


def history(policy: Policy, scenario: Scenario) -> list[tuple[Observation, np.ndarray, np.ndarray]]:
    """Observations, masks and rows of some steps, past the end of the episodes."""
    environment = Environment(
        scenario,
        PoissonWorkload((60.0, 30.0, 5.0), (SIZES,) * 3),
        lanes=LANES,
        horizon_s=0.6,
        reward=paper_reward(scenario),
        generator=np.random.default_rng(1),
    )
    generator, seen = np.random.default_rng(2), []
    observation, mask = environment.reset()
    policy.reset(LANES)
    for _ in range(90):
        rows = policy.action_probabilities(observation, mask)
        kept = Observation(*(array.copy() for array in observation))
        seen.append((kept, mask.copy(), rows))
        # Somebody else decides now and then: a rule learns from what was done.
        mixed = 0.8 * rows + 0.2 * mask / mask.sum(axis=1, keepdims=True)
        step = environment.step(sample_actions(mixed, generator)[0])
        observation, mask = step.observation, step.action_mask
    return seen


@pytest.mark.parametrize(("name", "scenario"), CASES)
def test_rows_are_distributions_and_repeat_lane_by_lane(name, scenario):
    for parameters in points(name, scenario):
        seen = history(build_policy(name, scenario, parameters), scenario)
        again = build_policy(name, scenario, parameters)
        again.reset(LANES)
        order = np.array([2, 0, 1])
        for observation, mask, rows in seen:
            assert rows.dtype == np.float64
            assert (rows >= 0).all()
            assert (rows[~mask] == 0).all()
            assert (rows.sum(axis=1) == 1.0).all()
            moved = Observation(*(array[order] for array in observation))
            moved = moved._replace(
                replica_queue_length=moved.replica_queue_length.astype(np.int32),
                in_flight=moved.in_flight.astype(np.int64),
                head_class=moved.head_class.astype(float),
                last_replica=moved.last_replica.astype(np.int8),
                arrived=moved.arrived.astype(np.int32),
            )
            np.testing.assert_array_equal(
                again.action_probabilities(moved, mask[order]), rows[order]
            )


def test_work_needs_whole_batches_and_kv_memory_continuous_ones():
    by_work, by_kv = {"least_work_left", "first_policy_iteration"}, {"llm_d", "blis", "dynamo_kv"}
    whole = set(fitting_rules(SCENARIOS["a stale view"]))
    continuous = set(fitting_rules(SCENARIOS["continuous"]))
    assert whole - continuous == by_work
    assert continuous - whole == by_kv
