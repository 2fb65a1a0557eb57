"""Short episodes with faults worked out by hand: what the engine does, and when."""

import dataclasses

import numpy as np

from simulator.conditions import Fault, Faults, Scaling, SetPoints
from simulator.environment import Environment
from simulator.replica import Replica, TokenModel, continuous_replica
from simulator.reward import Reward, reward_term_names
from simulator.scenario import DecisionKind, QueuePlace, RequestClass, Scenario
from simulator.state import EventKind, Recording
from simulator.workload import Arrivals, RecordedWorkload
from tests.oracle.comparison import told_by

# A request takes 1.5 s, one at a time. Power: 10 W idle, 30 W busy.
GPU = Replica((1.0,), (0.5,), (0.0,), 1, 10.0, 30.0)
TUNED = Scenario(
    (RequestClass("only", slo_s=100.0),),
    (GPU, GPU),
    (1,),
    decision=DecisionKind.TUNE,
    set_points=SetPoints(max_batch_size=(1,)),
)
ROUTED = dataclasses.replace(TUNED, decision=DecisionKind.ROUTE, queues=QueuePlace.REPLICA)


def environment(
    scenario: Scenario, instants: list[float], horizon_s: float, *tokens: list[int]
) -> Environment:
    """One lane at its first decision."""
    count = len(instants)
    columns = [np.array(column) for column in tokens]
    arrivals = Arrivals(np.array(instants), np.zeros(count, int), np.ones(count), *columns)
    env = Environment(
        scenario,
        RecordedWorkload(arrivals),
        1,
        horizon_s,
        Reward(np.ones(8)),
        np.random.default_rng(0),
        recording=Recording(requests=True, events=100),
    )
    env.reset()
    return env


def told_without_decisions(env: Environment) -> list[tuple[float, int, int]]:
    return [event for event in told_by(env, 0) if event[1] != EventKind.SET_POINTS]


def test_a_fault_sheds_what_is_in_service_while_its_queue_waits_for_the_repair() -> None:
    scenario = dataclasses.replace(ROUTED, faults=Faults((Fault(0, 1.0, 2.0),), requeue=False))
    env = environment(scenario, [0.0, 0.5, 2.0], 5.0)
    terms = np.zeros(8)
    for replica, legal in ((0, [True, True]), (0, [True, True]), (1, [False, True])):
        assert env.decision()[1][0].tolist() == legal  # replica 0 is down at 2.0
        terms += env.step(np.array([replica])).reward_terms[0]
    assert told_by(env, 0) == [
        (0.0, EventKind.REQUEST_ARRIVAL, 0),
        (0.0, EventKind.BATCH_DISPATCH, 0),
        (0.5, EventKind.REQUEST_ARRIVAL, 1),
        (1.0, EventKind.REPLICA_DOWN, 0),
        (1.0, EventKind.REQUEST_SHED, 0),
        (2.0, EventKind.REQUEST_ARRIVAL, 2),
        (2.0, EventKind.BATCH_DISPATCH, 1),
        (3.0, EventKind.REPLICA_REPAIRED, 0),
        (3.0, EventKind.BATCH_DISPATCH, 0),
        (3.5, EventKind.BATCH_COMPLETION, 1),
        (4.5, EventKind.BATCH_COMPLETION, 0),
    ]
    by_name = dict(zip(reward_term_names(("only",)), terms.tolist(), strict=True))
    assert by_name["shed.only"] == 1
    # Request 0 was there for 1 s, request 1 for 4 s, request 2 for 1.5 s.
    assert by_name["number_in_system_s.only"] == 1.0 + 4.0 + 1.5
    # Replica 0: busy 1 s, down, busy 1.5 s, idle 0.5 s. Replica 1: idle 2 s, busy 1.5 s, idle.
    assert by_name["energy_j"] == 30 * (1.0 + 1.5 + 1.5) + 10 * (0.5 + 2.0 + 1.5)


