"""What was in service and in the queue, from hand-made records and events."""

import math
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.inspect.service import EventLog
from pipeline.inspect.timeline import Timeline, build_timeline
from simulator.conditions import DispatchDelay
from simulator.environment import RequestRecords
from simulator.replica import Replica, TokenModel, continuous_replica
from simulator.scenario import DecisionKind, MixedBatches, QueuePlace, RequestClass, Scenario
from simulator.state import EventKind as Kind
from simulator.state import RequestStatus

CLASSES = (RequestClass("fast", 1.0), RequestClass("slow", 1.0))
WAITS = (math.nan, math.nan, -1, RequestStatus.WAITING)
SHED = (math.nan, math.nan, -1, RequestStatus.SHED)


def dispatcher(replicas: int = 1, **fields: Any) -> Scenario:
    """Whole batches from a central queue."""
    one = Replica((1.0, 1.0), (1.0, 1.0), (0.0, 0.0), 4)
    return Scenario(CLASSES, (one,) * replicas, **{"batch_sizes": (1, 2, 4), **fields})


def language_model(**fields: Any) -> Scenario:
    """One replica under continuous batching."""
    tokens = TokenModel(1.0, 0.0, 0.0, 0.0, 4, 100, 10)
    layers = {"queues": QueuePlace.REPLICA, "decision": DecisionKind.ROUTE, "batch_sizes": (1,)}
    return Scenario(CLASSES, (continuous_replica(2, tokens),), **{**layers, **fields})


def answered(dispatch_s: float, departure_s: float, replica: int = 0) -> tuple[Any, ...]:
    return dispatch_s, departure_s, replica, RequestStatus.COMPLETED


def records_of(*requests: tuple[float, int, tuple[Any, ...]], lane: int = 0) -> RequestRecords:
    """Requests (arrival, class, (dispatch, departure, replica, status))."""
    count = len(requests)
    arrival_s, request_class, ends = zip(*requests, strict=True) if requests else ((), (), ())
    dispatch_s, departure_s, replica, status = zip(*ends, strict=True) if ends else ((),) * 4
    return RequestRecords(
        lane=np.full(count, lane),
        request_class=np.array(request_class, np.int16),
        arrival_s=np.array(arrival_s, float),
        dispatch_s=np.array(dispatch_s, float),
        departure_s=np.array(departure_s, float),
        status=np.array(status, np.int8),
        replica=np.array(replica, np.int64),
        first_token_s=np.full(count, np.nan),
        output_tokens=np.zeros(count, np.int32),
    )


def events_of(*events: tuple[float, Kind, int]) -> EventLog:
    clock_s, kind, subject = zip(*events, strict=True) if events else ((), (), ())
    return EventLog(np.array(clock_s, float), np.array(kind, np.int8), np.array(subject, np.int32))


def service(timeline: Timeline) -> list[tuple[Any, ...]]:
    """Rows replica, class, start, end, low, high, batch size, ending; in the order of the start."""
    ordered = timeline.service.sort("start_s", "replica", "request_class")
    return list(ordered.iter_rows())


def queue(timeline: Timeline) -> list[tuple[float, int, int]]:
    """Clock, class, and the length of that queue after all changes of the instant."""
    total = pl.col("amount").sum()
    changes = timeline.queue_change.group_by("clock_s", "request_class").agg(total)
    length = pl.col("amount").cum_sum().over("request_class")
    return list(changes.sort("clock_s", "request_class").with_columns(length).iter_rows())


def test_a_batch_is_what_one_replica_started_at_one_instant() -> None:
    records = records_of(
        (0.0, 0, answered(0.0, 2.0, 0)),
        (0.5, 1, answered(1.0, 3.0, 1)),
        (1.0, 1, answered(1.0, 3.0, 1)),
        (1.5, 0, (2.0, math.nan, 0, RequestStatus.IN_SERVICE)),
    )
    events = events_of(
        (0.0, Kind.REQUEST_ARRIVAL, 0),
        (0.0, Kind.BATCH_DISPATCH, 0),
        (0.5, Kind.REQUEST_ARRIVAL, 1),
        (1.0, Kind.REQUEST_ARRIVAL, 2),
        (1.0, Kind.BATCH_DISPATCH, 1),
        (1.5, Kind.REQUEST_ARRIVAL, 3),
        (2.0, Kind.BATCH_COMPLETION, 0),
        (2.0, Kind.BATCH_DISPATCH, 0),
        (3.0, Kind.BATCH_COMPLETION, 1),
    )
    timeline = build_timeline(dispatcher(2), records, events, 4.0)
    assert service(timeline) == [
        (0, 0, 0.0, 2.0, 0, 1, 1, "completed"),
        (1, 1, 1.0, 3.0, 0, 2, 2, "completed"),
        (0, 0, 2.0, 4.0, 0, 1, 1, "running"),
    ]
    assert queue(timeline) == [(0.0, 0, 0), (0.5, 1, 1), (1.0, 1, 0), (1.5, 0, 1), (2.0, 0, 0)]


