"""One replica after the other."""

import numpy as np

from simulator.observation import Observation
from simulator.policies.choose import one_hot
from simulator.policies.rule import Rule
from simulator.scenario import Scenario


class RoundRobinRouting(Rule):
    """The next allowed replica after the last one used, in a circle; replica 0 to begin with.

    The turn is read off `last_replica`, so a request that someone else routed counts as a turn.
    """

    name = "round_robin"

    def __init__(self, scenario: Scenario) -> None:
        self._number = np.arange(len(scenario.replicas))

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, K]`."""
        turn = observation.last_replica.astype(np.int64, copy=False)[:, None] + 1
        places_away = (self._number - turn) % len(self._number)
        next_one = np.where(action_mask, places_away, len(self._number)).argmin(axis=1)
        return one_hot(next_one, action_mask)
