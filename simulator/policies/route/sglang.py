"""The smallest tree of prompts while loads are balanced, the shortest queue while they are not."""

import numpy as np

from simulator.checks import checked_number
from simulator.observation import Observation
from simulator.policies.route.choose_replica import least
from simulator.policies.route.learned_routes import LearnedRoutes
from simulator.policies.space import Real, Space
from simulator.scenario import Scenario


class Sglang(LearnedRoutes):
    """The cache-aware policy of the SGLang router (`sgl-router`, 0.3.2).

    Where `max - min > balance_abs_threshold` and `max > balance_rel_threshold * min` of the pending
    requests: the shortest queue. Else the replica with the longest matching prefix, if that is
    above `cache_threshold`, else the one with the smallest tree. Our requests share no prefix, so
    the match is always 0 and the smallest tree decides: the fewest prompt tokens routed to it so
    far in the episode (size, with whole batches). That is a round robin weighed by tokens, and it
    is blind to speed. Ties are random.

    Not modeled: prefixes, and the eviction that keeps trees below a maximum size.
    """

    name = "sglang"

    def __init__(
        self,
        scenario: Scenario,
        balance_abs_threshold: float = 64.0,
        balance_rel_threshold: float = 1.5,
    ) -> None:
        self._abs = checked_number("balance_abs_threshold", balance_abs_threshold)
        self._rel = checked_number("balance_rel_threshold", balance_rel_threshold)
        self._replicas = len(scenario.replicas)

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """When loads count as unbalanced."""
        return Space(
            {
                "balance_abs_threshold": Real(1.0, 256.0, log=True),
                "balance_rel_threshold": Real(1.0, 4.0),
            },
            {"balance_abs_threshold": 64.0, "balance_rel_threshold": 1.5},
        )

    def fresh(self, lanes: int) -> dict[str, np.ndarray]:
        """`tree [B, K]` tokens routed to each replica, and `size [B]` of the last request."""
        tree = np.zeros((lanes, self._replicas))
        return {**super().fresh(lanes), "tree": tree, "size": np.zeros(lanes)}

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """Rows `[B, K]` with one equal share for each replica with the least."""
        memory, due, routed = self.learn(observation)
        lane = np.flatnonzero(routed >= 0)
        memory["tree"][lane, routed[lane]] += memory["size"][lane]
        memory["size"][due] = observation.head_size[due]
        load = observation.in_flight
        low = np.where(action_mask, load, np.inf).min(axis=1, keepdims=True)
        high = np.where(action_mask, load, -np.inf).max(axis=1, keepdims=True)
        unbalanced = (high - low > self._abs) & (high > self._rel * low)
        return least(np.where(unbalanced, load, memory["tree"]), action_mask)
