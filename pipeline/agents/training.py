"""Online training from start to end: collect, update, note the curve, keep the best network."""

import copy
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from pipeline.agents.advantages import explained_variance
from pipeline.agents.collector import Collector, LanesEnvironment, Rollout
from pipeline.agents.curve import CurveRow, Losses
from pipeline.agents.learner import Learner, Lesson, make_lesson, prepare
from pipeline.agents.networks import PolicyNetwork
from pipeline.agents.ppo import update_ppo
from pipeline.agents.reinforce import update_reinforce
from pipeline.agents.settings import PPOSettings, ReinforceSettings
from simulator.observation import Encoder


class TrainedAgent(NamedTuple):
    """What a training leaves behind."""

    network: PolicyNetwork
    curve: list[CurveRow]
    reward_scale: float
    best_update: int  # the update whose network this is: the last, without validation


def train(
    environment: LanesEnvironment,
    encoder: Encoder,
    settings: ReinforceSettings | PPOSettings,
    generator: np.random.Generator,
    progress: Callable[[CurveRow], None] | None = None,
    validate: Callable[[PolicyNetwork], float] | None = None,
) -> TrainedAgent:
    """Train REINFORCE or PPO, by the type of the settings; same generator state, same network.

    `progress` is called with each row of the curve. `validate` scores a network (higher is better)
    every `settings.validate_every` updates and after the last; the best one is returned, the
    earlier of equals. Raises RuntimeError where a loss is not finite.
    """
    if environment.lanes != settings.lanes:
        raise ValueError(f"lanes = {settings.lanes}: the environment has {environment.lanes}")
    actions, weights, minibatches = generator.spawn(3)
    collector = Collector(environment, encoder, actions)
    initial = torch.Generator().manual_seed(int(weights.integers(2**63)))
    learner = prepare(collector, len(encoder.features), environment.table.size, settings, initial)
    collector.restart()
    keeper = _BestKeeper(learner.policy, settings.validate_every, validate)
    curve: list[CurveRow] = []
    steps = 0
    while steps < settings.steps:
        learner.set_progress(steps / settings.steps)
        rollout, lesson = _collect(collector, learner, settings)
        steps += rollout.transitions
        losses = _update(learner, lesson, settings, minibatches, len(curve) + 1)
        validation = keeper.consider(len(curve) + 1, steps >= settings.steps)
        curve.append(_row(len(curve) + 1, steps, rollout, lesson, losses, validation))
        if progress is not None:
            progress(curve[-1])
    network, best_update = keeper.best(len(curve))
    return TrainedAgent(network.eval(), curve, learner.reward_scale, best_update)


def _collect(
    collector: Collector, learner: Learner, settings: ReinforceSettings | PPOSettings
) -> tuple[Rollout, Lesson]:
    if isinstance(settings, PPOSettings):
        rollout = collector.collect_steps(learner.probabilities, settings.rollout_steps)
        return rollout, make_lesson(learner, rollout, settings.gae_lambda)
    rollout = collector.collect_episodes(learner.probabilities, settings.max_episode_steps)
    return rollout, make_lesson(learner, rollout, gae_lambda=1.0)  # 1: Monte-Carlo returns


def _update(
    learner: Learner,
    lesson: Lesson,
    settings: ReinforceSettings | PPOSettings,
    generator: np.random.Generator,
    update: int,
) -> Losses:
    if isinstance(settings, PPOSettings):
        return update_ppo(learner, lesson, settings, generator, update)
    return update_reinforce(learner, lesson, settings, generator, update)


def _row(
    update: int,
    steps: int,
    rollout: Rollout,
    lesson: Lesson,
    losses: Losses,
    validation: float | None,
) -> CurveRow:
    returns = rollout.ends.episode_return
    return CurveRow(
        update=update,
        steps=steps,
        episodes=len(returns),
        return_mean=float(returns.mean()) if len(returns) else None,
        **losses._asdict(),
        explained_variance=explained_variance(lesson.value.numpy(), lesson.return_.numpy()),
        validation=validation,
    )


class _BestKeeper:
    """Remembers the network with the best validation so far."""

    def __init__(
        self,
        network: PolicyNetwork,
        every: int,
        validate: Callable[[PolicyNetwork], float] | None,
    ) -> None:
        self._network, self._every = network, every
        self._validate = validate if every else None
        self._best: tuple[float, int, PolicyNetwork] | None = None

    def consider(self, update: int, last: bool) -> float | None:
        """The validation score where one is due, else None."""
        if self._validate is None or not (last or update % self._every == 0):
            return None
        score = self._validate(self._network)
        if not np.isfinite(score):
            raise RuntimeError(f"update {update}: validation = {score}: training stopped")
        if self._best is None or score > self._best[0]:
            self._best = (score, update, copy.deepcopy(self._network))
        return score

    def best(self, last_update: int) -> tuple[PolicyNetwork, int]:
        """The network to keep, and the update it is from."""
        if self._best is None:
            return self._network, last_update
        return self._best[2], self._best[1]
