"""Policies with full support: uniform over the legal actions, alone or mixed into another."""

import numpy as np

from simulator.observation import Observation
from simulator.policies.base import Policy
from simulator.policies.choose import exact_rows, uniform
from simulator.policies.rule import Rule
from simulator.scenario import Scenario

SMALLEST_EPSILON = 1e-9  # below it a share of the mixture could round to 0 and lose the support


class UniformRandom(Rule):
    """Every legal action with the same probability, WAIT included. For every decision kind."""

    name = "uniform_random"

    def __init__(self, scenario: Scenario) -> None:
        """Any scenario will do: the mask says it all."""

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """Rows `[B, A]` with one equal share for each legal action."""
        return uniform(action_mask)


class EpsilonMixture:
    """(1 - epsilon) * policy + epsilon * uniform over the legal actions, WAIT included.

    Every legal action has a propensity of at least epsilon / (number of legal actions), up to
    rounding: a log made with it supports the evaluation of any other policy.
    """

    def __init__(self, policy: Policy, epsilon: float) -> None:
        """`epsilon` is 0 (the policy itself) or from SMALLEST_EPSILON to 1."""
        is_number = isinstance(epsilon, int | float)
        if not (is_number and (epsilon == 0 or SMALLEST_EPSILON <= epsilon <= 1)):
            raise ValueError(f"epsilon = {epsilon!r}: must be 0, or from {SMALLEST_EPSILON:g} to 1")
        self.policy = policy
        self.epsilon = float(epsilon)
        self.name = f"{policy.name}+eps{self.epsilon:g}"

    def reset(self, lanes: int) -> None:
        """The mixed policy forgets everything."""
        self.policy.reset(lanes)

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """Rows `[B, A]` that are positive wherever the mask is True, if epsilon is above 0."""
        own = self.policy.action_probabilities(observation, action_mask)
        probabilities = np.multiply(own, 1.0 - self.epsilon, dtype=np.float64)
        probabilities += action_mask * (self.epsilon / action_mask.sum(axis=1, keepdims=True))
        return exact_rows(probabilities)
