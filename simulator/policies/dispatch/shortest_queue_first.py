"""Replica 0 alone. The class is the one at the head of the line."""

import numpy as np

from simulator.action import WAIT
from simulator.observation import Observation
from simulator.policies.choose import one_hot
from simulator.policies.dispatch.head_of_line import HeadOfLineRule


class ShortestQueueFirst(HeadOfLineRule):
    """Replica 0 only, waiting while it is busy: what the paper's shortest queue seems to have been.

    Or the lowest-numbered that serves the class, where replica 0 does not.

    The least of the replicas' queue lengths when all requests wait in one central queue: every
    length is 0 and the lowest number wins the tie each time. It explains why the paper's shortest
    queue serves half of what its round robin does (E1); kept for that comparison.
    """

    name = "shortest_queue_first"

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        action, _ = self.send(observation)
        first = (action != WAIT).argmax(axis=1)
        lane = np.arange(len(action))
        takes = observation.can_take[lane, first] > 0
        return one_hot(np.where(takes, action[lane, first], WAIT), action_mask)
