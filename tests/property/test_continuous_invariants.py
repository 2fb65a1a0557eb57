"""What holds in every episode with continuous batching, whatever the policy does."""

import dataclasses
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simulator.environment import Environment
from simulator.scenario import DecisionKind, QueuePlace, Scenario
from simulator.state import EventKind
from tests.oracle.comparison import told_by
from tests.oracle.scenario_strategies import scenarios
from tests.property.test_routed_invariants import (
    Case,
    always_on,
    cases,
    check_conservation,
    check_fifo,
    check_lane_independence,
    check_little,
    check_same_bytes,
    is_covered,
    some_examples,
    waits_and_spans,
)
from tests.property.test_simulator_invariants import check_causes, check_records

ROUTE, TUNE, REPLICA = DecisionKind.ROUTE, DecisionKind.TUNE, QueuePlace.REPLICA
CONTINUOUS = st.one_of(
    scenarios(ROUTE, REPLICA, frozenset({"delay", "serves"}), continuous=True),
    scenarios(TUNE, REPLICA, frozenset({"delay", "serves"}), continuous=True),
)
DECODE_S = 0.125  # of one sequence, where that is all that takes time
LEAVES = {
    EventKind.REQUEST_COMPLETION,
    EventKind.REQUEST_PREEMPTED,
    EventKind.REQUEST_REQUEUED,
    EventKind.REQUEST_SHED,
}


def with_tokens(scenario: Scenario, **changes: Any) -> Scenario:
    """The scenario with other token models in all replicas, which draw 1 W where they are busy."""
    replicas = tuple(
        dataclasses.replace(
            replica,
            idle_power_w=0.0,
            busy_power_w=1.0,
            tokens=replica.tokens and dataclasses.replace(replica.tokens, **changes),
        )
        for replica in scenario.replicas
    )
    return dataclasses.replace(scenario, replicas=replicas)


def roomy(scenario: Scenario) -> Scenario:
    """The scenario with memory for all requests, so that none is preempted."""
    return with_tokens(scenario, kv_capacity_tokens=1000)


def decoding_alone(scenario: Scenario) -> Scenario:
    """Every token after the first takes `DECODE_S` of its replica, and nothing else takes time."""
    nothing = {"t0_s": 0.0, "t_prefill_s": 0.0, "t_kv_s": 0.0}
    return always_on(with_tokens(scenario, t_decode_s=DECODE_S, **nothing))


def check_memory(env: Environment) -> None:
    """Memory and the number of sequences never pass what a replica has, at decisions."""
    observation = env.decision()[0]
    assert (observation.kv_fill >= 0).all()
    assert (observation.kv_fill <= 1).all()
    most = [replica.max_batch_size for replica in env.scenario.replicas]
    assert (observation.in_service <= most).all()
    idle = observation.in_service == 0
    assert (observation.kv_fill[idle] == 0).all()


def check_running_sets(env: Environment) -> None:
    """After every event the prompts that run fit into the memory, each with one more token."""
    models = [replica.tokens for replica in env.scenario.replicas]
    for lane in range(env.lanes):
        running: list[set[int]] = [set() for _ in models]
        for _, kind, request in told_by(env, lane):
            if kind == EventKind.REQUEST_ADMITTED:
                running[env.state.request_replica[lane, request]].add(request)
            elif kind in LEAVES:
                for of_replica in running:
                    of_replica.discard(request)
            for model, of_replica in zip(models, running, strict=True):
                assert model is not None
                assert len(of_replica) <= model.max_num_seqs
                held = sum(env.state.prompt_tokens[lane, r] + 1 for r in of_replica)
                assert held <= model.kv_capacity_tokens


@given(cases(CONTINUOUS))
@some_examples
def test_offered_equals_completed_plus_shed_plus_in_system(case: Case) -> None:
    check_conservation(case, *case.play())


@given(cases(CONTINUOUS))
@some_examples
def test_nothing_happens_before_its_cause(case: Case) -> None:
    env, terms = case.play()
    check_causes(env)
    check_records(env)
    check_little(env, terms)


@given(cases(CONTINUOUS))
@some_examples
def test_memory_and_sequences_stay_within_what_a_replica_has(case: Case) -> None:
    env, _ = case.play(watch=check_memory)
    check_running_sets(env)


@given(cases(CONTINUOUS.map(roomy)))
@some_examples
def test_requests_are_admitted_in_the_order_of_arrival_unless_preempted(case: Case) -> None:
    env, _ = case.play()
    for lane in range(env.lanes):
        told = told_by(env, lane)
        assert all(kind != EventKind.REQUEST_PREEMPTED for _, kind, _ in told)
        check_fifo(env, lane)
        admitted = [request for _, kind, request in told if kind == EventKind.REQUEST_ADMITTED]
        for replica in range(len(case.scenario.replicas)):  # over all classes
            own = [r for r in admitted if env.state.request_replica[lane, r] == replica]
            assert own == sorted(own)


@given(cases(CONTINUOUS.map(always_on)))
@some_examples
def test_no_replica_idles_beside_its_own_queue(case: Case) -> None:
    env, _ = case.play()
    for lane in range(env.lanes):
        for replica in range(len(case.scenario.replicas)):
            waits, spans = waits_and_spans(env, lane, replica)
            assert all(is_covered(ready_s, start_s, spans) for _, ready_s, start_s in waits)


@given(cases(CONTINUOUS.map(decoding_alone), drains=True))
@some_examples
def test_tokens_that_are_generated_are_those_that_were_asked_for(case: Case) -> None:
    # Prefill gives a first token and takes no time, so busy seconds count the tokens after it. A
    # request that was preempted gets one token more from a prefill, if it finishes that prefill.
    env, terms = case.play()
    assert env.state.number_in_system.sum() == 0
    classes = len(case.scenario.request_classes)
    records = env.request_records()
    for lane in range(env.lanes):
        answered = (records.lane == lane) & ~np.isnan(records.departure_s)
        rest = int((records.output_tokens[answered] - 1).sum())
        generated = terms[lane, 5 * classes + 1] / DECODE_S
        preempted = [kind for _, kind, _ in told_by(env, lane)].count(EventKind.REQUEST_PREEMPTED)
        assert rest - preempted - 1e-9 <= generated <= rest + 1e-9


@given(cases(CONTINUOUS))
@some_examples
def test_a_lane_does_not_depend_on_the_lanes_beside_it(case: Case) -> None:
    check_lane_independence(case)


@given(cases(CONTINUOUS))
@some_examples
def test_same_seed_gives_the_same_bytes(case: Case) -> None:
    check_same_bytes(case)
