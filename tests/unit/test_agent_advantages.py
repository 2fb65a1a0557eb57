"""Returns and advantages against values worked out by hand."""

import numpy as np
import pytest

from pipeline.agents.advantages import explained_variance, generalized_advantages, step_discounts
from pipeline.agents.collector import Ends, Rollout, next_values

NONE = np.zeros((3, 1), bool)


def column(*numbers: float) -> np.ndarray:
    return np.array(numbers, float)[:, None]


def test_a_transition_is_discounted_by_its_own_holding_time():
    holding_s = np.array([[0.0, 2.0], [0.5, 1.0]])
    expected = [[1.0, np.exp(-1.0)], [np.exp(-0.25), np.exp(-0.5)]]
    np.testing.assert_allclose(step_discounts(holding_s, 1.0, 0.5), expected)
    np.testing.assert_allclose(step_discounts(holding_s, 0.95, 0.0), np.full((2, 2), 0.95))


def test_advantages_with_semi_markov_discounts_are_those_worked_out_by_hand():
    # discount 0.5, 1, 0.25; delta_t = r + discount * next value - value
    # delta: 1 + 0.5*4 - 2 = 1; 2 + 1*8 - 4 = 6; 3 + 0.25*16 - 8 = -1
    # with gae_lambda 0.5: A_2 = -1; A_1 = 6 + 1*0.5*-1 = 5.5; A_0 = 1 + 0.5*0.5*5.5 = 2.375
    advantage = generalized_advantages(
        column(1, 2, 3), column(2, 4, 8), column(4, 8, 16), column(0.5, 1, 0.25), NONE, 0.5
    )
    np.testing.assert_allclose(advantage, column(2.375, 5.5, -1))


def test_nothing_flows_back_over_the_end_of_an_episode():
    ended = np.array([[False], [True], [False]])
    half = column(0.5, 0.5, 0.5)
    # The episode terminated after the second transition: its next value is 0.
    advantage = generalized_advantages(
        column(1, 2, 100), column(2, 4, 8), column(4, 0, 16), half, ended, 1.0
    )
    # delta: 1 + 2 - 2 = 1; 2 + 0 - 4 = -2; 100 + 8 - 8 = 100
    np.testing.assert_allclose(advantage, column(1 + 0.5 * -2, -2, 100))


def test_lanes_do_not_mix():
    generator = np.random.default_rng(1)
    reward, value, next_value, discount = generator.random((4, 20, 5))
    ended = generator.random((20, 5)) < 0.2
    together = generalized_advantages(reward, value, next_value, discount, ended, 0.9)
    for lane in range(5):
        one = [array[:, [lane]] for array in (reward, value, next_value, discount, ended)]
        alone = generalized_advantages(*one, 0.9)
        np.testing.assert_allclose(together[:, [lane]], alone)


def test_with_lambda_1_advantage_plus_value_is_the_discounted_return():
    discount, ended = column(0.5, 0.25, 0.125), np.array([[False], [False], [True]])
    value = column(7, -3, 5)
    advantage = generalized_advantages(
        column(1, 2, 3), value, column(-3, 5, 0), discount, ended, 1.0
    )
    expected = column(1 + 0.5 * (2 + 0.25 * 3), 2 + 0.25 * 3, 3)
    np.testing.assert_allclose(advantage + value, expected)


def test_truncation_bootstraps_from_the_final_observation_and_termination_from_nothing():
    rollout = Rollout(
        *[np.zeros(0)] * 8,
        ends=Ends(
            step=np.array([0, 1]),
            lane=np.array([1, 0]),
            features=np.zeros((2, 1)),
            terminated=np.array([True, False]),
            episode_return=np.zeros(2),
        ),
    )
    value = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])  # [T + 1, B]
    following = next_values(rollout, value, final_value=np.array([70.0, 80.0]))
    np.testing.assert_array_equal(following, [[3.0, 0.0], [80.0, 6.0]])
    assert value[1, 1] == 4.0  # the values themselves are left alone


def test_explained_variance_is_1_for_perfect_values_and_0_for_constant_ones():
    return_ = np.array([1.0, 2.0, 4.0])
    assert explained_variance(return_, return_) == 1.0
    assert explained_variance(np.full(3, 2.0), return_) == pytest.approx(0.0)
    assert explained_variance(return_, np.full(3, 2.0)) == 0.0
