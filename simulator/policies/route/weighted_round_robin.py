"""Turns in proportion to weights, spread smoothly."""

from collections.abc import Sequence

import numpy as np

from simulator.checks import check, checked_number
from simulator.observation import Observation
from simulator.policies.route.choose_replica import least
from simulator.policies.route.expected_work import relative_speed
from simulator.policies.route.learned_routes import LearnedRoutes
from simulator.policies.space import Real, Space
from simulator.scenario import Scenario


class WeightedRoundRobin(LearnedRoutes):
    """Smooth weighted round robin (nginx `ngx_http_upstream_round_robin.c`, from memory).

    Each decision adds its weight to the credit of every allowed replica and takes the one with the
    largest credit, whose credit then falls by the sum of the weights added. Weights (5, 1, 1) give
    a a b a c a a, where bursts of five would give a a a a a b c. `weights` has one for each
    replica, or they are `relative_speed ** speed_power`.

    Equal credits are random, where nginx takes the first of the list. Its lowering of a weight
    after failures has no place here: a replica that is down is masked, and gains nothing meanwhile.
    """

    name = "weighted_round_robin"

    def __init__(
        self,
        scenario: Scenario,
        weights: Sequence[float] | None = None,
        speed_power: float = 1.0,
    ) -> None:
        replicas = len(scenario.replicas)
        power = checked_number("speed_power", speed_power)
        self._weight = relative_speed(scenario) ** power
        if weights is not None:
            listed = isinstance(weights, Sequence) and not isinstance(weights, str)
            rule = f"needs one for each of {replicas}"
            check(listed and len(weights) == replicas, "weights", weights, rule)
            above = [checked_number("weights", weight, above=True) for weight in weights]
            self._weight = np.array(above)

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """From equal weights to twice the power of the speed."""
        return Space({"speed_power": Real(0.0, 2.0)}, {"speed_power": 1.0})

    def fresh(self, lanes: int) -> dict[str, np.ndarray]:
        """`credit [B, K]`, and `added [B]`, the sum of the weights of the last decision."""
        credit = np.zeros((lanes, len(self._weight)))
        return {**super().fresh(lanes), "credit": credit, "added": np.zeros(lanes)}

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """Rows `[B, K]` with one equal share for each replica of the largest credit."""
        memory, due, routed = self.learn(observation)
        credit, added = memory["credit"], memory["added"]
        lane = np.flatnonzero(routed >= 0)
        credit[lane, routed[lane]] -= added[lane]
        gain = np.where(action_mask & due[:, None], self._weight, 0.0)
        credit += gain
        added[:] = np.where(due, gain.sum(axis=1), added)
        return least(-credit, action_mask)
