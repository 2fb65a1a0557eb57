"""One step of policy improvement over a random split, by the value function of M/G/1."""

from collections.abc import Mapping

import numpy as np

from simulator.checks import check_section, checked_number
from simulator.observation import Observation
from simulator.policies.route.choose_replica import least
from simulator.policies.route.expected_work import ExpectedWork, relative_speed
from simulator.policies.rule import Rule
from simulator.policies.space import Real, Space
from simulator.scenario import Scenario


class FirstPolicyIteration(Rule):
    """The replica where the request adds least weighted response time, its own and the later ones'.

    From then on a random split in proportion to speed is supposed. Under it replica k is an M/G/1
    queue, where a request of class c with work s that finds backlog w costs

        `v_c (w + s) + (sum over classes j of v_j rate_kj) (2 w s + s^2) / (2 (1 - load_k))`

    with v the weight of a class and the load taken at full batches. Hyytia, Penttinen and Aalto,
    Size- and state-aware dispatching, 2012 (from memory; there all weights are 1). w and s are
    those of `least_work_left`, so batches enter through L only.

    `arrival_rate_rps` by class name, or the rates of the observation. A load above `max_load`
    counts as `max_load`, for the formula has no meaning from 1 on.
    """

    name = "first_policy_iteration"

    def __init__(
        self,
        scenario: Scenario,
        max_load: float = 0.95,
        arrival_rate_rps: Mapping[str, float] | None = None,
    ) -> None:
        self._max_load = checked_number("max_load", max_load, high=0.999)
        self._rate_rps: np.ndarray | None = None
        names = scenario.class_names
        if arrival_rate_rps is not None:
            check_section("arrival_rate_rps", arrival_rate_rps)
            if set(arrival_rate_rps) != set(names):
                given = dict(arrival_rate_rps)
                raise ValueError(f"arrival_rate_rps = {given!r}: needs one rate for each class")
            rates = [checked_number("arrival_rate_rps", arrival_rate_rps[name]) for name in names]
            self._rate_rps = np.array([rates])
        self._work = ExpectedWork(scenario)
        speed = relative_speed(scenario)[:, None] * scenario.parameters().serves
        split = speed / speed.sum(axis=0)  # [K, C]
        self._weight = np.array(
            [request_class.weight for request_class in scenario.request_classes]
        )
        self._load_s = (split * self._work.per_request_s).T  # [C, K]
        self._later = (split * self._weight).T  # [C, K]

    @classmethod
    def misfit(cls, scenario: Scenario) -> str | None:
        """It adds up batch latencies."""
        return "needs whole batches, and replicas are continuous" if scenario.continuous else None

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """How far the load may go."""
        return Space({"max_load": Real(0.5, 0.99)}, {"max_load": 0.95})

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """Rows `[B, K]` with one equal share for each replica of the least cost."""
        rate_rps = observation.arrival_rate_rps if self._rate_rps is None else self._rate_rps
        load = np.minimum(rate_rps @ self._load_s, self._max_load)
        later_rps = rate_rps @ self._later
        work_s, own_s = self._work.backlog_s(observation), self._work.own_s(observation)
        weight = self._weight[observation.head_class.astype(np.int64, copy=False)][:, None]
        later_s2 = (2.0 * work_s + own_s) * own_s / (2.0 * (1.0 - load))
        return least(weight * (work_s + own_s) + later_rps * later_s2, action_mask)
