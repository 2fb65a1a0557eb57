"""The default score of the BLIS inference simulator."""

import numpy as np

from simulator.checks import checked_number
from simulator.observation import Observation
from simulator.policies.route.choose_replica import emptiest, least, waiting_at
from simulator.policies.rule import Rule
from simulator.policies.space import Real, Space
from simulator.scenario import Scenario


class Blis(Rule):
    """The largest weighted sum of scores in [0, 1], ties at random (inference-sim, `routing.md`).

    Queue depth, `(max - q) / (max - min)` of the requests that wait at the replica, 1 if all are
    equal, weight 1; free KV memory, `1 - use`, weight 1; and the precise prefix match, weight 2,
    which gives every replica the same here, for our requests share no prefix.
    """

    name = "blis"

    def __init__(
        self, scenario: Scenario, queue_depth_weight: float = 1.0, kv_weight: float = 1.0
    ) -> None:
        self._queue_depth = checked_number("queue_depth_weight", queue_depth_weight)
        self._kv = checked_number("kv_weight", kv_weight)

    @classmethod
    def misfit(cls, scenario: Scenario) -> str | None:
        """It looks at KV memory."""
        return None if scenario.continuous else "needs continuous batching"

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """Only the ratio of the two weights matters."""
        return Space(
            {"queue_depth_weight": Real(0.05, 20.0, log=True)}, {"queue_depth_weight": 1.0}
        )

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """Rows `[B, K]` with one equal share for each replica of the largest score."""
        score = self._queue_depth * emptiest(waiting_at(observation), action_mask)
        score += self._kv * (1.0 - observation.kv_fill)
        return least(-score, action_mask)
