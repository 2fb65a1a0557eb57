"""Power of two choices on queue lengths that are remembered for a while."""

import numpy as np

from simulator.checks import check_whole
from simulator.observation import Observation
from simulator.policies.choose import checked_seconds
from simulator.policies.route.choose_replica import least_of_some, shares_of_subsets
from simulator.policies.route.learned_routes import LearnedRoutes
from simulator.policies.space import Choice, Space
from simulator.scenario import Scenario


class RayPow2(LearnedRoutes):
    """Ray Serve's router (`serve/_private/request_router`): two random replicas, cached lengths.

    A replica's length is cached when a request is sent to it (what it had then, and that one) and
    counts for `queue_length_cache_s`. Of the two, one whose cached length is below
    `max_ongoing_requests` is taken, the shorter of two such. Only where neither has one are both
    probed, which reads the observation, and the shorter is taken. So a replica that was used
    lately, at a length long out of date, goes before one that is not in the cache: a quirk of
    the source. Ties are random.

    Not modeled: where both are full, Ray tries other pairs after 25 ms and more; an arrival must be
    routed now, so the shorter of the pair gets it. A probe leaves no entry in the cache, because
    the observation does not tell which pair was drawn; nor does an answered request. Probes take
    no time. No preference for a node or a model.
    """

    name = "ray_pow2"

    def __init__(
        self,
        scenario: Scenario,
        max_ongoing_requests: int = 5,
        queue_length_cache_s: float = 10.0,
    ) -> None:
        check_whole("max_ongoing_requests", max_ongoing_requests, 1)
        self._max_ongoing = float(max_ongoing_requests)
        self._cache_s = checked_seconds("queue_length_cache_s", queue_length_cache_s)
        self._replicas = len(scenario.replicas)
        self._share = shares_of_subsets(self._replicas, 2)

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """Limits of ongoing requests, and lives of an entry from none (always probe)."""
        return Space(
            {
                "max_ongoing_requests": Choice((1, 2, 5, 10, 20, 50, 100)),
                "queue_length_cache_s": Choice((0.0, 0.01, 0.1, 1.0, 10.0)),
            },
            {"max_ongoing_requests": 5, "queue_length_cache_s": 10.0},
        )

    def fresh(self, lanes: int) -> dict[str, np.ndarray]:
        """What was cached and when, `[B, K]`; and what the last decision saw, `[B, K]` and when."""
        shape = (lanes, self._replicas)
        return {
            **super().fresh(lanes),
            "cached": np.zeros(shape),
            "cached_at_s": np.full(shape, -np.inf),
            "seen": np.zeros(shape),
            "seen_at_s": np.zeros(lanes),
        }

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """Rows `[B, K]` with the probability that a replica is drawn and preferred."""
        memory, due, routed = self.learn(observation)
        lane = np.flatnonzero(routed >= 0)
        memory["cached"][lane, routed[lane]] = memory["seen"][lane, routed[lane]] + 1.0
        memory["cached_at_s"][lane, routed[lane]] = memory["seen_at_s"][lane]
        memory["seen"][due] = observation.in_flight[due]
        memory["seen_at_s"][due] = observation.clock_s[due]
        age_s = observation.clock_s[:, None] - memory["cached_at_s"]
        known = (age_s < self._cache_s) & (memory["cached"] < self._max_ongoing)
        # Any known length is below the limit, so a known one always goes before a probed one.
        length = np.where(known, memory["cached"], self._max_ongoing + observation.in_flight)
        return least_of_some(length, action_mask, self._share)
