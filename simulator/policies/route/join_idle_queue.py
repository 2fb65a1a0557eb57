"""A replica that is idle, if there is one."""

import numpy as np

from simulator.observation import Observation, ReplicaState
from simulator.policies.choose import uniform
from simulator.policies.route.choose_replica import among
from simulator.policies.rule import Rule


class JoinIdleQueue(Rule):
    """A random idle replica, or any allowed one at random where none is idle (JIQ).

    Idle: nothing pending, and neither starting, down nor off. The list of the idle is as fresh as
    the view. Lu, Xie, Kliot, Geller, Larus and Greenberg, Join-Idle-Queue, 2011 (from memory).
    There each dispatcher has its own list, which a replica joins when it runs empty; here one
    dispatcher sees all.
    """

    name = "join_idle_queue"

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """Rows `[B, K]` with one equal share for each idle replica."""
        state = observation.replica_state
        ready = (state == ReplicaState.IDLE) | (state == ReplicaState.BUSY)
        return uniform(among((observation.in_flight == 0) & ready, action_mask))
