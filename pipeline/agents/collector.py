"""Rollouts: running a policy network in the lanes of an environment and keeping what it met."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from simulator.action import WAIT, ActionTable, sample_actions
from simulator.observation import Encoder, Observation


class StepResult(Protocol):
    """What the collector reads of `simulator.environment.Step`. B lanes."""

    @property
    def observation(self) -> Observation: ...  # final one where an episode ended
    @property
    def action_mask(self) -> np.ndarray: ...  # [B, A] bool
    @property
    def reward(self) -> np.ndarray: ...  # [B]
    @property
    def holding_s(self) -> np.ndarray: ...  # [B] s
    @property
    def terminated(self) -> np.ndarray: ...  # [B] bool
    @property
    def truncated(self) -> np.ndarray: ...  # [B] bool


class LanesEnvironment(Protocol):
    """What training needs of `simulator.environment.Environment`."""

    lanes: int
    table: ActionTable

    def reset(self, lanes: np.ndarray | None = None) -> tuple[Observation, np.ndarray]:
        """New episodes where `lanes [B]` is True; observation and mask of all lanes."""

    def step(self, action: np.ndarray) -> StepResult:
        """One decision in every lane; lanes that have ended stand still."""


# Probabilities [B, A] from features [B, F] and action mask [B, A].
Probabilities = Callable[[np.ndarray, np.ndarray], np.ndarray]


def uniform_probabilities(features: np.ndarray, action_mask: np.ndarray) -> np.ndarray:
    """Equal probability `[B, A]` on every legal action."""
    probabilities: np.ndarray = action_mask / action_mask.sum(axis=1, keepdims=True)
    return probabilities


class Ends(NamedTuple):
    """The M episodes that ended in a rollout: their last transitions and final observations."""

    step: np.ndarray  # [M] t of the last transition
    lane: np.ndarray  # [M]
    features: np.ndarray  # [M, F] float32, of the final observation
    terminated: np.ndarray  # [M] bool; else truncated
    episode_return: np.ndarray  # [M] undiscounted sum of rewards


class Rollout(NamedTuple):
    """T steps of B lanes.

    `features[t + 1]` follows transition t, but where an episode ended it is the first observation
    of the next episode: the final one is in `ends`.
    """

    features: np.ndarray  # [T + 1, B, F] float32, natural units
    action_mask: np.ndarray  # [T, B, A] bool
    action: np.ndarray  # [T, B] int64
    propensity: np.ndarray  # [T, B]
    reward: np.ndarray  # [T, B]
    holding_s: np.ndarray  # [T, B] s
    ended: np.ndarray  # [T, B] bool, terminated or truncated
    alive: np.ndarray  # [T, B] bool, False where a lane stood still after its end
    ends: Ends

    @property
    def transitions(self) -> int:
        """The number of decisions made, standing still excluded."""
        return int(self.alive.sum())


def next_values(rollout: Rollout, value: np.ndarray, final_value: np.ndarray) -> np.ndarray:
    """Values `[T, B]` of what follows each transition: 0 after `terminated`, bootstrap else.

    value: `[T + 1, B]` of `rollout.features`; final_value: `[M]` of `rollout.ends.features`.
    """
    following = value[1:].copy()
    ends = rollout.ends
    following[ends.step, ends.lane] = np.where(ends.terminated, 0.0, final_value)
    return following


class _Transition(NamedTuple):
    """One step of all lanes: the fields of `Rollout` at one t."""

    features: np.ndarray
    action_mask: np.ndarray
    action: np.ndarray
    propensity: np.ndarray
    reward: np.ndarray
    holding_s: np.ndarray
    ended: np.ndarray
    alive: np.ndarray


class Collector:
    """Keeps the lanes running from one rollout to the next."""

    def __init__(
        self, environment: LanesEnvironment, encoder: Encoder, generator: np.random.Generator
    ) -> None:
        """`generator` draws the actions. The environment is reset by the first rollout."""
        self._environment, self._encoder, self._generator = environment, encoder, generator
        self._episode_return = np.zeros(environment.lanes)
        self._features: np.ndarray | None = None
        self._action_mask = np.zeros((environment.lanes, environment.table.size), bool)

    def restart(self, lanes: np.ndarray | None = None) -> np.ndarray:
        """Begin a new episode in the lanes where `lanes [B]` is True, in all if None.

        Returns the features `[B, F]` of all lanes.
        """
        observation, action_mask = self._environment.reset(lanes)
        # encode() and np.array() copy: the environment overwrites its arrays in the next step.
        self._features = self._encoder.encode(observation)
        self._action_mask = np.array(action_mask, bool)
        self._episode_return[slice(None) if lanes is None else lanes] = 0.0
        return self._features

    def collect_steps(self, probabilities: Probabilities, steps: int) -> Rollout:
        """`steps` decisions in every lane; a lane that ends starts its next episode at once."""
        alive = np.ones(self._environment.lanes, bool)
        features = self.restart() if self._features is None else self._features
        transitions, ends = [], [self._no_ends(features)]
        for step in range(steps):
            transition, terminated, features = self._decide(probabilities, features, alive)
            transitions.append(transition)
            if transition.ended.any():
                ends.append(self._ends(step, features, transition.ended, terminated))
                features = self.restart(transition.ended)
        return _stack(transitions, features, ends)

    def collect_episodes(self, probabilities: Probabilities, max_steps: int) -> Rollout:
        """One whole episode in every lane, truncated after `max_steps` decisions."""
        alive = np.ones(self._environment.lanes, bool)
        features = self.restart()
        transitions, ends = [], [self._no_ends(features)]
        for step in range(max_steps):
            transition, terminated, features = self._decide(probabilities, features, alive)
            if step == max_steps - 1:
                transition = transition._replace(ended=transition.alive)
            transitions.append(transition)
            if transition.ended.any():
                ends.append(self._ends(step, features, transition.ended, terminated))
                alive = alive & ~transition.ended
                if not alive.any():
                    break
        return _stack(transitions, features, ends)

    def _decide(
        self, probabilities: Probabilities, features: np.ndarray, alive: np.ndarray
    ) -> tuple[_Transition, np.ndarray, np.ndarray]:
        """One step of every lane: the transition, where it terminated, and the next features."""
        action_mask = self._action_mask
        action, propensity = sample_actions(probabilities(features, action_mask), self._generator)
        action[~alive] = WAIT
        step = self._environment.step(action)
        transition = _Transition(
            features=features,
            action_mask=action_mask,
            action=action,
            propensity=propensity,
            reward=step.reward,
            holding_s=step.holding_s.copy(),
            ended=(step.terminated | step.truncated) & alive,
            alive=alive,
        )
        self._episode_return += transition.reward
        self._features = self._encoder.encode(step.observation)
        self._action_mask = np.array(step.action_mask, bool)
        return transition, step.terminated, self._features

    def _ends(
        self, step: int, features: np.ndarray, ended: np.ndarray, terminated: np.ndarray
    ) -> Ends:
        lanes = np.flatnonzero(ended)
        return Ends(
            step=np.full(len(lanes), step),
            lane=lanes,
            features=features[lanes],
            terminated=terminated[lanes],
            episode_return=self._episode_return[lanes],
        )

    def _no_ends(self, features: np.ndarray) -> Ends:
        nowhere = np.zeros(len(features), bool)
        return self._ends(0, features, nowhere, nowhere)


def _stack(transitions: list[_Transition], features: np.ndarray, ends: list[Ends]) -> Rollout:
    stacked = _Transition(*(np.stack(column) for column in zip(*transitions, strict=True)))
    rows = np.concatenate([stacked.features, features[None]])
    joined = Ends(*(np.concatenate(column) for column in zip(*ends, strict=True)))
    return Rollout(**{**stacked._asdict(), "features": rows}, ends=joined)
