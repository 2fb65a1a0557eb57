"""The rule inside runtime.py against the simulator's own, and what it does when it cannot see."""

import numpy as np
import pytest

from pipeline.bundle.manifest import action_rows, build_manifest, fallback_rows, feature_rows
from pipeline.bundle.runtime import FallbackRule
from simulator.action import WAIT, action_table, sample_actions
from simulator.environment import Environment
from simulator.observation import full_encoder, paper_encoder
from simulator.policies import build_policy
from simulator.policies.mixture import EpsilonMixture
from simulator.replica import Replica
from simulator.reward import paper_reward
from simulator.scenario import ClassChoice, RequestClass, Scenario
from simulator.traffic import PoissonWorkload


def cluster(class_choice: ClassChoice) -> Scenario:
    """Unlike replicas, one of which does not take the largest batch."""
    return Scenario(
        (RequestClass("fast", 0.05, 10.0), RequestClass("slow", 0.2), RequestClass("rare", 1.0)),
        (
            Replica((0.004, 0.003, 0.002), (0.005, 0.020, 0.01), (0.1, 0.1, 0.1), 8),
            Replica((0.002, 0.006, 0.002), (0.006, 0.015, 0.01), (0.1, 0.1, 0.1), 4),
        ),
        (1, 2, 3, 4, 8),
        class_choice=class_choice,
    )


RULES = [
    ("static_cap", {"batch_size": 4}),
    ("batch_timeout", {"max_batch_size": 4, "batch_timeout_s": 0.02}),
    ("fifo", {"batch_size": 8}),
    ("c_mu", {"batch_size": {"fast": 8, "slow": 2, "rare": 1}}),
    ("c_mu", {"batch_size": 3}),
    ("round_robin", {"batch_size": 4, "on_busy": "skip"}),
    ("round_robin", {"batch_size": 4, "on_busy": "blocking"}),
    ("random_replica", {"batch_size": 4}),
    ("shortest_queue", {"batch_size": 4}),
    ("shortest_queue_first", {"batch_size": 4}),
]
CASES = [
    (choice, rule, parameters)
    for choice in ClassChoice
    for rule, parameters in RULES
    if not (rule == "c_mu" and choice == ClassChoice.HEAD_OF_LINE)
]


def fallback(scenario: Scenario, rule: str, parameters: dict) -> FallbackRule:
    encoder = full_encoder(scenario)
    return FallbackRule(
        {
            "features": feature_rows(encoder),
            "class_names": list(scenario.class_names),
            "actions": action_rows(action_table(scenario), scenario.class_names),
            "fallback": fallback_rows(rule, parameters, scenario, encoder),
        }
    )


@pytest.mark.parametrize(("class_choice", "rule", "parameters"), CASES)
def test_it_does_what_the_simulator_s_rule_does_and_takes_the_first_of_random_ties(
    class_choice, rule, parameters
):
    scenario = cluster(class_choice)
    ours, encoder = fallback(scenario, rule, parameters), full_encoder(scenario)
    theirs = build_policy(rule, scenario, parameters)
    explorer = EpsilonMixture(theirs, 0.3)
    lanes = Environment(
        scenario,
        PoissonWorkload((70.0, 40.0, 20.0)),
        lanes=8,
        horizon_s=100.0,
        reward=paper_reward(scenario),
        generator=np.random.default_rng(1),
    )
    observation, mask = lanes.reset()
    generator = np.random.default_rng(2)
    chosen = []
    for _ in range(150):
        expected = theirs.action_probabilities(observation, mask).argmax(axis=1)
        features = encoder.encode(observation)
        action = [ours.action(row, legal) for row, legal in zip(features, mask, strict=True)]
        np.testing.assert_array_equal(action, expected)
        chosen += action
        drawn, _ = sample_actions(explorer.action_probabilities(observation, mask), generator)
        step = lanes.step(drawn)
        observation, mask = step.observation, step.action_mask
    assert len(set(chosen) - {WAIT}) >= 3  # the episode has put it to the test


def test_a_wait_that_has_just_reached_the_timeout_counts_in_float32_too():
    scenario = cluster(ClassChoice.ANY)
    rule = fallback(scenario, "batch_timeout", {"max_batch_size": 8, "batch_timeout_s": 0.01})
    assert float(np.float32(0.01)) < 0.01
    row, mask = one_waiting(scenario, wait_s=0.01)
    assert rule.action(row, mask) != WAIT
    row, mask = one_waiting(scenario, wait_s=0.00999)
    assert rule.action(row, mask) == WAIT


