"""REINFORCE with a learned baseline (Williams 1992; paper section 4.3)."""

import numpy as np

from pipeline.agents.curve import Losses
from pipeline.agents.learner import Learner, Lesson, action_log_probability, checked
from pipeline.agents.settings import ReinforceSettings


def update_reinforce(
    learner: Learner,
    lesson: Lesson,
    settings: ReinforceSettings,
    generator: np.random.Generator,
    update: int,
) -> Losses:
    """One pass on `-mean(log pi(action) * advantage)`, then the baseline's passes.

    The lesson's advantages are Monte-Carlo returns minus the baseline. The pass is in minibatches,
    so that a round of long episodes is worth more than one small step; the policy sees every
    transition once, as none is its own after the pass. The baseline is free of that.
    Raises RuntimeError, naming the update and the loss, where a loss is not finite.
    """
    policy_losses, value_losses = [], []
    for part in lesson.minibatches(settings.minibatch, generator):
        log_probability, entropy = action_log_probability(learner.policy, part)
        policy_loss = -(log_probability * part.advantage).mean()
        policy_losses.append(
            (checked(policy_loss, "policy_loss", update), checked(entropy, "entropy", update))
        )
        learner.descend(policy_loss - settings.entropy_weight * entropy, None)
    for _ in range(settings.value_epochs):
        for part in lesson.minibatches(settings.minibatch, generator):
            value_loss = 0.5 * (learner.value(part.normalized) - part.return_).square().mean()
            value_losses.append(checked(value_loss, "value_loss", update))
            learner.descend(None, value_loss)
    mean_policy_loss, mean_entropy = np.mean(policy_losses, axis=0).tolist()
    return Losses(mean_policy_loss, float(np.mean(value_losses)), mean_entropy, None, None)