def test_a_mixed_batch_has_a_row_for_each_class_one_on_the_other() -> None:
    in_service = answered(0.0, 2.0)
    records = records_of((0.0, 1, in_service), (0.0, 0, in_service), (0.0, 1, in_service))
    events = events_of((0.0, Kind.BATCH_DISPATCH, 0), (2.0, Kind.BATCH_COMPLETION, 0))
    scenario = dispatcher(mixed=MixedBatches.SUM, class_choice="head_of_line")
    assert service(build_timeline(scenario, records, events, 2.0)) == [
        (0, 0, 0.0, 2.0, 0, 1, 3, "completed"),
        (0, 1, 0.0, 2.0, 1, 3, 3, "completed"),
    ]


def test_requests_leave_the_queue_when_sent_and_start_when_the_batch_before_ends() -> None:
    records = records_of((0.0, 0, answered(0.0, 2.0)), (0.5, 0, answered(2.0, 4.0)))
    events = events_of(
        (0.0, Kind.REQUEST_ARRIVAL, 0),
        (0.0, Kind.BATCH_DISPATCH, 0),
        (0.5, Kind.REQUEST_ARRIVAL, 1),
        (1.0, Kind.BATCH_DISPATCH, 0),
        (2.0, Kind.BATCH_COMPLETION, 0),
        (2.0, Kind.BATCH_START, 0),
        (4.0, Kind.BATCH_COMPLETION, 0),
    )
    timeline = build_timeline(dispatcher(replica_backlog=1), records, events, 4.0)
    assert [row[2:4] for row in service(timeline)] == [(0.0, 2.0), (2.0, 4.0)]
    assert queue(timeline) == [(0.0, 0, 0), (0.5, 0, 1), (1.0, 0, 0)]


def test_a_batch_in_transit_starts_when_it_arrives() -> None:
    records = records_of((0.0, 0, answered(1.5, 3.0)))
    events = events_of(
        (0.0, Kind.REQUEST_ARRIVAL, 0),
        (1.0, Kind.BATCH_DISPATCH, 0),
        (1.5, Kind.BATCH_START, 0),
        (3.0, Kind.BATCH_COMPLETION, 0),
    )
    scenario = dispatcher(dispatch_delay=DispatchDelay(constant_s=0.5))
    timeline = build_timeline(scenario, records, events, 3.0)
    assert service(timeline) == [(0, 0, 1.5, 3.0, 0, 1, 1, "completed")]
    assert queue(timeline) == [(0.0, 0, 1), (1.0, 0, 0)]


def test_a_fault_ends_the_batch_in_service_and_the_one_behind_it() -> None:
    # Two fast in service since 0, one slow sent behind them at 1; all return at 2, served at 3.
    records = records_of(
        (0.0, 0, answered(3.0, 5.0)), (0.0, 0, answered(3.0, 5.0)), (0.5, 1, answered(5.0, 6.0))
    )
    events = events_of(
        (0.0, Kind.REQUEST_ARRIVAL, 0),
        (0.0, Kind.REQUEST_ARRIVAL, 1),
        (0.0, Kind.BATCH_DISPATCH, 0),
        (0.5, Kind.REQUEST_ARRIVAL, 2),
        (1.0, Kind.BATCH_DISPATCH, 0),
        (2.0, Kind.REPLICA_DOWN, 0),
        (2.0, Kind.REQUEST_REQUEUED, 2),
        (2.0, Kind.REQUEST_REQUEUED, 1),
        (2.0, Kind.REQUEST_REQUEUED, 0),
        (3.0, Kind.REPLICA_REPAIRED, 0),
        (3.0, Kind.BATCH_DISPATCH, 0),
        (5.0, Kind.BATCH_COMPLETION, 0),
        (5.0, Kind.BATCH_DISPATCH, 0),
        (6.0, Kind.BATCH_COMPLETION, 0),
    )
    timeline = build_timeline(dispatcher(replica_backlog=1), records, events, 6.0)
    assert service(timeline) == [
        (0, 0, 0.0, 2.0, 0, 2, 2, "lost"),
        (0, 0, 3.0, 5.0, 0, 2, 2, "completed"),
        (0, 1, 5.0, 6.0, 0, 1, 1, "completed"),
    ]
    assert queue(timeline) == [
        (0.0, 0, 0),
        (0.5, 1, 1),
        (1.0, 1, 0),
        (2.0, 0, 2),
        (2.0, 1, 1),
        (3.0, 0, 0),
        (5.0, 1, 0),
    ]
    assert timeline.replica_state.rows() == [(0, "down", 2.0, 3.0)]


