"""Any replica that can take it. The class is the one at the head of the line."""

import numpy as np

from simulator.action import WAIT
from simulator.observation import Observation
from simulator.policies.choose import equal_shares
from simulator.policies.dispatch.head_of_line import HeadOfLineRule


class RandomReplica(HeadOfLineRule):
    """Any replica that can take it, with equal probabilities: the paper's Random baseline."""

    name = "random_replica"

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """Rows `[B, A]` with one equal share for each replica that can take it."""
        action, _ = self.send(observation)
        return equal_shares(action, (observation.can_take > 0) & (action != WAIT), action_mask)
