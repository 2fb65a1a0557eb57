"""Rewards, discounts and features as the learner sees them, from algebra."""

import numpy as np
import pytest
import torch

from pipeline.agents.networks import Normalizer
from pipeline.offline.columns import (
    learner_columns,
    log_discounts,
    scale_rewards,
    weighted_rewards,
)
from pipeline.offline.settings import DiscreteBCSettings, DiscreteCQLSettings, OfflineSettings
from pipeline.transitions import ActionMeaning, Transitions, TransitionSchema
from simulator.observation import Feature

SCHEMA = TransitionSchema(
    encoder="full",
    features=(Feature("queue_length.fast", "requests", 0, 100),),
    actions=(ActionMeaning(-1, -1, 0), ActionMeaning(0, 0, 1)),
    reward_terms=("completed.fast", "energy_j"),
    class_names=("fast",),
)
# Two episodes: two decisions, terminated; one decision, truncated.
TRANSITIONS = Transitions(
    schema=SCHEMA,
    features=np.array([[0.0], [1.0], [2.0], [50.0], [60.0]], np.float32),
    action_mask=np.array([[True, True]] * 4 + [[True, False]]),
    action=np.array([1, 0, 1], np.int32),
    propensity=np.array([0.9, 0.1, 1.0]),
    reward_terms=np.array([[1.0, 10.0], [0.0, 4.0], [3.0, 2.0]]),
    holding_s=np.array([0.0, 0.005, 2.0]),
    terminated=np.array([False, True, False]),
    truncated=np.array([False, False, True]),
    next_row=np.array([1, 3, 4]),
    episode=np.array([0, 0, 1]),
)


def test_gamma_to_the_interval_is_the_discount_of_the_holding_time() -> None:
    interval = log_discounts(TRANSITIONS, discount=0.95, discount_rate=0.5)
    expected = 0.95 * np.exp(-0.5 * TRANSITIONS.holding_s)
    np.testing.assert_allclose(np.exp(-1.0) ** interval, expected, rtol=1e-15)


def test_without_discounting_the_interval_is_zero() -> None:
    assert (log_discounts(TRANSITIONS, discount=1.0, discount_rate=0.0) == 0).all()


def test_the_reward_is_the_weighted_sum_of_its_terms() -> None:
    reward = weighted_rewards(TRANSITIONS, np.array([2.0, -0.5]))
    np.testing.assert_allclose(reward, [2 - 5, -2, 6 - 1])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_reward_that_is_not_finite_is_refused(value: float) -> None:
    broken = TRANSITIONS._replace(reward_terms=np.array([[1.0, 10.0], [value, 4.0], [3.0, 2.0]]))
    with pytest.raises(ValueError, match=f"reward = {value} in transition 1: must be finite"):
        weighted_rewards(broken, np.ones(2))
    with pytest.raises(ValueError, match=f"reward_weights: energy_j = {value}: must be finite"):
        weighted_rewards(TRANSITIONS, np.array([0.0, value]))


def test_weights_must_be_one_for_each_term() -> None:
    with pytest.raises(ValueError, match=r"reward_weights: shape \(3,\)"):
        weighted_rewards(TRANSITIONS, np.ones(3))


def test_scaled_rewards_shift_and_scale_the_exact_values_of_a_chain() -> None:
    # A ring of three states that state 2 leaves with the episode's end half of the time: solve
    # the Bellman equations with and without the scaling.
    successor = np.array([[0, 1, 0], [0, 0, 1], [0.5, 0, 0]])  # transition probabilities
    discount = np.array([0.9, 0.5, 0.8])
    reward = np.array([1.0, -2.0, 7.0])
    values = np.linalg.solve(np.eye(3) - discount[:, None] * successor, reward)

    # The same chain as transitions: state 2 once terminated and once not.
    state = np.array([0, 1, 2, 2])
    terminated = np.array([False, False, True, False])
    scaled, scaling = scale_rewards(reward[state], -np.log(discount[state]), terminated)
    expected_reward = np.array([scaled[0], scaled[1], (scaled[2] + scaled[3]) / 2])
    scaled_values = np.linalg.solve(np.eye(3) - discount[:, None] * successor, expected_reward)
    np.testing.assert_allclose(scaled_values / scaling.scale + scaling.offset, values)
    # Of order 1, and without a common level: the mean TD error of the constant value is 0.
    assert np.sqrt(np.mean(scaled**2)) == pytest.approx(1.0)
    assert scaled.mean() == pytest.approx(0.0, abs=1e-12)


def test_a_constant_reward_rate_leaves_nothing_to_learn() -> None:
    # Reward r * integral of exp(-rate t) over the holding time: every value is r / rate.
    holding_s = np.array([0.0, 0.1, 3.0])
    interval = 0.25 * holding_s
    scaled, scaling = scale_rewards(-8.0 * (1 - np.exp(-interval)), interval, np.zeros(3, bool))
    assert scaling.offset == pytest.approx(-8.0)
    assert scaling.scale == 1.0
    np.testing.assert_allclose(scaled, 0.0, atol=1e-12)


def test_undiscounted_rewards_need_an_end() -> None:
    with pytest.raises(ValueError, match="discount_rate = 0, discount = 1: need discounting"):
        scale_rewards(np.ones(2), np.zeros(2), np.zeros(2, bool))
    _, scaling = scale_rewards(np.array([1.0, 3.0]), np.zeros(2), np.array([False, True]))
    assert scaling.offset == 4.0  # the return of the one episode


def test_the_learner_sees_normalized_features_also_in_closing_rows() -> None:
    normalizer = Normalizer(1)
    normalizer.fit(TRANSITIONS.features[: TRANSITIONS.size])
    columns = learner_columns(TRANSITIONS, normalizer, np.zeros(3), np.zeros(3))
    std = np.sqrt(2 / 3)
    # 60 and 50 lie beyond the limit of 10 standard deviations.
    np.testing.assert_allclose(columns.features[:, 0], [-1 / std, 0, 1 / std, 10, 10], rtol=1e-6)
    again = normalizer(torch.from_numpy(TRANSITIONS.features)).numpy()
    np.testing.assert_array_equal(columns.features, again)


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (OfflineSettings, "updates", 0),
        (OfflineSettings, "updates", 750),
        (OfflineSettings, "updates_per_epoch", 0),
        (OfflineSettings, "minibatch", 0),
        (OfflineSettings, "learning_rate", 0.0),
        (OfflineSettings, "learning_rate", float("nan")),
        (OfflineSettings, "network", "transformer"),
        (OfflineSettings, "hidden", ()),
        (OfflineSettings, "hidden", (64, 0)),
        (DiscreteBCSettings, "logit_penalty", -1.0),
        (DiscreteCQLSettings, "discount", 0.0),
        (DiscreteCQLSettings, "discount", 1.1),
        (DiscreteCQLSettings, "discount_rate", -0.1),
        (DiscreteCQLSettings, "conservative_weight", float("inf")),
        (DiscreteCQLSettings, "target_update_interval", 0),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(
    kind: type[OfflineSettings], field: str, value: object
) -> None:
    with pytest.raises(ValueError, match=f"^{field} = "):
        kind(**{field: value})
