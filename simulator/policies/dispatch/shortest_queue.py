"""The replica with the fewest pending requests. The class is the one at the head of the line."""

import numpy as np

from simulator.action import WAIT
from simulator.observation import Observation
from simulator.policies.choose import equal_shares
from simulator.policies.dispatch.head_of_line import HeadOfLineRule


class ShortestQueue(HeadOfLineRule):
    """The replica with the fewest pending requests among those that can take it (theory: JSQ).

    Requests in a central queue are pending at no replica yet: what counts is what was sent to it.
    Ties are random, as equal probabilities: a fixed order would load the first replica most (D7).
    While replicas take a batch only when idle, all ties: the same as `random_replica`.
    """

    name = "shortest_queue"

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """Rows `[B, A]` with one equal share for each shortest queue."""
        action, _ = self.send(observation)
        takes = (observation.can_take > 0) & (action != WAIT)
        pending = np.where(takes, observation.in_flight, np.inf)
        candidate = takes & (pending == pending.min(axis=1, keepdims=True))
        return equal_shares(action, candidate, action_mask)
