"""Rewards as weighted terms, the numbering of actions, and how one is drawn."""

import dataclasses

import numpy as np
import pytest

from simulator.action import WAIT, action_table, describe_action, sample_actions
from simulator.replica import Replica
from simulator.reward import paper_reward, reward_term_names, weighted_reward
from simulator.scenario import ClassChoice, RequestClass, Scenario

FAST, SLOW = RequestClass("fast", 0.1, weight=200.0), RequestClass("slow", 0.5, weight=20.0)
GPU = Replica((0.002, 0.002), (0.005, 0.02), (0.0, 0.0), 32)
SCENARIO = Scenario((FAST, SLOW), (GPU, GPU), tuple(range(1, 33)))
NAMES = reward_term_names(("fast", "slow"))


def test_reward_is_the_weighted_sum_of_its_terms_by_class_weight() -> None:
    reward = weighted_reward(
        SCENARIO, {"completed": 1.0, "shed": -2.0}, {"energy_j": -0.5}, scale=0.1
    )
    terms = np.zeros((1, len(NAMES)))
    terms[0, NAMES.index("completed.fast")] = 3
    terms[0, NAMES.index("shed.slow")] = 2
    terms[0, NAMES.index("energy_j")] = 10
    assert reward.value(terms)[0] == pytest.approx(0.1 * (3 * 200 - 2 * 2 * 20 - 0.5 * 10))


def test_paper_reward_is_throughput_minus_scaled_weighted_response() -> None:
    terms = np.zeros(len(NAMES))
    terms[NAMES.index("completed.fast")], terms[NAMES.index("response_s.fast")] = 2, 0.6
    # Weights 200 and 20 are 200 / 110 and 20 / 110 of their mean; the SLA is 3 s.
    assert paper_reward(SCENARIO).value(terms) == pytest.approx(2 - 0.6 * (200 / 110) / 3.0)


def test_in_the_paper_reward_a_shed_request_costs_more_than_one_answered_at_the_sla() -> None:
    answered, shed = np.zeros(len(NAMES)), np.zeros(len(NAMES))
    answered[NAMES.index("completed.fast")], answered[NAMES.index("response_s.fast")] = 1, 3.0
    shed[NAMES.index("shed.fast")] = 1
    assert paper_reward(SCENARIO).value(shed) < paper_reward(SCENARIO).value(answered)


def test_an_unknown_reward_term_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"reward.latency = 1.0: the terms are completed"):
        weighted_reward(SCENARIO, {"latency": 1.0}, {})


def test_the_paper_preset_has_65_actions_numbered_as_the_paper_says() -> None:
    table = action_table(dataclasses.replace(SCENARIO, class_choice=ClassChoice.HEAD_OF_LINE))
    assert table.size == 65
    for action in range(1, 65):  # D14
        assert table.replica[action] == (action - 1) // 32
        assert table.batch_size[action] == (action - 1) % 32 + 1


def test_with_free_class_choice_every_triple_has_one_action() -> None:
    table = action_table(SCENARIO)
    triples = set(zip(*(column[1:].tolist() for column in table), strict=True))
    assert len(triples) == table.size - 1 == 2 * 2 * 32


def test_actions_are_described_in_words() -> None:
    table = action_table(SCENARIO)
    assert describe_action(table, WAIT, SCENARIO.class_names) == "wait"
    assert describe_action(table, 1, SCENARIO.class_names) == "replica 0, fast, batch size 1"


def test_actions_are_drawn_with_their_probabilities_and_never_where_these_are_zero() -> None:
    row = np.array([0.0, 0.25, 0.0, 0.75, 0.0])
    action, propensity = sample_actions(np.tile(row, (40_000, 1)), np.random.default_rng(1))
    share = np.bincount(action, minlength=5) / 40_000
    assert share[[0, 2, 4]].sum() == 0
    assert abs(share[3] - 0.75) < 4 * np.sqrt(0.75 * 0.25 / 40_000)
    np.testing.assert_array_equal(propensity, row[action])


def test_a_row_that_sums_to_just_under_one_never_draws_an_impossible_action() -> None:
    class Highest:
        def random(self, count: int) -> np.ndarray:
            return np.full(count, np.nextafter(1.0, 0.0))

    row = np.array([[0.1] * 10 + [0.0]])
    action, propensity = sample_actions(row, Highest())  # type: ignore[arg-type]
    assert propensity[0] > 0
    assert action[0] == 9
