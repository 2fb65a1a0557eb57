"""How well a rule, mixed with uniform exploration, accounts for logged decisions."""

from typing import NamedTuple

import numpy as np

_FLOOR = 1e-6  # of a probability: one impossible decision must not be the end of a rule
_STEPS = 200
_LEAST_GAIN = 1e-4  # nats a decision by which exploration must make the log likelier

MOST_EPSILON = 0.3  # beyond it a rule says little, and any rule can be mixed into any log


class Chances(NamedTuple):
    """What a rule gives to the logged decisions. D decisions, J kinds of deviation."""

    own: np.ndarray  # [D] probability of the logged action under the rule
    uniform: np.ndarray  # [D] under a uniform draw among the legal actions
    kind: np.ndarray  # [D] of the logged action: 0 as the rule, 1 .. J - 1 how it deviates
    kind_own: np.ndarray  # [D, J] probability of each kind under the rule
    kind_uniform: np.ndarray  # [D, J] under the uniform draw


class Score(NamedTuple):
    """How much of the log a rule accounts for."""

    epsilon: float  # share of uniform exploration that makes the log likeliest
    agreement: float  # mean probability of the logged action: share of equal ones if one-hot
    explained: float  # 1 - distance between told and expected kinds of deviation
    log_likelihood: float  # mean over decisions, nats


def fit_epsilon(own: np.ndarray, uniform: np.ndarray) -> float:
    """The epsilon up to MOST_EPSILON with the most `mean log((1 - epsilon) own + epsilon uniform)`.

    By expectation maximization: each step takes the mean posterior of exploration. The likelihood
    is concave in epsilon, so there is one maximum. 0 where exploration gains next to nothing: a
    rule that is itself uniform needs none.
    """
    epsilon = 0.5
    explored = np.maximum(uniform, _FLOOR)
    for _ in range(_STEPS):
        share = epsilon * explored
        before, epsilon = epsilon, float((share / (share + (1 - epsilon) * own)).mean())
        if abs(epsilon - before) < 1e-7:
            break
    epsilon = min(epsilon, MOST_EPSILON)
    gain = log_chance(own, uniform, epsilon).mean() - log_chance(own, uniform, 0.0).mean()
    return epsilon if gain > _LEAST_GAIN else 0.0


def log_chance(own: np.ndarray, uniform: np.ndarray, epsilon: float) -> np.ndarray:
    """Log probability `[D]` of the logged actions under the mixture, with a floor."""
    return np.log(np.maximum((1 - epsilon) * own + epsilon * uniform, _FLOOR))


def score(chances: Chances, epsilon: float) -> Score:
    """The score of a rule with this epsilon.

    `explained = 1 - sum over kinds of max(0, told - expected) / D`: a wrong rule may buy
    likelihood with a large epsilon, but uniform exploration spreads over all kinds of deviation,
    and its mistakes do not. What sampling alone leaves (three standard errors) is not held against
    it.
    """
    count = len(chances.own)
    kinds = chances.kind_own.shape[1]
    told = np.bincount(chances.kind, minlength=kinds)
    chance = (1 - epsilon) * chances.kind_own + epsilon * chances.kind_uniform
    expected = chance.sum(axis=0)
    noise = 3.0 * np.sqrt((chance * (1 - chance)).sum(axis=0))
    excess = np.maximum(0.0, told - expected - noise)
    return Score(
        epsilon,
        float(chances.own.mean()),
        1.0 - float(excess.sum()) / count,
        float(log_chance(chances.own, chances.uniform, epsilon).mean()),
    )
