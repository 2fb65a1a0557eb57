"""Logged choices of a replica at each arrival, and what routing rules give to them."""

from typing import NamedTuple

import numpy as np

from pipeline.calibration.logged_policy.candidates import Candidate
from pipeline.calibration.logged_policy.scoring import Chances
from simulator.checks import check
from simulator.observation import ReplicaState, empty_observation
from simulator.policies.base import Policy
from simulator.replica import Replica
from simulator.scenario import DecisionKind, QueuePlace, RequestClass, Scenario

_ROUNDING_S = 1e-9
_KINDS = 4  # in turn or not, by shortest queue or not


class RouteDecisions(NamedTuple):
    """Decisions that sent an arrival to a replica. D decisions, K replicas."""

    clock_s: np.ndarray  # [D] s
    in_flight: np.ndarray  # [D, K] requests sent there and unanswered; NaN: nobody knows
    last_replica: np.ndarray  # [D] of the arrival before, -1 for the first
    replica: np.ndarray  # [D]

    def chosen(self, rows: np.ndarray | slice) -> "RouteDecisions":
        """Some of the decisions."""
        return RouteDecisions(*(column[rows] for column in self))

    @property
    def length(self) -> int:
        """The number of decisions D."""
        return len(self.clock_s)


def route_decisions(
    arrival_s: np.ndarray, departure_s: np.ndarray, replica: np.ndarray, replicas: int
) -> RouteDecisions:
    """The decisions of requests `[D]` in order of arrival, and what was in flight at each.

    `departure_s` is NaN where a request was never answered: it stays in flight. Ties of arrivals
    count in the order given. Raises ValueError for arrivals that do not ascend and replicas out of
    range.
    """
    check(len(arrival_s) > 0, "len(arrival_s)", 0, "needs at least one")
    for field, values in (("departure_s", departure_s), ("replica", replica)):
        check(len(values) == len(arrival_s), f"len({field})", len(values), "lengths must be equal")
    check(bool((np.diff(arrival_s) >= 0).all()), "arrival_s", "unsorted", "must be ascending")
    inside = bool(((replica >= 0) & (replica < replicas)).all())
    check(inside, "replica", replica, f"must be in 0..{replicas - 1}")
    in_flight = np.zeros((len(arrival_s), replicas), np.int64)
    for number in range(replicas):
        own = replica == number
        sent = np.cumsum(own) - own
        left_s = np.sort(departure_s[own])  # NaN last: never passed
        in_flight[:, number] = sent - np.searchsorted(
            left_s[~np.isnan(left_s)], arrival_s + _ROUNDING_S, side="right"
        )
    # What is routed and answered within rounding of one instant could count below 0.
    in_flight = np.maximum(in_flight, 0)
    return RouteDecisions(arrival_s, in_flight, np.append(-1, replica[:-1]), replica)


def route_candidates(replicas: int) -> list[Candidate]:
    """The candidates, the simpler first."""
    found = [
        Candidate("round_robin", {}),
        Candidate("random_replica", {}),
        Candidate("shortest_queue", {}),
        Candidate("join_idle_queue", {}),
    ]
    return found + [Candidate("power_of_d", {"d": d}) for d in (2, 3) if d < replicas]


def route_system(replicas: int) -> Scenario:
    """A scenario with as many replicas, all alike: these rules look at numbers of requests only."""
    return Scenario(
        (RequestClass("all", 1.0),),
        (Replica((1e-3,), (1e-3,), (0.0,), 1),) * replicas,
        (1,),
        decision=DecisionKind.ROUTE,
        queues=QueuePlace.REPLICA,
    )


def route_chances(policy: Policy, scenario: Scenario, decisions: RouteDecisions) -> Chances:
    """What a rule gives to the logged choices; kinds are the same for all rules."""
    count, replicas = decisions.in_flight.shape
    mask = np.ones((count, replicas), bool)
    busy = decisions.in_flight > 0
    observation = empty_observation(scenario, count)._replace(
        can_take=mask.astype(float),
        in_flight=decisions.in_flight.astype(float),
        last_replica=decisions.last_replica,
        head_class=np.zeros(count, np.int64),
        replica_state=np.where(busy, float(ReplicaState.BUSY), float(ReplicaState.IDLE)),
        clock_s=decisions.clock_s,
    )
    own = policy.action_probabilities(observation, mask)
    rows = np.arange(count)
    least = decisions.in_flight.min(axis=1, keepdims=True)
    in_turn = (decisions.last_replica[:, None] + 1) % replicas == np.arange(replicas)
    kind = 2 * (decisions.in_flight == least) + in_turn
    kinds = [kind == number for number in range(_KINDS)]
    return Chances(
        own[rows, decisions.replica],
        np.full(count, 1.0 / replicas),
        kind[rows, decisions.replica],
        np.stack([(own * chosen).sum(axis=1) for chosen in kinds], axis=1),
        np.stack([chosen.mean(axis=1) for chosen in kinds], axis=1),
    )


class RouteTable(NamedTuple):
    """Counts of choices by state: how many replicas are shortest, and whether the one in turn is.

    A propensity is that of the kind of choice (in turn or not, shortest or not), each replica of a
    kind alike.
    """

    taken: np.ndarray  # [2 * K + 2, 4] by state and kind


def fit_routes(decisions: RouteDecisions) -> RouteTable:
    """The table of some decisions."""
    state, kind, _ = _kinds(decisions)
    count = np.zeros((2 * decisions.in_flight.shape[1] + 2, _KINDS))
    np.add.at(count, (state, kind[np.arange(decisions.length), decisions.replica]), 1.0)
    return RouteTable(count)


def route_propensities(table: RouteTable, decisions: RouteDecisions) -> np.ndarray:
    """The estimated probability `[D]` of each choice; each kind counts one decision beforehand."""
    state, kind, alike = _kinds(decisions)
    rows = np.arange(decisions.length)
    weight = np.where(alike > 0, table.taken[state] + 1.0, 0.0)
    share = weight / weight.sum(axis=1, keepdims=True) / np.maximum(alike, 1)
    return np.asarray(share[rows, kind[rows, decisions.replica]])


def _kinds(decisions: RouteDecisions) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """State `[D]`, kind of each replica `[D, K]`, and how many replicas are of each kind."""
    replicas = decisions.in_flight.shape[1]
    shortest = decisions.in_flight == decisions.in_flight.min(axis=1, keepdims=True)
    in_turn = (decisions.last_replica[:, None] + 1) % replicas == np.arange(replicas)
    kind = 2 * shortest + in_turn
    state = 2 * shortest.sum(axis=1) + (shortest & in_turn).any(axis=1)
    alike = np.stack([(kind == number).sum(axis=1) for number in range(_KINDS)], axis=1)
    return state, kind, alike