def test_a_batch_that_is_lost_starts_on_another_replica_at_once() -> None:
    env = environment(dataclasses.replace(TUNED, faults=Faults((Fault(0, 1.0, 2.0),))), [0.0], 4.0)
    while env.running().any():
        env.step(np.array([0]))
    assert told_without_decisions(env) == [
        (0.0, EventKind.REQUEST_ARRIVAL, 0),
        (0.0, EventKind.BATCH_DISPATCH, 0),
        (1.0, EventKind.REPLICA_DOWN, 0),
        (1.0, EventKind.REQUEST_REQUEUED, 0),
        (1.0, EventKind.BATCH_DISPATCH, 1),
        (2.5, EventKind.BATCH_COMPLETION, 1),
        (3.0, EventKind.REPLICA_REPAIRED, 0),
    ]
    records = env.request_records()
    assert (records.dispatch_s[0], records.replica[0], records.departure_s[0]) == (1.0, 1, 2.5)


def test_a_sequence_that_is_lost_generates_all_its_tokens_again() -> None:
    # Iterations of 1 s: tokens at 1.0 and 2.0 are lost at 2.5. All four come again from 4.0 on,
    # but the user has seen the first at 1.0.
    tokens = TokenModel(1.0, 0.0, 0.0, 0.0, 2, 10, 8)
    scenario = dataclasses.replace(
        ROUTED,
        replicas=(continuous_replica(1, tokens),),
        faults=Faults((Fault(0, 2.5, 0.5),)),
    )
    env = environment(scenario, [0.0], 8.0, [2], [4])
    env.step(np.array([0]))
    assert told_by(env, 0) == [
        (0.0, EventKind.REQUEST_ARRIVAL, 0),
        (0.0, EventKind.REQUEST_ADMITTED, 0),
        (1.0, EventKind.FIRST_TOKEN, 0),
        (2.5, EventKind.REPLICA_DOWN, 0),
        (2.5, EventKind.REQUEST_REQUEUED, 0),
        (3.0, EventKind.REPLICA_REPAIRED, 0),
        (3.0, EventKind.REQUEST_ADMITTED, 0),
        (7.0, EventKind.REQUEST_COMPLETION, 0),
    ]
    records = env.request_records()
    assert (records.first_token_s[0], records.dispatch_s[0]) == (1.0, 3.0)


def test_tokens_kept_at_a_preemption_are_lost_with_the_replica() -> None:
    # Iterations of 1 s, memory for 10 tokens. Request 1, admitted at 1.0, is preempted at 3.0 with
    # two tokens, and runs again from 6.0, where request 0 departs. The fault at 8.5 costs it all
    # of its tokens: six come from 10.0 to 15.0. Had it kept two, the last would come at 13.0.
    tokens = TokenModel(1.0, 0.0, 0.0, 0.0, 2, 10, 8)
    scenario = dataclasses.replace(
        ROUTED,
        replicas=(continuous_replica(1, tokens),),
        faults=Faults((Fault(0, 8.5, 0.5),)),
    )
    env = environment(scenario, [0.0, 0.0], 20.0, [2, 2], [6, 6])
    for _ in range(2):
        env.step(np.array([0]))
    assert (3.0, EventKind.REQUEST_PREEMPTED, 1) in told_by(env, 0)
    assert env.request_records().departure_s.tolist() == [6.0, 15.0]


def test_a_replica_that_fails_while_it_starts_is_up_when_it_is_repaired() -> None:
    # Replica 1 starts at 1.0 for 1 s and fails at 1.5. The repair at 1.75 takes the place of the
    # rest of the cold start.
    scenario = dataclasses.replace(
        TUNED,
        set_points=SetPoints(replicas_on=(2,)),
        scaling=Scaling(1.0, initial_replicas=1),
        faults=Faults((Fault(1, 1.5, 0.25),)),
    )
    env = environment(scenario, [0.5, 0.75], 4.0)
    while env.running().any():
        env.step(np.array([0]))
    assert told_without_decisions(env) == [
        (0.5, EventKind.REQUEST_ARRIVAL, 0),
        (0.5, EventKind.BATCH_DISPATCH, 0),
        (0.75, EventKind.REQUEST_ARRIVAL, 1),
        (1.0, EventKind.REPLICA_START, 1),
        (1.5, EventKind.REPLICA_DOWN, 1),
        (1.75, EventKind.REPLICA_REPAIRED, 1),
        (1.75, EventKind.BATCH_DISPATCH, 1),
        (2.0, EventKind.BATCH_COMPLETION, 0),
        (3.25, EventKind.BATCH_COMPLETION, 1),
    ]
