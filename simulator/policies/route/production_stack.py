"""The load-aware score of the vLLM production stack."""

import numpy as np

from simulator.checks import checked_number
from simulator.observation import Observation
from simulator.policies.route.choose_replica import least, waiting_at
from simulator.policies.rule import Rule
from simulator.scenario import Scenario


class ProductionStack(Rule):
    """The largest `matched / prompt - beta (load - mean load) / max(1, mean load)` (PR#1035).

    Load is what waits and what runs at the replica, as the view tells; the mean is over the allowed
    ones. Our requests share no prefix, so matched is 0 and for any beta above 0 the least load
    wins, ties at random: the name is here so that this can be seen, and there is nothing to tune.

    Not modeled: prefix hits, sessions, and the fallback to the lowest request rate.
    """

    name = "production_stack"

    def __init__(self, scenario: Scenario, beta: float = 1.0) -> None:
        self._beta = checked_number("beta", beta)

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """Rows `[B, K]` with one equal share for each replica of the largest score."""
        load = observation.in_service + waiting_at(observation)
        allowed = action_mask.sum(axis=1, keepdims=True)
        mean = np.where(action_mask, load, 0.0).sum(axis=1, keepdims=True) / np.maximum(1, allowed)
        score = -self._beta * (load - mean) / np.maximum(1.0, mean)
        return least(-score, action_mask)
