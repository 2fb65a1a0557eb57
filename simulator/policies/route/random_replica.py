"""Any replica."""

import numpy as np

from simulator.observation import Observation
from simulator.policies.choose import uniform
from simulator.policies.rule import Rule


class RandomReplicaRouting(Rule):
    """Any allowed replica, with equal probabilities."""

    name = "random_replica"

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """Rows `[B, K]` with one equal share for each replica."""
        return uniform(action_mask)
