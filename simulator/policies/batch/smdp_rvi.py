"""The optimum for one replica and one class: a batch size for each number waiting."""

import functools
from dataclasses import replace

import numpy as np

from simulator.action import WAIT
from simulator.batch_theory import state_limit
from simulator.checks import check, checked_number
from simulator.observation import Observation
from simulator.optimal import BatchingProblem, OptimalBatching, solve
from simulator.policies.batch.menu_actions import MenuActions
from simulator.policies.choose import one_hot
from simulator.policies.rule import Rule
from simulator.policies.space import Axis, Choice, Real, Space
from simulator.scenario import Scenario

RESPONSE_WEIGHT = 1000.0  # cost per second: 1 per millisecond, as in the source
LEAST_STATES, SPARE_STATES = 150, 20
PRECISION = 1e-6  # of the cost of serving one by one, without waiting


class SmdpRvi(Rule):
    """Sends b*(n) of n waiting, or waits, by relative value iteration (`simulator/optimal.py`).

    Least `response_weight` * mean response time in s + `power_weight` * mean power in W, for
    Poisson arrivals of `arrival_rate_rps`. Energy of a batch: `energy_alpha_j + energy_beta_j b`
    and what the busy replica draws beyond an idle one. Numbers above the last state count as it.
    A solution takes a tenth of a second to seconds for batches up to 32, more beyond.
    A menu without b* sends its largest size below (its smallest where there is none):
    `batch_sizes` is what is really sent, `optimum` what was solved.

    arXiv 2301.12865, 2501.02181. Exact where arrivals are Poisson at that rate, requests have
    size 1 and latency has no noise; no place for an SLO, a limit of the queue, or other rates.
    """

    name = "smdp_rvi"

    def __init__(
        self,
        scenario: Scenario,
        arrival_rate_rps: float,
        response_weight: float = RESPONSE_WEIGHT,
        power_weight: float = 0.0,
    ) -> None:
        menu = MenuActions(scenario)
        self.problem = _problem(
            scenario,
            menu,
            arrival_rate_rps,
            response_weight=checked_number("response_weight", response_weight),
            power_weight=checked_number("power_weight", power_weight),
        )
        counts = self.problem.response_weight + self.problem.power_weight > 0.0
        check(counts, "response_weight", response_weight, "one of the weights must be above 0")
        self.optimum = _solved(self.problem)
        place = np.searchsorted(menu.sizes, self.optimum.batch_sizes, side="right") - 1
        place = np.maximum(place, 0)
        number, sends = np.arange(len(place)), self.optimum.batch_sizes > 0
        self.batch_sizes = np.where(sends, np.minimum(menu.sizes[place], number), 0)
        self._action = np.where(sends, menu.action[0, 0, place], WAIT)

    @classmethod
    def misfit(cls, scenario: Scenario) -> str | None:
        """One replica with a latency line, one class, and decisions when it is idle."""
        replica = scenario.replicas[0]
        reasons = {
            "one replica": len(scenario.replicas) == 1,
            "one request class": len(scenario.request_classes) == 1,
            "the latency line, without a table or padding": not (
                replica.latency_table or replica.padded_batch_sizes or replica.pads_to_largest
            ),
            "whole batches, and batching is continuous": not scenario.continuous,
            "an idle replica, and replica_backlog is above 0": scenario.replica_backlog == 0,
        }
        missing = [reason for reason, holds in reasons.items() if not holds]
        return f"needs {', '.join(missing)}" if missing else None

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """Arrival rates as shares of capacity; where batches cost energy, its weight as well.

        Around the weight that makes the power of full batches count as much as their latency.
        """
        full = _problem(scenario, MenuActions(scenario), None)
        latency_s = full.alpha_s + full.beta_s * full.max_batch_size
        capacity_rps = full.max_batch_size / latency_s
        energy_j = full.energy_alpha_j + full.energy_beta_j * full.max_batch_size
        power_weight: Axis = Choice((0.0,))
        if energy_j > 0.0:
            equal = RESPONSE_WEIGHT * latency_s / (energy_j / latency_s)
            power_weight = Real(0.01 * equal, 10.0 * equal, log=True)
        return Space(
            {
                "arrival_rate_rps": Real(0.05 * capacity_rps, 0.75 * capacity_rps),
                "power_weight": power_weight,
            }
        )

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        waiting = np.minimum(observation.queue_length[:, 0], len(self._action) - 1)
        action = self._action[waiting.astype(np.int64, copy=False)]
        return one_hot(np.where(observation.can_take[:, 0] > 0, action, WAIT), action_mask)


def _problem(
    scenario: Scenario, menu: MenuActions, arrival_rate_rps: float | None, **weights: float
) -> BatchingProblem:
    """The problem of the scenario's replica, with enough states; a small rate where it is None."""
    server, most = scenario.replicas[0], menu.longest
    power_w = max(server.busy_power_w - server.idle_power_w, 0.0)
    energy_j = [sum(values) for values in (server.energy_alpha_j, server.energy_beta_j)]
    latency_s = server.alpha_s[0] + server.beta_s[0] * np.arange(1, most + 1)
    number = isinstance(arrival_rate_rps, int | float) and not isinstance(arrival_rate_rps, bool)
    rule = "must be a number of requests per second"
    check(number or arrival_rate_rps is None, "arrival_rate_rps", arrival_rate_rps, rule)
    rate_rps = 0.1 * most / latency_s[-1] if arrival_rate_rps is None else float(arrival_rate_rps)
    given = {"response_weight": RESPONSE_WEIGHT, "power_weight": 0.0} | weights
    problem = BatchingProblem(
        arrival_rate_rps=rate_rps,
        alpha_s=server.alpha_s[0],
        beta_s=server.beta_s[0],
        energy_alpha_j=energy_j[0] + power_w * server.alpha_s[0],
        energy_beta_j=energy_j[1] + power_w * server.beta_s[0],
        max_batch_size=most,
        state_limit=max(LEAST_STATES, most),
        **given,
    )
    states = max(LEAST_STATES, state_limit(rate_rps * latency_s) + SPARE_STATES)
    # Ten times what the last state costs and what serving one by one would: to stay in the
    # overflow for ever must not pay, however dear energy is.
    overflow_cost = problem.response_weight * states / rate_rps + _power_cost(problem)
    return replace(problem, state_limit=states, overflow_cost=10.0 * overflow_cost)


def _power_cost(problem: BatchingProblem) -> float:
    """What serving one by one costs in power."""
    energy_j = problem.energy_alpha_j + problem.energy_beta_j
    return problem.power_weight * problem.arrival_rate_rps * energy_j


@functools.lru_cache(maxsize=64)
def _solved(problem: BatchingProblem) -> OptimalBatching:
    cost = problem.response_weight * (problem.alpha_s + problem.beta_s) + _power_cost(problem)
    return solve(problem, PRECISION * cost)
