"""What holds in every episode in which replicas start, stop, fail and are repaired."""

import dataclasses

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simulator.environment import Environment
from simulator.scenario import DecisionKind, QueuePlace, Scenario
from simulator.state import COLD_STARTS, EventKind
from tests.oracle.comparison import told_by
from tests.oracle.scenario_strategies import scenarios
from tests.property.test_continuous_invariants import check_memory, check_running_sets
from tests.property.test_routed_invariants import (
    Case,
    cases,
    check_conservation,
    check_fifo,
    check_lane_independence,
    check_little,
    check_same_bytes,
    some_examples,
)
from tests.property.test_simulator_invariants import check_causes, check_records

CENTRAL, REPLICA = QueuePlace.CENTRAL, QueuePlace.REPLICA
DISPATCH, ROUTE, TUNE = DecisionKind.DISPATCH, DecisionKind.ROUTE, DecisionKind.TUNE
DISPATCH_SCALED = scenarios(DISPATCH, CENTRAL, frozenset({"scaling", "serves", "backlog", "delay"}))
ROUTE_SCALED = scenarios(ROUTE, REPLICA, frozenset({"scaling", "serves", "delay"}))
TUNE_SCALED = scenarios(TUNE, CENTRAL, frozenset({"scaling", "serves"}))
TOKENS_SCALED = scenarios(TUNE, REPLICA, frozenset({"scaling", "delay"}), continuous=True)
DISPATCH_FAULTS = scenarios(DISPATCH, CENTRAL, frozenset({"faults", "backlog", "delay", "mixed"}))
ROUTE_FAULTS = scenarios(ROUTE, REPLICA, frozenset({"faults", "scaling", "delay"}))
TUNE_FAULTS = scenarios(TUNE, CENTRAL, frozenset({"faults", "scaling", "backlog"}))
TOKENS_FAULTS = scenarios(
    ROUTE, REPLICA, frozenset({"faults", "scaling", "delay"}), continuous=True
)
SCALED = st.one_of(DISPATCH_SCALED, ROUTE_SCALED, TUNE_SCALED, TOKENS_SCALED)
FAULTS = st.one_of(DISPATCH_FAULTS, ROUTE_FAULTS, TUNE_FAULTS, TOKENS_FAULTS)
EITHER = st.one_of(SCALED, FAULTS)


def requeued(scenario: Scenario) -> Scenario:
    """The scenario in which no fault sheds a request."""
    return dataclasses.replace(scenario, faults=dataclasses.replace(scenario.faults, requeue=True))


def off_s(env: Environment, lane: int) -> np.ndarray:
    """`[K] s`, how long each replica was off."""
    replicas, initial = len(env.scenario.replicas), env.scenario.scaling.initial_replicas
    since_s = [0.0 if initial is not None and k >= initial else None for k in range(replicas)]
    total_s = np.zeros(replicas)
    for clock_s, kind, replica in told_by(env, lane):
        if kind == EventKind.REPLICA_OFF:
            since_s[replica] = clock_s
        elif kind == EventKind.REPLICA_START:
            total_s[replica] += clock_s - since_s[replica]
            since_s[replica] = None
    for replica, off_since_s in enumerate(since_s):
        if off_since_s is not None:
            total_s[replica] += env.state.clock_s[lane] - off_since_s
    return total_s


@given(cases(EITHER))
@some_examples
def test_offered_equals_completed_plus_shed_plus_in_system(case: Case) -> None:
    check_conservation(case, *case.play())


@given(cases(EITHER))
@some_examples
def test_the_integral_of_the_number_in_system_is_the_time_spent_there(case: Case) -> None:
    check_little(*case.play())


@given(cases(EITHER))
@some_examples
def test_nothing_happens_before_its_cause_nor_on_a_replica_that_is_not_up(case: Case) -> None:
    check_causes(case.play()[0])


@given(cases(SCALED))
@some_examples
def test_records_are_in_order_and_queues_fifo_where_replicas_only_scale(case: Case) -> None:
    env, _ = case.play()
    check_records(env)
    preempted = EventKind.REQUEST_PREEMPTED
    for lane in range(env.lanes):
        told = {kind for _, kind, _ in told_by(env, lane)}
        if case.scenario.queues == REPLICA and preempted not in told:
            check_fifo(env, lane)


@given(cases(EITHER))
@some_examples
def test_replica_seconds_and_bill_are_of_the_time_that_replicas_were_not_off(case: Case) -> None:
    env, terms = case.play()
    classes, replicas = len(case.scenario.request_classes), case.scenario.replicas
    price_per_s = np.array([replica.price_per_hour / 3600.0 for replica in replicas])
    for lane in range(env.lanes):
        on_s = env.state.clock_s[lane] - off_s(env, lane)
        np.testing.assert_allclose(terms[lane, 5 * classes], on_s.sum(), atol=1e-9)
        bill = terms[lane, 5 * classes + 2]
        np.testing.assert_allclose(bill, (price_per_s * on_s).sum(), atol=1e-9)


@given(cases(SCALED))
@some_examples
def test_a_replica_is_ready_its_cold_start_after_its_start(case: Case) -> None:
    env, _ = case.play()
    for lane in range(env.lanes):
        starts: dict[int, list[float]] = {}
        for clock_s, kind, replica in told_by(env, lane):
            if kind == EventKind.REPLICA_START:
                starts.setdefault(replica, []).append(clock_s)
            elif kind == EventKind.REPLICA_READY:
                number = (len(starts[replica]) - 1) % COLD_STARTS
                cold_start_s = env.state.cold_start_s[lane, replica, number]
                assert clock_s == starts[replica][-1] + cold_start_s


@given(cases(FAULTS.map(requeued)))
@some_examples
def test_no_request_is_shed_after_it_joined_where_faults_requeue(case: Case) -> None:
    env, _ = case.play()
    for lane in range(env.lanes):
        told = told_by(env, lane)
        joined = {request for _, kind, request in told if kind == EventKind.REQUEST_ARRIVAL}
        shed = {request for _, kind, request in told if kind == EventKind.REQUEST_SHED}
        assert not joined & shed


@given(cases(TOKENS_FAULTS))
@some_examples
def test_a_fault_gives_back_the_memory_of_what_it_loses(case: Case) -> None:
    env, _ = case.play(watch=check_memory)
    check_running_sets(env)


@given(cases(EITHER))
@some_examples
def test_a_lane_does_not_depend_on_the_lanes_beside_it(case: Case) -> None:
    check_lane_independence(case)


@given(cases(EITHER))
@some_examples
def test_same_seed_gives_the_same_bytes(case: Case) -> None:
    check_same_bytes(case)