def one_waiting(scenario: Scenario, wait_s: float) -> tuple[np.ndarray, np.ndarray]:
    """One `fast` request waits, both replicas can take it."""
    names = [feature.name for feature in full_encoder(scenario).features]
    row = np.zeros(len(names), np.float32)
    row[names.index("queue_length.fast")] = 1
    row[names.index("oldest_wait_s.fast")] = wait_s
    row[names.index("head_class.fast")] = 1
    for replica in range(2):
        row[names.index(f"can_take.{replica}")] = 1
    table = action_table(scenario)
    mask = (table.request_class == 0) & (table.batch_size <= np.array([8, 4])[table.replica])
    mask[WAIT] = True
    return row, mask


@pytest.mark.parametrize("blind", ["queue_length.fast", "can_take.1", "head_class.slow"])
def test_a_rule_that_cannot_read_its_features_sends_the_largest_legal_batch(blind):
    scenario = cluster(ClassChoice.ANY)
    rule = fallback(scenario, "fifo", {"batch_size": 2})
    row, mask = one_waiting(scenario, wait_s=0.01)
    row[[f.name for f in full_encoder(scenario).features].index(blind)] = np.nan
    table = action_table(scenario)
    action = rule.action(row, mask)
    assert mask[action]
    assert table.batch_size[action] == table.batch_size[mask].max() == 8


def test_a_mask_that_contradicts_the_rule_is_obeyed():
    scenario = cluster(ClassChoice.ANY)
    rule = fallback(scenario, "fifo", {"batch_size": 2})
    row, mask = one_waiting(scenario, wait_s=0.01)
    mask[:] = False
    assert rule.action(row, mask) == WAIT
    mask[7] = True
    assert rule.action(row, mask) == 7


def test_the_largest_batch_needs_no_feature_and_waits_when_nothing_is_legal():
    scenario = cluster(ClassChoice.ANY)
    encoder = paper_encoder(scenario)
    rule = FallbackRule(
        {
            "features": feature_rows(encoder),
            "class_names": list(scenario.class_names),
            "actions": action_rows(action_table(scenario), scenario.class_names),
            "fallback": fallback_rows("largest_batch", {}, scenario, encoder),
        }
    )
    blind = np.full(len(encoder.features), np.nan, np.float32)
    _, mask = one_waiting(scenario, wait_s=0.0)
    table = action_table(scenario)
    assert table.batch_size[rule.action(blind, mask)] == 8
    mask[1:] = False
    assert rule.action(blind, mask) == WAIT


@pytest.mark.parametrize(
    ("rule", "parameters", "message"),
    [
        ("uniform_random", {}, r"fallback\.rule = 'uniform_random': must be one of"),
        ("fifo", {"size": 3}, "fifo.size = 3"),
        ("fifo", {}, "fifo.batch_size: must be given"),
    ],
)
def test_a_fallback_that_the_runtime_cannot_have_is_refused(rule, parameters, message):
    scenario = cluster(ClassChoice.ANY)
    with pytest.raises(ValueError, match=message):
        fallback_rows(rule, parameters, scenario, full_encoder(scenario))


def test_an_encoder_without_the_features_that_a_rule_reads_is_refused():
    scenario = cluster(ClassChoice.ANY)
    with pytest.raises(ValueError, match=r"lacks can_take.0, .*; use 'largest_batch'"):
        fallback_rows("fifo", {"batch_size": 2}, scenario, paper_encoder(scenario))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("features", ["a"], r"agent\.features"),
        ("actions", 3, r"agent\.actions = 3"),
    ],
)
def test_a_manifest_is_refused_where_agent_and_scenario_differ(field, value, message):
    scenario = cluster(ClassChoice.ANY)
    encoder = full_encoder(scenario)
    description = {
        "name": "ppo",
        "algorithm": "ppo",
        "encoder": "full",
        "features": [feature.name for feature in encoder.features],
        "actions": action_table(scenario).size,
        "network": {},
        "score": "logits",
        "seed": 1,
        "training": {},
    }
    hashes = {"data": "0", "calibration": "0", "config": "0"}
    with pytest.raises(ValueError, match=message):
        build_manifest({**description, field: value}, encoder, scenario, {}, hashes, [])
    with pytest.raises(ValueError, match="hashes"):
        build_manifest(description, encoder, scenario, {}, {"data": "0"}, [])
