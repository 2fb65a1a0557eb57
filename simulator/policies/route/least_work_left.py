"""The replica that is expected to finish the request first."""

import numpy as np

from simulator.observation import Observation
from simulator.policies.route.choose_replica import least
from simulator.policies.route.expected_work import ExpectedWork
from simulator.policies.rule import Rule
from simulator.scenario import Scenario


class LeastWorkLeft(Rule):
    """The least expected work at the replica with the request's own added, ties at random (LWL).

    `remaining service + sum over classes of floor(n / b) L(b) + L(n mod b) + own step`, in s, with
    n waiting in the replica's queue and b its maximum. It knows the expected times of the scenario,
    not the noise, and not the sizes of what waits.
    """

    name = "least_work_left"

    def __init__(self, scenario: Scenario) -> None:
        self._work = ExpectedWork(scenario)

    @classmethod
    def misfit(cls, scenario: Scenario) -> str | None:
        """It adds up batch latencies."""
        return "needs whole batches, and replicas are continuous" if scenario.continuous else None

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """Rows `[B, K]` with one equal share for each replica with the least work."""
        work_s = self._work.backlog_s(observation) + self._work.own_s(observation)
        return least(work_s, action_mask)
