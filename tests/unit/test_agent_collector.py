"""What a rollout keeps of lanes that end at different steps, in a scripted environment."""

from types import SimpleNamespace

import numpy as np
import pytest

from pipeline.agents.collector import Collector, uniform_probabilities
from simulator.action import ActionTable
from simulator.observation import Encoder, Feature, Observation

TABLE = ActionTable(
    np.array([-1, 0]), np.array([-1, 0]), np.array([0, 1]), *[np.array([-1, -1])] * 3
)
ENCODER = Encoder(
    "count",
    (Feature("queue_length.all", "1", 0, 100),),
    lambda observation: observation.queue_length.astype(np.float32),
)


class Counting:
    """Lane l ends after `length[l]` steps; the observation counts the steps since the reset.

    The reward is the count before the step. Arrays are overwritten, as the simulator does.
    """

    table = TABLE

    def __init__(self, length: list[int], terminates: list[bool]) -> None:
        self.length, self.terminates = np.array(length), np.array(terminates)
        self.lanes = len(length)
        self.count = np.zeros((self.lanes, 1))
        self.mask = np.ones((self.lanes, 2), bool)
        self.holding_s = np.zeros(self.lanes)
        self.actions: list[np.ndarray] = []

    def _observation(self) -> Observation:
        empty = np.zeros((self.lanes, 1))
        return Observation(self.count, *[empty] * (len(Observation._fields) - 1))

    def reset(self, lanes=None):
        self.count[slice(None) if lanes is None else lanes] = 0
        return self._observation(), self.mask

    def step(self, action):
        running = self.count[:, 0] < self.length
        self.actions.append(action.copy())
        reward = np.where(running, self.count[:, 0], 0.0)
        self.count += running[:, None]
        self.holding_s[:] = 0.5 * running
        ended = self.count[:, 0] >= self.length
        return SimpleNamespace(
            observation=self._observation(),
            action_mask=self.mask,
            reward=reward,
            holding_s=self.holding_s,
            terminated=ended & self.terminates,
            truncated=ended & ~self.terminates,
        )


@pytest.fixture
def environment() -> Counting:
    return Counting([2, 3], [True, False])


def test_a_lane_that_ends_goes_on_with_its_next_episode(environment):
    collector = Collector(environment, ENCODER, np.random.default_rng(1))
    rollout = collector.collect_steps(uniform_probabilities, 4)
    np.testing.assert_array_equal(
        rollout.features[:, :, 0], [[0, 0], [1, 1], [0, 2], [1, 0], [0, 1]]
    )
    np.testing.assert_array_equal(
        rollout.ended, [[False, False], [True, False], [False, True], [True, False]]
    )
    assert rollout.transitions == 8
    # The final observation is not in `features`: it stands with the ends.
    np.testing.assert_array_equal(rollout.ends.step, [1, 2, 3])
    np.testing.assert_array_equal(rollout.ends.lane, [0, 1, 0])
    np.testing.assert_array_equal(rollout.ends.features[:, 0], [2, 3, 2])
    np.testing.assert_array_equal(rollout.ends.terminated, [True, False, True])
    np.testing.assert_array_equal(rollout.ends.episode_return, [0 + 1, 0 + 1 + 2, 0 + 1])


def test_the_next_rollout_goes_on_where_the_last_one_stopped(environment):
    collector = Collector(environment, ENCODER, np.random.default_rng(1))
    first = collector.collect_steps(uniform_probabilities, 1)
    second = collector.collect_steps(uniform_probabilities, 2)
    np.testing.assert_array_equal(second.features[0], first.features[1])
    np.testing.assert_array_equal(second.ends.episode_return, [1, 3])


def test_whole_episodes_stand_still_after_their_end_and_are_not_counted(environment):
    collector = Collector(environment, ENCODER, np.random.default_rng(1))
    rollout = collector.collect_episodes(lambda f, m: np.tile([0.0, 1.0], (2, 1)), 100)
    np.testing.assert_array_equal(rollout.alive, [[True, True], [True, True], [False, True]])
    np.testing.assert_array_equal(rollout.holding_s, 0.5 * rollout.alive)
    np.testing.assert_array_equal(rollout.reward, [[0, 0], [1, 1], [0, 2]])
    assert rollout.transitions == 5
    np.testing.assert_array_equal(environment.actions, [[1, 1], [1, 1], [0, 1]])  # WAIT at last
    np.testing.assert_array_equal(rollout.ends.features[:, 0], [2, 3])
    np.testing.assert_array_equal(rollout.ends.terminated, [True, False])
    assert rollout.ended.sum() == 2


def test_an_episode_longer_than_the_limit_is_truncated_there(environment):
    collector = Collector(environment, ENCODER, np.random.default_rng(1))
    rollout = collector.collect_episodes(uniform_probabilities, 2)
    np.testing.assert_array_equal(rollout.ended, [[False, False], [True, True]])
    np.testing.assert_array_equal(rollout.ends.terminated, [True, False])
    np.testing.assert_array_equal(rollout.ends.features[:, 0], [2, 2])


def test_the_propensity_kept_is_that_of_the_action_drawn(environment):
    def skewed(features, action_mask):
        return np.tile([0.25, 0.75], (len(features), 1))

    collector = Collector(environment, ENCODER, np.random.default_rng(1))
    rollout = collector.collect_steps(skewed, 50)
    np.testing.assert_array_equal(rollout.propensity, np.where(rollout.action == 1, 0.75, 0.25))
