"""The memory of routers that need to know where earlier requests went."""

import numpy as np

from simulator.observation import Observation
from simulator.policies.rule import StatefulRule


class LearnedRoutes(StatefulRule):
    """A router that learns from the observation where the request of its last decision went.

    Each arrival is one decision, so `last_replica` answers the decision before this one. An
    observation that shows no new arrival is the same decision once more (a lane that stands still
    is asked again with each step of the others), and nothing is learned from it.
    """

    def fresh(self, lanes: int) -> dict[str, np.ndarray]:
        """`arrived [B]` requests that had arrived at the last decision, -1 before the first."""
        return {"arrived": np.full(lanes, -1.0)}

    def learn(
        self, observation: Observation
    ) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
        """The memory; True where the decision is a new one; and the last one's replica or -1.

        The second and third are `[B]`. Called once in each decision.
        """
        memory = self.recall(observation)
        arrived = observation.arrived.sum(axis=1)
        due = arrived != memory["arrived"]
        known = due & (memory["arrived"] >= 0)
        memory["arrived"][:] = arrived
        last = observation.last_replica.astype(np.int64, copy=False)
        return memory, due, np.where(known, last, -1)
