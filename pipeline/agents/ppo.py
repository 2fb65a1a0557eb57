"""Proximal policy optimization: the clipped objective of Schulman et al., arXiv 1707.06347."""

import numpy as np
import torch

from pipeline.agents.curve import Losses
from pipeline.agents.learner import Learner, Lesson, action_log_probability, checked
from pipeline.agents.settings import PPOSettings


def clipped_policy_loss(
    log_probability: torch.Tensor,
    log_propensity: torch.Tensor,
    advantage: torch.Tensor,
    clip_range: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Minus the mean of `min(ratio * A, clip(ratio, 1 - eps, 1 + eps) * A)`, and the ratio `[N]`.

    ratio = exp(log_probability - log_propensity); all arguments `[N]`; equation 7 of the paper.
    """
    ratio = (log_probability - log_propensity).exp()
    clipped = ratio.clamp(1.0 - clip_range, 1.0 + clip_range)
    return -torch.min(ratio * advantage, clipped * advantage).mean(), ratio


def update_ppo(
    learner: Learner,
    lesson: Lesson,
    settings: PPOSettings,
    generator: np.random.Generator,
    update: int,
) -> Losses:
    """`settings.epochs` passes of gradient steps over the lesson; the means of the losses.

    Raises RuntimeError, naming the update and the loss, where a loss is not finite.
    """
    rows = []
    for _ in range(settings.epochs):
        for part in lesson.minibatches(settings.minibatch, generator):
            log_probability, entropy = action_log_probability(learner.policy, part)
            policy_loss, ratio = clipped_policy_loss(
                log_probability, part.log_propensity, part.advantage, settings.clip_range
            )
            value_loss = 0.5 * (learner.value(part.normalized) - part.return_).square().mean()
            with torch.no_grad():  # E[(ratio - 1) - log ratio]: unbiased and never negative
                approximate_kl = (ratio - 1.0 - ratio.log()).mean()
                clip_fraction = ((ratio - 1.0).abs() > settings.clip_range).float().mean()
            rows.append(
                (
                    checked(policy_loss, "policy_loss", update),
                    checked(value_loss, "value_loss", update),
                    checked(entropy, "entropy", update),
                    approximate_kl.item(),
                    clip_fraction.item(),
                )
            )
            learner.descend(policy_loss - settings.entropy_weight * entropy, value_loss)
    return Losses(*np.mean(rows, axis=0).tolist())
