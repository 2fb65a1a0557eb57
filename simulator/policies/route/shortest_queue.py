"""The replica with the fewest pending requests."""

import numpy as np

from simulator.observation import Observation
from simulator.policies.route.choose_replica import least
from simulator.policies.rule import Rule


class ShortestQueueRouting(Rule):
    """Join the shortest queue (JSQ): the fewest requests waiting and in service, ties at random.

    As the view tells them: stale where the view is, unless it counts its own requests in flight.
    """

    name = "shortest_queue"

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """Rows `[B, K]` with one equal share for each shortest queue."""
        return least(observation.in_flight, action_mask)
