"""The d3rlpy adapter: minibatches, masks and the loss, row by row."""

import numpy as np
import pytest
import torch
from d3rlpy import TorchMiniBatch
from d3rlpy.dataset import TransitionMiniBatch

from pipeline.agents.networks import MASKED_SCORE
from pipeline.offline.columns import LearnerColumns
from pipeline.offline.d3rlpy_adapter import (
    GAMMA,
    ColumnarReplayBuffer,
    MaskedActionValuesFactory,
    build_learner,
    fit,
    learner_scores,
)
from pipeline.offline.settings import DiscreteBCSettings, DiscreteCQLSettings, OfflineSettings

ACTIONS = 5


def columns_of(episodes: int, generator: np.random.Generator) -> LearnerColumns:
    """Episodes of two decisions, ended by termination and truncation in turn."""
    size = 2 * episodes
    rows = size + episodes
    legal = generator.random((rows, ACTIONS)) < 0.4
    legal[:, 0] = True
    next_row = np.arange(1, size + 1)
    next_row[1::2] = np.arange(size, rows)
    return LearnerColumns(
        # The first feature is the row's number, so that a sampled row can be told.
        features=np.stack(
            [np.arange(rows), generator.standard_normal(rows)], axis=1, dtype=np.float32
        ),
        action_mask=legal,
        action=np.array([generator.choice(np.flatnonzero(row)) for row in legal[:size]], np.int32),
        reward=generator.standard_normal(size).astype(np.float32),
        interval=generator.exponential(size=size).astype(np.float32),
        terminated=np.tile([False, True, False, False], episodes // 2),
        next_row=next_row,
    )


COLUMNS = columns_of(40, np.random.default_rng(0))


def buffer(seed: int = 0) -> ColumnarReplayBuffer:
    return ColumnarReplayBuffer(COLUMNS, np.random.default_rng(seed))


def test_sampled_minibatches_are_rows_of_the_columns() -> None:
    minibatch = buffer().sample_transition_batch(500)
    observations = np.asarray(minibatch.observations)
    rows = observations[:, 0].astype(int)
    assert set(rows) == set(range(80))  # terminated, truncated and inner transitions alike
    np.testing.assert_array_equal(observations[:, :2], COLUMNS.features[rows])
    np.testing.assert_array_equal(observations[:, 2:], COLUMNS.action_mask[rows])
    np.testing.assert_array_equal(minibatch.actions[:, 0], COLUMNS.action[rows])
    np.testing.assert_array_equal(minibatch.rewards[:, 0], COLUMNS.reward[rows])
    np.testing.assert_array_equal(minibatch.intervals[:, 0], COLUMNS.interval[rows])
    next_observations = np.asarray(minibatch.next_observations)
    next_rows = np.where(rows % 2 == 0, rows + 1, 80 + rows // 2)  # a closing row ends each episode
    np.testing.assert_array_equal(next_observations[:, 0], next_rows)
    np.testing.assert_array_equal(next_observations[:, 2:], COLUMNS.action_mask[next_rows])
    # Every second episode is truncated: no terminal there, so the closing row is bootstrapped from.
    np.testing.assert_array_equal(minibatch.terminals[:, 0], rows % 4 == 1)


def test_sampling_depends_on_its_own_generator_alone() -> None:
    first = buffer(3).sample_transition_batch(50)
    np.random.seed(1)  # noqa: NPY002 - the generator that d3rlpy would draw from
    second = buffer(3).sample_transition_batch(50)
    np.testing.assert_array_equal(first.observations, second.observations)
    other = buffer(4).sample_transition_batch(50)
    assert not np.array_equal(first.observations, other.observations)


def cql(conservative_weight: float = 0.5) -> DiscreteCQLSettings:
    return DiscreteCQLSettings(
        updates=5,
        updates_per_epoch=5,
        minibatch=32,
        hidden=(8,),
        conservative_weight=conservative_weight,
    )


def test_the_target_discounts_by_interval_and_takes_the_best_legal_action() -> None:
    learner = build_learner(cql(), features=2)
    fit(learner, buffer(), cql())
    rows = np.arange(80)
    minibatch = TorchMiniBatch.from_batch(
        buffer().minibatch(rows), gamma=GAMMA, compute_returns_to_go=False, device="cpu:0"
    )
    # Double Q-learning: the online network chooses, the target network judges.
    next_rows = COLUMNS.next_row
    chosen = np.where(
        COLUMNS.action_mask[next_rows],
        learner_scores(learner, buffer().observations(next_rows)),
        -np.inf,
    ).argmax(axis=1)
    assert COLUMNS.action_mask[next_rows, chosen].all()
    with torch.no_grad():
        assert learner.impl is not None
        target_network = learner.impl.modules.targ_q_funcs[0]
        judged = target_network(minibatch.next_observations).q_value.numpy()[rows, chosen]
        np.testing.assert_allclose(
            learner.impl.compute_target(minibatch).numpy()[:, 0], judged, rtol=1e-6
        )
        loss = learner.impl.compute_loss(minibatch, torch.from_numpy(judged[:, None])).td_loss
    discount = np.exp(-COLUMNS.interval.astype(float)) * ~COLUMNS.terminated
    value = learner_scores(learner, buffer().observations(rows))[rows, COLUMNS.action]
    error = value - (COLUMNS.reward + discount * judged)
    assert loss.item() == pytest.approx(np.mean(error**2), rel=1e-5)  # squared, not Huber


def test_masked_actions_score_as_impossible_and_are_never_greedy() -> None:
    learner = build_learner(cql(conservative_weight=0.0), features=2)
    fit(learner, buffer(), cql(conservative_weight=0.0))
    observations = buffer().observations(np.arange(120))
    scores = learner_scores(learner, observations)
    assert (scores[~COLUMNS.action_mask] == MASKED_SCORE).all()
    assert (np.abs(scores[COLUMNS.action_mask]) < 1e3).all()
    greedy = learner.predict(observations)
    assert COLUMNS.action_mask[np.arange(120), greedy].all()


def test_the_conservative_term_ignores_masked_actions() -> None:
    # Where one action is legal its log-sum-exp is its value: nothing to be conservative about.
    only = np.zeros_like(COLUMNS.action_mask)
    only[np.arange(80), COLUMNS.action] = True
    only[80:, 0] = True
    lonely = ColumnarReplayBuffer(COLUMNS._replace(action_mask=only), np.random.default_rng(0))
    curve = fit(build_learner(cql(), features=2), lonely, cql())
    assert curve[-1]["conservative_loss"] == pytest.approx(0.0, abs=1e-6)


def test_the_loss_of_one_transition_by_hand() -> None:
    encoder = torch.nn.Flatten()  # action values are a linear map of the whole observation
    network, forwarder = MaskedActionValuesFactory().create_discrete(encoder, 3, 2)
    observation = torch.tensor([[2.0, 1.0, 1.0]])
    value = network(observation).q_value[0, 1].item()
    loss = forwarder.compute_error(
        observation,
        torch.tensor([[1]]),
        rewards=torch.tensor([[-100.0]]),
        target=torch.tensor([[50.0]]),
        terminals=torch.tensor([[0.0]]),
        gamma=torch.tensor([[0.5]]),
    )
    assert loss.item() == pytest.approx((value - (-100 + 0.5 * 50)) ** 2, rel=1e-6)


def test_exactly_the_updates_asked_for_are_made_and_reported() -> None:
    settings = DiscreteBCSettings(updates=6, updates_per_epoch=2, minibatch=16, hidden=(4,))
    learner, heard = build_learner(settings, features=2), []
    curve = fit(learner, buffer(), settings, heard.append)
    assert learner.grad_step == 6
    assert heard == curve
    assert [row["update"] for row in curve] == [2, 4, 6]
    assert all(
        row.keys() == {"update", "loss", "imitation_loss", "regularization_loss"} for row in curve
    )


def test_training_that_diverges_is_an_error() -> None:
    broken = COLUMNS._replace(reward=np.full(80, np.nan, np.float32))
    with pytest.raises(RuntimeError, match="update 5: weights or losses are not finite"):
        fit(
            build_learner(cql(), features=2),
            ColumnarReplayBuffer(broken, np.random.default_rng(0)),
            cql(),
        )


def test_settings_of_no_algorithm_are_refused() -> None:
    with pytest.raises(ValueError, match="must be those of an offline agent"):
        build_learner(OfflineSettings(), features=2)


def test_minibatches_have_the_shapes_that_d3rlpy_declares() -> None:
    assert isinstance(buffer().sample_transition_batch(3), TransitionMiniBatch)
    assert buffer().transition_count == 80
    assert buffer().sample_transition().observation_signature.shape == [(7,)]
