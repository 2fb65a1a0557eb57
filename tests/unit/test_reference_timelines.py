"""Short episodes worked out by hand: what the plain reference tells, and when."""

import dataclasses
import math

import numpy as np
import pytest

from simulator.conditions import DispatchDelay, Scaling, SetPoints, View
from simulator.reference import (
    Action,
    Cluster,
    Dispatch,
    Luck,
    Route,
    Tune,
    Wait,
    advance,
    take_action,
)
from simulator.replica import Replica, TokenModel, continuous_replica
from simulator.scenario import DecisionKind, QueuePlace, RequestClass, Scenario
from simulator.state import Ending, EventKind
from simulator.workload import Arrivals

NOTHING = np.zeros(0)
NO_LUCK = Luck(NOTHING, NOTHING, NOTHING, NOTHING)
ONLY = (RequestClass("only", slo_s=100.0),)
Told = list[tuple[float, EventKind, int]]


def cluster_of(
    scenario: Scenario,
    instants: list[float],
    horizon_s: float,
    luck: Luck = NO_LUCK,
    tokens: list[tuple[int, int]] | None = None,
) -> Cluster:
    """A cluster at its first decision; `tokens` are (prompt, output) of each request."""
    count = len(instants)
    prompt, output = np.array(tokens or np.zeros((0, 2)), np.int64).T
    arrivals = Arrivals(np.array(instants), np.zeros(count, int), np.ones(count), prompt, output)
    cluster = Cluster(scenario, arrivals, luck, horizon_s)
    advance(cluster)
    return cluster


def decide(cluster: Cluster, clock_s: float, action: Action) -> None:
    """Takes the action, which must be due at this clock, and runs to the next decision."""
    assert cluster.ending == Ending.RUNNING
    assert cluster.clock_s == clock_s
    take_action(cluster, action)
    advance(cluster)


def terms_of(cluster: Cluster) -> dict[str, float]:
    names = ("completed", "response_s", "number_in_system_s", "shed", "slo_misses")
    terms = (*names, "replica_seconds", "energy_j", "bill")
    return dict(zip(terms, cluster.reward_terms(), strict=True))


def continuous(tokens: TokenModel, request_class: RequestClass = ONLY[0]) -> Scenario:
    return Scenario(
        (request_class,),
        (continuous_replica(1, tokens),),
        (1,),
        decision=DecisionKind.ROUTE,
        queues=QueuePlace.REPLICA,
    )


def test_a_newcomer_cuts_a_jump_at_the_next_boundary() -> None:
    # A prefill of 4 tokens takes 1 + 4/4 = 2 s. Then 5 tokens are held, and j iterations take
    # j (1 + 1/2 + 5/8) + j (j - 1) / 16: boundaries at 2 + 2.125 and 2 + 4.375, the end at 11.25.
    tokens = TokenModel(1.0, 0.25, 0.5, 0.125, 2, 100, 8)
    cluster = cluster_of(continuous(tokens), [0.0, 5.0], 20.0, tokens=[(4, 5), (2, 1)])
    decide(cluster, 0.0, Route(0))
    assert cluster.observed()["kv_fill"] == [0.05]
    decide(cluster, 5.0, Route(0))
    # The newcomer at 5.0 gets in at 6.375. Now 7 tokens of context: the iteration takes
    # 1 + 2/4 + 1/2 + 7/8 = 2.875 s. The last one has 8: 1 + 1/2 + 8/8 = 2.5 s.
    assert cluster.events == [
        (0.0, EventKind.REQUEST_ARRIVAL, 0),
        (0.0, EventKind.REQUEST_ADMITTED, 0),
        (2.0, EventKind.FIRST_TOKEN, 0),
        (5.0, EventKind.REQUEST_ARRIVAL, 1),
        (6.375, EventKind.REQUEST_ADMITTED, 1),
        (9.25, EventKind.FIRST_TOKEN, 1),
        (9.25, EventKind.REQUEST_COMPLETION, 1),
        (11.75, EventKind.REQUEST_COMPLETION, 0),
    ]
    assert terms_of(cluster)["number_in_system_s"] == 11.75 + 4.25


