"""From a simulated log back to its batches and to the rule that wrote it."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from pipeline.calibration.batch_reconstruction import (
    FROM_DEPARTURES,
    FROM_INTERVALS,
    WHOLE,
    RebuiltBatches,
    rebuild_batches,
)
from pipeline.calibration.logged_policy import (
    UNKNOWN,
    DispatchLog,
    LoggedPolicy,
    rebuilt_decisions,
    recognize_policy,
    recognize_routing,
    route_decisions,
)
from simulator.environment import Environment, RequestRecords
from simulator.policies.mixture import EpsilonMixture
from simulator.policies.registry import build_policy
from simulator.replica import Replica
from simulator.reward import Reward
from simulator.rollout import run_episodes
from simulator.scenario import DecisionKind, QueuePlace, RequestClass, Scenario
from simulator.state import Recording
from simulator.traffic import SquareBurstWorkload

pytestmark = pytest.mark.slow

LANES, SPAN_S, GAP_S = 8, 30.0, 5.0
MENU = (1, 2, 4, 8, 16)
CLUSTER = Scenario(
    (RequestClass("fast", 0.1, 1.0), RequestClass("slow", 0.5, 3.0)),
    (
        Replica((0.005, 0.020), (0.002, 0.010), (0.10, 0.10), 16),
        Replica((0.0035, 0.023), (0.003, 0.008), (0.10, 0.10), 16),
    ),
    batch_sizes=MENU,
    queue_capacity=400,
)
ROUTED = dataclasses.replace(
    CLUSTER,
    replicas=CLUSTER.replicas * 2,
    decision=DecisionKind.ROUTE,
    queues=QueuePlace.REPLICA,
    batch_timeout_s=0.0,
)


def simulated(
    scenario: Scenario, name: str, parameters: Mapping[str, Any], epsilon: float = 0.0
) -> RequestRecords:
    """Every request of some lanes, laid one after the other."""
    scale = 2.0 if scenario.decision == DecisionKind.ROUTE else 1.0
    environment = Environment(
        scenario,
        SquareBurstWorkload((60.0 * scale, 20.0 * scale), (180.0 * scale, 60.0 * scale), 3.0, 2.0),
        LANES,
        SPAN_S,
        Reward(np.zeros(13)),
        np.random.default_rng(5),
        drain_s=GAP_S,
        recording=Recording(requests=True),
    )
    policy = EpsilonMixture(build_policy(name, scenario, parameters), epsilon)
    run_episodes(environment, policy, np.random.default_rng(6))
    records = environment.request_records()
    shift_s = (SPAN_S + GAP_S) * records.lane
    return records._replace(
        arrival_s=records.arrival_s + shift_s,
        dispatch_s=records.dispatch_s + shift_s,
        departure_s=records.departure_s + shift_s,
    )


def rebuilt(records: RequestRecords, resolution_s: float = 0.0) -> RebuiltBatches:
    dispatch_s, departure_s = records.dispatch_s, records.departure_s
    if resolution_s:
        dispatch_s, departure_s = (
            np.rint(instant_s / resolution_s) * resolution_s
            for instant_s in (dispatch_s, departure_s)
        )
    return rebuild_batches(records.replica, records.request_class, dispatch_s, departure_s)


def dispatch_log(records: RequestRecords, resolution_s: float = 0.0) -> DispatchLog:
    """The log as a gateway without batch numbers would have written it."""
    found = rebuilt(records, resolution_s)
    served = ~np.isnan(records.dispatch_s)
    arrival_s = records.arrival_s[served]
    if resolution_s:
        arrival_s = np.rint(arrival_s / resolution_s) * resolution_s
    return DispatchLog(
        arrival_s,
        records.request_class[served].astype(int),
        found.replica.astype(int),
        found.request_class.astype(int),
        found.batch_size,
        found.dispatch_s,
        found.departure_s,
        2,
        2,
    )


def recognized(log: DispatchLog, menu: tuple[int, ...] = MENU) -> LoggedPolicy:
    decisions, contradictions = rebuilt_decisions(log)
    found = recognize_policy(log, decisions, menu, contradictions)
    print(found)
    return found


@pytest.fixture(scope="module")
def timed() -> RequestRecords:
    parameters = {"max_batch_size": 8, "batch_timeout_s": 0.025}
    return simulated(CLUSTER, "batch_timeout", parameters)


def wrong_pairs(records: RequestRecords, found: RebuiltBatches) -> float:
    """Share of requests in batches that are not exactly those of the simulator."""
    rows = np.stack([records.replica, records.dispatch_s, records.departure_s], axis=1)
    truth = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    both = np.unique(np.stack([truth, found.batch], axis=1), axis=0)
    split = np.flatnonzero(np.bincount(both[:, 0]) > 1)
    merged = np.flatnonzero(np.bincount(both[:, 1]) > 1)
    return float((np.isin(truth, split) | np.isin(found.batch, merged)).mean())


@pytest.mark.parametrize("resolution_s", [0.0, 1e-6, 1e-3])
def test_batches_are_rebuilt_as_they_were_at_every_resolution(
    timed: RequestRecords, resolution_s: float
) -> None:
    found = rebuilt(timed, resolution_s)
    assert (found.method, found.kind) == (FROM_INTERVALS, WHOLE)
    assert wrong_pairs(timed, found) == 0.0  # the shortest service takes 5 ms or so


def test_batches_are_rebuilt_from_departures_alone(timed: RequestRecords) -> None:
    departure_s = np.rint(timed.departure_s * 1e6) / 1e6
    found = rebuild_batches(timed.replica, timed.request_class, None, departure_s, arrival_s=None)
    assert found.method == FROM_DEPARTURES
    assert wrong_pairs(timed, found) == 0.0


RULES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("static_cap", {"batch_size": 8}, {"batch_size": 8}),
    ("static_fill", {"batch_size": 4}, {"batch_size": 4}),
    (
        "batch_timeout",
        {"max_batch_size": 8, "batch_timeout_s": 0.025},
        {"max_batch_size": 8, "batch_timeout_s": 0.025},
    ),
    ("fifo", {"batch_size": 8}, {"batch_size": 8}),
    (
        "c_mu",
        {"batch_size": {"fast": 8, "slow": 4}},
        {"batch_size": {"class_0": 8, "class_1": 4}, "class_order": [0, 1]},
    ),
    ("round_robin", {"batch_size": 8}, {"batch_size": 8}),
    ("random_replica", {"batch_size": 8}, {"batch_size": 8}),
]


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize(("name", "parameters", "told"), RULES, ids=[rule[0] for rule in RULES])
def test_each_rule_is_recognized_from_its_batches(
    name: str, parameters: dict[str, Any], told: dict[str, Any], epsilon: float
) -> None:
    found = recognized(dispatch_log(simulated(CLUSTER, name, parameters, epsilon)))
    assert found.rule == name, found.text
    timeout_s = found.parameters.pop("batch_timeout_s", None)
    assert timeout_s == pytest.approx(told.get("batch_timeout_s"), abs=0.001)
    assert found.parameters == {key: told[key] for key in told if key != "batch_timeout_s"}
    # Ticks at which a rule waited between two events are not seen: epsilon is right within 2.
    assert epsilon / 2 <= found.epsilon <= max(2 * epsilon, 0.002)


def test_epsilon_is_right_where_the_ticks_are_known() -> None:
    log = dispatch_log(simulated(CLUSTER, "static_fill", {"batch_size": 4}, 0.1))
    decisions, contradictions = rebuilt_decisions(log, tick_s=CLUSTER.tick_s)
    found = recognize_policy(log, decisions, MENU, contradictions)
    assert found.rule == "static_fill"
    assert found.epsilon == pytest.approx(0.1, abs=0.02)


def test_a_rule_is_recognized_from_a_log_in_milliseconds(timed: RequestRecords) -> None:
    found = recognized(dispatch_log(timed, 1e-3), menu=())
    assert found.rule == "batch_timeout"
    assert found.parameters["max_batch_size"] == 8
    assert found.parameters["batch_timeout_s"] == pytest.approx(0.025, abs=0.002)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("uniform_random", {}), ("symphony_defer", {"max_batch_size": 8})],
)
def test_a_rule_that_is_no_candidate_is_unknown(name: str, parameters: dict[str, Any]) -> None:
    found = recognized(dispatch_log(simulated(CLUSTER, name, parameters)))
    assert (found.rule, found.method) == (UNKNOWN, "estimated")
    assert np.isfinite(found.estimated_log_likelihood)


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize(
    ("name", "parameters"),
    [("round_robin", {}), ("random_replica", {}), ("shortest_queue", {}), ("power_of_d", {"d": 2})],
)
def test_each_routing_rule_is_recognized(
    name: str, parameters: dict[str, Any], epsilon: float
) -> None:
    records = simulated(ROUTED, name, parameters, epsilon)
    served = records.replica >= 0
    decisions = route_decisions(
        records.arrival_s[served],
        records.departure_s[served],
        records.replica[served].astype(int),
        4,
    )
    found = recognize_routing(decisions)
    print(found)
    assert (found.rule, found.parameters) == (name, parameters), found.text
    if name != "random_replica":  # which is its own exploration
        assert found.epsilon == pytest.approx(epsilon, abs=0.03)
