"""Returns and advantages of rollouts, with a discount for each transition. Pure NumPy."""

import numpy as np


def step_discounts(holding_s: np.ndarray, discount: float, discount_rate: float) -> np.ndarray:
    """`discount * exp(-discount_rate * holding_s)`, the factor on what follows each transition.

    holding_s: `[T, B] s`; discount: a step; discount_rate: 1/s. Semi-Markov discounting as in
    Bradtke and Duff (1994), with the reward of a transition booked at its start.
    """
    return np.asarray(discount * np.exp(-discount_rate * holding_s))


def generalized_advantages(
    reward: np.ndarray,
    value: np.ndarray,
    next_value: np.ndarray,
    discount: np.ndarray,
    ended: np.ndarray,
    gae_lambda: float,
) -> np.ndarray:
    """Advantages `[T, B]`: `A_t = delta_t + discount_t * gae_lambda * A_{t+1}`, cut at ends.

    delta_t = reward_t + discount_t * next_value_t - value_t (Schulman et al., arXiv 1506.02438,
    equation 16, with a discount for each transition).

    All arguments are `[T, B]`. `next_value` is 0 after a terminated transition and the value of
    the final observation after a truncated one; `ended` is True for both. With gae_lambda 1,
    `A_t + value_t` is the Monte-Carlo return, bootstrapped where a truncation or the last row
    cuts it; with `value` and `next_value` 0 it is the discounted sum of rewards.
    """
    delta = reward + discount * next_value - value
    carry = discount * gae_lambda * ~ended
    advantage = np.empty_like(delta)
    following = np.zeros_like(delta[0])
    for step in reversed(range(len(delta))):
        following = delta[step] + carry[step] * following
        advantage[step] = following
    return advantage


def explained_variance(value: np.ndarray, return_: np.ndarray) -> float:
    """`1 - var(return - value) / var(return)`; 0 where the returns do not vary."""
    spread = float(np.var(return_))
    return 1.0 - float(np.var(return_ - value)) / spread if spread > 0 else 0.0