def test_want_of_memory_preempts_the_newest_which_prefills_its_tokens_again() -> None:
    # Every iteration takes 1 s; memory for 10 tokens. At 3.0 request 0 holds 2 + 3 tokens and
    # request 1 holds 2 + 2, so 9; two more do not fit. Alone, request 0 ends at 6.0. Request 1
    # then prefills 4 tokens by 7.0, which gives its third token; the sixth comes at 10.0.
    tokens = TokenModel(1.0, 0.0, 0.0, 0.0, 2, 10, 8)
    scenario = continuous(tokens, RequestClass("only", 100.0, slo_ttft_s=2.0, slo_tpot_s=1.5))
    cluster = cluster_of(scenario, [0.0, 0.0], 20.0, tokens=[(2, 6), (2, 6)])
    decide(cluster, 0.0, Route(0))
    decide(cluster, 0.0, Route(0))
    assert cluster.events == [
        (0.0, EventKind.REQUEST_ARRIVAL, 0),
        (0.0, EventKind.REQUEST_ADMITTED, 0),
        (0.0, EventKind.REQUEST_ARRIVAL, 1),
        (1.0, EventKind.FIRST_TOKEN, 0),
        (1.0, EventKind.REQUEST_ADMITTED, 1),
        (2.0, EventKind.FIRST_TOKEN, 1),
        (3.0, EventKind.REQUEST_PREEMPTED, 1),
        (6.0, EventKind.REQUEST_COMPLETION, 0),
        (6.0, EventKind.REQUEST_ADMITTED, 1),
        (10.0, EventKind.REQUEST_COMPLETION, 1),
    ]
    assert cluster.requests[1].dispatch_s == 1.0  # the first admission
    # TTFT is 1 s and 2 s, none above 2 s; TPOT is 5 / 5 = 1 s and 8 / 5 = 1.6 s.
    assert terms_of(cluster)["slo_misses"] == 1


# A batch of n takes 1 + n / 2 seconds. Power: 10 W idle, 30 W busy. One money unit a second.
LINE = Replica((1.0,), (0.5,), (0.0,), 2, 10.0, 30.0, price_per_hour=3600.0)


def test_a_fault_puts_its_batch_back_in_front_whatever_the_capacity() -> None:
    # The batch of 0.0 would end at 2.0 and is lost at 1.0: three wait, where two may. The repair
    # at 3.0 comes before the arrival of that instant, which is shed, and before the decision.
    # The new batch takes 3.0 to 5.0, the last request 5.0 to 6.5.
    scenario = Scenario(ONLY, (LINE,), (1, 2), queue_capacity=2)
    luck = NO_LUCK._replace(fault_s=np.array([[1.0, 3.0, math.inf]]))
    cluster = cluster_of(scenario, [0.0, 0.0, 0.5, 3.0], 6.0, luck)
    decide(cluster, 0.0, Dispatch(0, 0, 2))
    assert math.isnan(cluster.requests[0].dispatch_s)
    decide(cluster, 3.0, Dispatch(0, None, 2))
    decide(cluster, 5.0, Dispatch(0, None, 2))
    assert cluster.events == [
        (0.0, EventKind.REQUEST_ARRIVAL, 0),
        (0.0, EventKind.REQUEST_ARRIVAL, 1),
        (0.0, EventKind.BATCH_DISPATCH, 0),
        (0.5, EventKind.REQUEST_ARRIVAL, 2),
        (1.0, EventKind.REPLICA_DOWN, 0),
        (1.0, EventKind.REQUEST_REQUEUED, 1),
        (1.0, EventKind.REQUEST_REQUEUED, 0),
        (3.0, EventKind.REPLICA_REPAIRED, 0),
        (3.0, EventKind.REQUEST_SHED, 3),
        (3.0, EventKind.BATCH_DISPATCH, 0),
        (5.0, EventKind.BATCH_COMPLETION, 0),
        (5.0, EventKind.BATCH_DISPATCH, 0),
    ]
    assert [request.dispatch_s for request in cluster.requests[:3]] == [3.0, 3.0, 5.0]
    terms = terms_of(cluster)
    assert terms["energy_j"] == 30.0 * (1.0 + 2.0 + 1.0)  # nothing while down
    assert terms["replica_seconds"] == terms["bill"] == 6.0
    assert terms["shed"] == 1


