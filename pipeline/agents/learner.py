"""What a policy-gradient agent consists of while it learns, and the steps its algorithms share."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from pipeline.agents.advantages import generalized_advantages, step_discounts
from pipeline.agents.collector import Collector, Rollout, next_values, uniform_probabilities
from pipeline.agents.networks import PolicyNetwork, ValueNetwork, initialize
from pipeline.agents.settings import PolicyGradientSettings

POLICY_HEAD_GAIN = 0.01  # start near the uniform policy
VALUE_HEAD_GAIN = 1.0


@dataclass
class Learner:
    """Policy and value network with their optimizer. Both see features by one normalizer.

    `reward_scale` multiplies rewards, so that discounted returns vary by about 1. It is taken from
    the first rollouts once and kept: a running factor would move the value network's target.
    """

    policy: PolicyNetwork
    value: ValueNetwork
    optimizer: torch.optim.Adam
    reward_scale: float
    settings: PolicyGradientSettings

    def probabilities(self, features: np.ndarray, action_mask: np.ndarray) -> np.ndarray:
        """Softmax of the scores, `[B, A]` float32."""
        with torch.inference_mode():
            scores = self.policy(torch.from_numpy(features), torch.from_numpy(action_mask))
            probabilities: np.ndarray = torch.softmax(scores, dim=1).numpy()
        return probabilities

    def set_progress(self, share: float) -> None:
        """The learning rate at `share` in [0, 1] of the training."""
        if self.settings.anneal_learning_rate:
            for group in self.optimizer.param_groups:
                group["lr"] = self.settings.learning_rate * max(0.0, 1.0 - share)

    def descend(self, policy_loss: torch.Tensor | None, value_loss: torch.Tensor | None) -> None:
        """One Adam step on the losses given; each network's gradient is clipped on its own.

        The networks share no parameter: a large value error must not shrink the policy's step.
        """
        losses = [loss for loss in (policy_loss, value_loss) if loss is not None]
        self.optimizer.zero_grad(set_to_none=True)
        torch.stack(losses).sum().backward()
        for network in (self.policy, self.value):
            nn.utils.clip_grad_norm_(network.parameters(), self.settings.max_gradient_norm)
        self.optimizer.step()


def prepare(
    collector: Collector,
    features: int,
    actions: int,
    settings: PolicyGradientSettings,
    generator: torch.Generator,
) -> Learner:
    """A learner whose normalizer and reward scale fit rollouts of the uniform policy."""
    rollout = collector.collect_steps(uniform_probabilities, settings.normalizer_steps)
    policy = PolicyNetwork(features, actions, settings.network, settings.hidden)
    value = ValueNetwork(features, settings.value_hidden)
    initialize(policy, POLICY_HEAD_GAIN, generator)
    initialize(value, VALUE_HEAD_GAIN, generator)
    policy.normalizer.fit(rollout.features.reshape(-1, features))
    return_ = _discounted_rewards(rollout, settings)
    spread = float(return_.std())
    reward_scale = 1.0 / spread if spread > 0 else 1.0
    with torch.no_grad():
        # Returns of a queue lie far from 0, compared with how much they vary.
        value.head.bias.fill_(float(return_.mean()) * reward_scale)
    parameters = [*policy.parameters(), *value.parameters()]
    optimizer = torch.optim.Adam(parameters, settings.learning_rate, eps=1e-5, fused=True)
    return Learner(policy, value, optimizer, reward_scale, settings)


def _discounted_rewards(rollout: Rollout, settings: PolicyGradientSettings) -> np.ndarray:
    """Discounted sums of reward `[T, B]` to the end of the episode or of the rollout."""
    nothing = np.zeros_like(rollout.reward)
    discount = step_discounts(rollout.holding_s, settings.discount, settings.discount_rate)
    return generalized_advantages(rollout.reward, nothing, nothing, discount, rollout.ended, 1.0)


@dataclass(frozen=True)
class Lesson:
    """The transitions of a rollout in a row, N in all, ready for gradient steps."""

    normalized: torch.Tensor  # [N, F]
    action_mask: torch.Tensor  # [N, A]
    action: torch.Tensor  # [N]
    log_propensity: torch.Tensor  # [N]
    advantage: torch.Tensor  # [N], mean 0 and standard deviation 1
    return_: torch.Tensor  # [N], the value network's target, scaled reward
    value: torch.Tensor  # [N], before the update

    def __len__(self) -> int:
        return len(self.action)

    def rows(self, index: torch.Tensor) -> "Lesson":
        """The lesson in the order of `index`."""
        return Lesson(*(column[index] for column in vars(self).values()))

    def minibatches(self, size: int, generator: np.random.Generator) -> Iterator["Lesson"]:
        """All transitions once, in random order, in parts of at least `size / 2` rows."""
        # One gather for the whole pass, then views: a gather for each part costs more.
        shuffled = vars(self.rows(torch.from_numpy(generator.permutation(len(self)))))
        parts = max(1, round(len(self) / size))
        columns = (column.tensor_split(parts) for column in shuffled.values())
        for part in zip(*columns, strict=True):
            yield Lesson(*part)


def make_lesson(learner: Learner, rollout: Rollout, gae_lambda: float) -> Lesson:
    """Values by one forward pass, then advantages, then the living transitions in a row."""
    steps, lanes = rollout.reward.shape
    settings = learner.settings
    with torch.no_grad():
        rows = np.concatenate(
            [rollout.features.reshape(-1, learner.policy.features), rollout.ends.features]
        )
        normalized = learner.policy.normalizer(torch.from_numpy(rows))
        values = learner.value(normalized).numpy()
    value = values[: (steps + 1) * lanes].reshape(steps + 1, lanes)
    advantage = generalized_advantages(
        rollout.reward * learner.reward_scale,
        value[:-1],
        next_values(rollout, value, values[(steps + 1) * lanes :]),
        step_discounts(rollout.holding_s, settings.discount, settings.discount_rate),
        rollout.ended,
        gae_lambda,
    )
    alive = rollout.alive
    kept = advantage[alive]
    centered = (kept - kept.mean()) / (kept.std() + 1e-8)
    living = torch.from_numpy(alive.reshape(-1))
    return Lesson(
        normalized=normalized[: steps * lanes][living],
        action_mask=torch.from_numpy(rollout.action_mask[alive]),
        action=torch.from_numpy(rollout.action[alive]),
        log_propensity=torch.from_numpy(np.log(rollout.propensity[alive], dtype=np.float32)),
        advantage=torch.from_numpy(centered.astype(np.float32)),
        return_=torch.from_numpy((kept + value[:-1][alive]).astype(np.float32)),
        value=torch.from_numpy(value[:-1][alive]),
    )


def action_log_probability(
    policy: PolicyNetwork, lesson: Lesson
) -> tuple[torch.Tensor, torch.Tensor]:
    """log pi(action) `[N]` of the lesson's actions, and the policy's mean entropy in nats."""
    scores = policy.scores(lesson.normalized, lesson.action_mask)
    log_probabilities = torch.log_softmax(scores, dim=1)
    log_probability = log_probabilities.gather(1, lesson.action[:, None]).squeeze(1)
    entropy = -(log_probabilities.exp() * log_probabilities).sum(dim=1).mean()
    return log_probability, entropy


def checked(loss: torch.Tensor, name: str, update: int) -> float:
    """The loss as a number; RuntimeError where it is NaN or infinite, before it spoils weights."""
    value = loss.item()
    if not np.isfinite(value):
        raise RuntimeError(f"update {update}: {name} = {value}: training stopped, not finite")
    return value
