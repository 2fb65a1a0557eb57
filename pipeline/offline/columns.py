"""What the learner sees of transitions: normalized features, one scaled reward, log-discounts."""

import math
from typing import NamedTuple

import numpy as np
import torch

from pipeline.agents.networks import Normalizer
from pipeline.transitions import Transitions


class RewardScaling(NamedTuple):
    """The learner's action value is `(action value - offset) * scale`."""

    scale: float
    offset: float


class LearnerColumns(NamedTuple):
    """N transitions and their closing rows, R rows in all, as the learner samples them."""

    features: np.ndarray  # [R, F] float32, normalized
    action_mask: np.ndarray  # [R, A] bool
    action: np.ndarray  # [N]
    reward: np.ndarray  # [N] float32, scaled
    interval: np.ndarray  # [N] float32, -log of the discount of the transition
    terminated: np.ndarray  # [N] bool
    next_row: np.ndarray  # [N]


def weighted_rewards(transitions: Transitions, reward_weights: np.ndarray) -> np.ndarray:
    """`reward_terms @ reward_weights`, `[N]`.

    Raises ValueError where the weights are not one finite number for each term, or a reward is
    not finite.
    """
    weights = np.asarray(reward_weights, float)
    names = transitions.schema.reward_terms
    if weights.shape != (len(names),):
        raise ValueError(f"reward_weights: shape {weights.shape}: needs one for each of {names}")
    for name, weight in zip(names, weights, strict=True):
        if not math.isfinite(weight):
            raise ValueError(f"reward_weights: {name} = {weight}: must be finite")
    reward: np.ndarray = transitions.reward_terms @ weights
    if not np.isfinite(reward).all():
        row = int(np.argmin(np.isfinite(reward)))
        raise ValueError(f"reward = {reward[row]} in transition {row}: must be finite")
    return reward


def log_discounts(transitions: Transitions, discount: float, discount_rate: float) -> np.ndarray:
    """`discount_rate * holding_s - log(discount)`, `[N]`: exp(-it) is a transition's discount."""
    intervals: np.ndarray = discount_rate * transitions.holding_s - math.log(discount)
    return intervals


def scale_rewards(
    reward: np.ndarray, interval: np.ndarray, terminated: np.ndarray
) -> tuple[np.ndarray, RewardScaling]:
    """Rewards `[N]` that lead to the same policy, with TD errors of order 1 from the first update.

    With d = exp(-interval), or 0 where terminated, learning from

        (reward - offset * (1 - d)) * scale

    shifts every action value by -offset (potential-based shaping with a constant potential, Ng,
    Harada and Russell 1999) and scales it. The offset is the constant value that fits the data
    best, sum of reward / sum of (1 - d) (LSTD with one constant feature, Bradtke and Barto 1996):
    without it thousands of updates go into learning the level that all actions share. The scale
    makes the root mean square of the result 1.

    Raises ValueError where nothing is ever discounted or terminated: values would be infinite.
    """
    lost = np.where(terminated, 1.0, -np.expm1(-interval))  # 1 - d, exact for small intervals
    if lost.sum() == 0:
        raise ValueError(
            "discount_rate = 0, discount = 1: need discounting, or an episode that is terminated"
        )
    offset = float(reward.sum() / lost.sum())
    centered = reward - offset * lost
    size = float(np.sqrt(np.mean(np.square(centered))))
    # Rewards that are constant leave rounding errors, which must not be blown up.
    scale = 1.0 / size if size > 1e-9 * max(1.0, float(np.abs(reward).max())) else 1.0
    return centered * scale, RewardScaling(scale, offset)


def learner_columns(
    transitions: Transitions, normalizer: Normalizer, reward: np.ndarray, interval: np.ndarray
) -> LearnerColumns:
    """The columns for the learner; `reward [N]` is scaled, `interval [N]` is -log discount."""
    with torch.no_grad():
        normalized = normalizer(torch.from_numpy(transitions.features)).numpy()
    return LearnerColumns(
        features=normalized,
        action_mask=transitions.action_mask,
        action=transitions.action,
        reward=reward.astype(np.float32),
        interval=interval.astype(np.float32),
        terminated=transitions.terminated,
        next_row=transitions.next_row,
    )