def test_a_replica_that_is_not_wanted_is_off_at_its_last_token() -> None:
    # Iterations of 1 s. Two tokens: the first at 1.0, the last at 2.0. Unwanted from 1.5 on.
    scenario = dataclasses.replace(
        continuous(TokenModel(1.0, 0.0, 0.0, 0.0, 2, 10, 8)),
        decision=DecisionKind.TUNE,
        control_interval_s=1.5,
        set_points=SetPoints(replicas_on=(0, 1)),
    )
    cluster = cluster_of(scenario, [0.0], 3.0, tokens=[(2, 2)])
    decide(cluster, 1.5, Tune(0, replicas_on=0))
    assert cluster.events == [
        (0.0, EventKind.REQUEST_ARRIVAL, 0),
        (0.0, EventKind.REQUEST_ADMITTED, 0),
        (1.0, EventKind.FIRST_TOKEN, 0),
        (1.5, EventKind.SET_POINTS, 0),
        (2.0, EventKind.REQUEST_COMPLETION, 0),
        (2.0, EventKind.REPLICA_OFF, 0),
    ]
    assert cluster.ending == Ending.TRUNCATED


def test_replicas_start_cold_and_drain_before_they_are_off() -> None:
    # A request alone takes 1.5 s, a cold start 0.5 s; a decision every second.
    scenario = Scenario(
        ONLY,
        (LINE, LINE),
        (1,),
        decision=DecisionKind.TUNE,
        queues=QueuePlace.REPLICA,
        set_points=SetPoints(replicas_on=(0, 1, 2)),
        scaling=Scaling(initial_replicas=1),
    )
    luck = NO_LUCK._replace(cold_start_s=np.full((2, 3), 0.5))
    cluster = cluster_of(scenario, [0.0, 1.25, 2.5], 3.5, luck)
    decide(cluster, 1.0, Tune(2, replicas_on=2))
    decide(cluster, 2.0, Tune(0, replicas_on=0))
    decide(cluster, 3.0, Tune(1, replicas_on=1))
    assert cluster.events == [
        (0.0, EventKind.REQUEST_ARRIVAL, 0),
        (0.0, EventKind.BATCH_DISPATCH, 0),
        (1.0, EventKind.SET_POINTS, 2),
        (1.0, EventKind.REPLICA_START, 1),
        (1.25, EventKind.REQUEST_ARRIVAL, 1),  # waits where nobody is before it, for READY
        (1.5, EventKind.BATCH_COMPLETION, 0),
        (1.5, EventKind.REPLICA_READY, 1),
        (1.5, EventKind.BATCH_DISPATCH, 1),
        (2.0, EventKind.SET_POINTS, 0),
        (2.0, EventKind.REPLICA_OFF, 0),
        (2.5, EventKind.REPLICA_START, 0),  # an arrival activates one from zero
        (2.5, EventKind.REQUEST_ARRIVAL, 2),
        (3.0, EventKind.REPLICA_READY, 0),
        (3.0, EventKind.BATCH_DISPATCH, 0),
        (3.0, EventKind.BATCH_COMPLETION, 1),
        (3.0, EventKind.REPLICA_OFF, 1),  # drained
        (3.0, EventKind.SET_POINTS, 1),
    ]
    # Replica 0 was on from 0 to 2 and from 2.5 on, replica 1 from 1 to 3.
    assert terms_of(cluster)["replica_seconds"] == 2.0 + 1.0 + 2.0