@pytest.mark.parametrize(
    ("requests", "in_service"),
    [
        # (arrival, class) in the order in which they were sent, at 0 and at 1
        ([(0.0, 0), (0.0, 0), (0.0, 1), (0.0, 1)], 2),  # a batch has one class
        ([(0.0, 0), (0.5, 0), (0.5, 0)], 1),  # no batch holds what arrived after it was sent
        ([(0.0, 0), (0.0, 0)], 1),  # no batch is empty
    ],
)
def test_the_requests_of_two_lost_batches_are_told_apart(
    requests: list[tuple[float, int]], in_service: int
) -> None:
    records = records_of(*((arrival_s, number, WAITS) for arrival_s, number in requests))
    order = range(len(requests))
    events = events_of(
        (0.0, Kind.BATCH_DISPATCH, 0),
        *((arrival_s, Kind.REQUEST_ARRIVAL, n) for n, (arrival_s, _) in enumerate(requests)),
        (1.0, Kind.BATCH_DISPATCH, 0),
        (2.0, Kind.REPLICA_DOWN, 0),
        *((2.0, Kind.REQUEST_REQUEUED, n) for n in reversed(order)),
    )
    timeline = build_timeline(dispatcher(replica_backlog=1), records, events, 3.0)
    assert service(timeline) == [(0, 0, 0.0, 2.0, 0, in_service, in_service, "lost")]
    left = timeline.queue_change.filter(pl.col("amount") < 0)
    assert left.filter(pl.col("clock_s") == 0.0)["amount"].sum() == -in_service
    assert left.filter(pl.col("clock_s") == 1.0)["amount"].sum() == in_service - len(requests)


def test_a_request_shed_by_a_fault_has_left_its_queue_and_one_shed_on_arrival_was_in_none() -> None:
    records = records_of((0.0, 0, SHED), (2.0, 1, SHED))
    events = events_of(
        (0.0, Kind.REQUEST_ARRIVAL, 0),
        (1.0, Kind.BATCH_DISPATCH, 0),
        (2.0, Kind.REPLICA_DOWN, 0),
        (2.0, Kind.REQUEST_SHED, 0),
        (2.0, Kind.REQUEST_SHED, 1),
    )
    timeline = build_timeline(dispatcher(), records, events, 3.0)
    assert service(timeline) == [(0, 0, 1.0, 2.0, 0, 1, 1, "lost")]
    assert queue(timeline) == [(0.0, 0, 1), (1.0, 0, 0)]
    assert timeline.shed.rows() == [(2.0, 0), (2.0, 1)]


def test_a_sequence_is_in_service_from_each_admission_until_it_leaves() -> None:
    records = records_of(
        (0.0, 0, answered(0.0, 5.0)),
        (1.0, 1, (1.0, math.nan, 0, RequestStatus.WAITING)),
        (2.0, 0, (2.0, math.nan, 0, RequestStatus.IN_SERVICE)),
        (2.0, 1, SHED),
    )
    events = events_of(
        (0.0, Kind.REQUEST_ARRIVAL, 0),
        (0.0, Kind.REQUEST_ADMITTED, 0),
        (1.0, Kind.REQUEST_ARRIVAL, 1),
        (1.0, Kind.REQUEST_ADMITTED, 1),
        (2.0, Kind.REQUEST_ARRIVAL, 2),
        (2.0, Kind.REQUEST_SHED, 3),
        (2.0, Kind.REQUEST_ADMITTED, 2),
        (3.0, Kind.REQUEST_PREEMPTED, 1),
        (4.0, Kind.REQUEST_ADMITTED, 1),
        (5.0, Kind.REQUEST_COMPLETION, 0),
        (6.0, Kind.REQUEST_REQUEUED, 1),
    )
    timeline = build_timeline(language_model(), records, events, 7.0)
    assert service(timeline) == [
        (0, 0, 0.0, 5.0, 0, 1, 1, "completed"),
        (0, 1, 1.0, 3.0, 0, 1, 1, "preempted"),
        (0, 0, 2.0, 7.0, 0, 1, 1, "running"),
        (0, 1, 4.0, 6.0, 0, 1, 1, "lost"),
    ]
    assert queue(timeline) == [
        (0.0, 0, 0),
        (1.0, 1, 0),
        (2.0, 0, 0),
        (3.0, 1, 1),
        (4.0, 1, 0),
        (6.0, 1, 1),
    ]