def test_batches_keep_their_order_on_the_way_and_wait_behind_one_another() -> None:
    # A batch of one takes 1.5 s. The second is faster on its way and arrives with the first.
    scenario = Scenario(
        ONLY, (LINE,), (1,), replica_backlog=1, dispatch_delay=DispatchDelay(constant_s=0.5)
    )
    luck = NO_LUCK._replace(delay_s=np.array([0.5, 0.25, 2.0]))
    cluster = cluster_of(scenario, [0.0, 0.125, 0.25], 10.0, luck)
    decide(cluster, 0.0, Dispatch(0, 0, 1))
    decide(cluster, 0.125, Dispatch(0, 0, 1))
    decide(cluster, 2.0, Dispatch(0, 0, 1))  # both places were taken until 2.0
    assert cluster.events == [
        (0.0, EventKind.REQUEST_ARRIVAL, 0),
        (0.0, EventKind.BATCH_DISPATCH, 0),
        (0.125, EventKind.REQUEST_ARRIVAL, 1),
        (0.125, EventKind.BATCH_DISPATCH, 0),
        (0.25, EventKind.REQUEST_ARRIVAL, 2),
        (0.5, EventKind.BATCH_START, 0),
        (2.0, EventKind.BATCH_COMPLETION, 0),
        (2.0, EventKind.BATCH_START, 0),
        (2.0, EventKind.BATCH_DISPATCH, 0),
        (3.5, EventKind.BATCH_COMPLETION, 0),
        (4.0, EventKind.BATCH_START, 0),
        (5.5, EventKind.BATCH_COMPLETION, 0),
    ]
    assert [request.dispatch_s for request in cluster.requests] == [0.5, 2.0, 4.0]


def test_a_central_batch_goes_when_it_is_full_or_overdue() -> None:
    # Two fill a batch, which takes 2 s; one alone goes after 1 s, and takes 1.5 s.
    scenario = Scenario(
        ONLY,
        (LINE,),
        (1,),
        decision=DecisionKind.TUNE,
        batch_timeout_s=1.0,
        control_interval_s=5.0,
        set_points=SetPoints(batch_timeout_s=(0.25, 1.0)),
    )
    cluster = cluster_of(scenario, [0.0, 0.5, 1.75, 4.75], 7.0)
    decide(cluster, 5.0, Tune(0, batch_timeout_s=0.25))
    assert cluster.events == [
        (0.0, EventKind.REQUEST_ARRIVAL, 0),
        (0.5, EventKind.REQUEST_ARRIVAL, 1),
        (0.5, EventKind.BATCH_DISPATCH, 0),  # full
        (1.75, EventKind.REQUEST_ARRIVAL, 2),
        (2.5, EventKind.BATCH_COMPLETION, 0),
        (2.75, EventKind.BATCH_DISPATCH, 0),  # overdue
        (4.25, EventKind.BATCH_COMPLETION, 0),
        (4.75, EventKind.REQUEST_ARRIVAL, 3),
        (5.0, EventKind.SET_POINTS, 0),
        (5.0, EventKind.BATCH_DISPATCH, 0),  # overdue by the new set-point
        (6.5, EventKind.BATCH_COMPLETION, 0),
    ]


@pytest.mark.parametrize("own_in_flight", [False, True])
def test_a_stale_view_shows_the_last_refresh_and_own_requests_only_if_asked(
    own_in_flight: bool,
) -> None:
    # Replica 0 serves from 0.25 to 1.75; the view is of 0.0, then of 1.0.
    scenario = Scenario(
        ONLY, (LINE, LINE), (1,), tick_s=0.75, view=View(1.0, own_in_flight=own_in_flight)
    )
    cluster = cluster_of(scenario, [0.25, 0.5], 4.0)
    decide(cluster, 0.25, Dispatch(0, 0, 1))
    first = cluster.observed()
    assert first["queue_length"] == [1]
    assert first["can_take"] == [False, True]
    assert first["replica_state"] == [2, 2]
    assert first["in_flight"] == ([1, 0] if own_in_flight else [0, 0])
    decide(cluster, 0.5, Wait())  # the view at 1.0 does not end the wait, the tick does
    assert cluster.clock_s == 1.25
    second = cluster.observed()
    assert second["replica_state"] == [3, 2]
    assert second["in_service"] == second["in_flight"] == [1, 0]
    assert second["remaining_service_s"] == [0.75, 0.0]  # as of 1.0
