"""States, set-points and responses over time, and windows, from hand-made records and events."""

from typing import Any

import numpy as np
import pytest

from pipeline.inspect.service import EventLog
from pipeline.inspect.timeline import build_timeline, cut_to
from simulator.conditions import Scaling, SetPoints
from simulator.environment import RequestRecords
from simulator.replica import Replica
from simulator.scenario import DecisionKind, RequestClass, Scenario
from simulator.state import EventKind as Kind
from simulator.state import RequestStatus


def dispatcher(replicas: int = 1, **fields: Any) -> Scenario:
    """Whole batches from a central queue."""
    classes = (RequestClass("fast", 1.0), RequestClass("slow", 1.0))
    one = Replica((1.0, 1.0), (1.0, 1.0), (0.0, 0.0), 4)
    return Scenario(classes, (one,) * replicas, (1, 2, 4), **fields)


def records_of(*requests: tuple[float, int, float, float], lane: int = 0) -> RequestRecords:
    """Answered requests of replica 0: (arrival, class, dispatch, departure)."""
    columns = np.array(requests, float).reshape(len(requests), 4).T
    arrival_s, request_class, dispatch_s, departure_s = columns
    count = len(requests)
    return RequestRecords(
        lane=np.full(count, lane),
        request_class=request_class.astype(np.int16),
        arrival_s=arrival_s,
        dispatch_s=dispatch_s,
        departure_s=departure_s,
        status=np.full(count, RequestStatus.COMPLETED),
        replica=np.zeros(count, int),
        first_token_s=np.full(count, np.nan),
        output_tokens=np.zeros(count, int),
    )


def events_of(*events: tuple[float, Kind, int]) -> EventLog:
    clock_s, kind, subject = np.array(events, float).reshape(len(events), 3).T
    return EventLog(clock_s, kind.astype(np.int8), subject.astype(np.int32))


def test_a_replica_is_off_starting_and_down_from_one_event_to_the_next() -> None:
    events = events_of(
        (1.0, Kind.REPLICA_START, 1),
        (3.0, Kind.REPLICA_READY, 1),
        (4.0, Kind.REPLICA_DOWN, 0),
        (5.0, Kind.REPLICA_REPAIRED, 0),
        (6.0, Kind.REPLICA_OFF, 1),
    )
    scenario = dispatcher(2, scaling=Scaling(cold_start_s=2.0, initial_replicas=1))
    timeline = build_timeline(scenario, records_of(), events, 8.0)
    assert timeline.replica_state.rows() == [
        (0, "down", 4.0, 5.0),
        (1, "off", 0.0, 1.0),
        (1, "starting", 1.0, 3.0),
        (1, "off", 6.0, 8.0),
    ]


def test_a_set_point_holds_until_a_decision_changes_it() -> None:
    scenario = dispatcher(
        decision=DecisionKind.TUNE,
        set_points=SetPoints(max_batch_size=(2, 4), replicas_on=(0, 1)),
    )
    # Actions: (2, 0), (2, 1), (4, 0), (4, 1); at first both are at their most.
    events = events_of(
        (1.0, Kind.SET_POINTS, 3), (2.0, Kind.SET_POINTS, 1), (3.0, Kind.SET_POINTS, 0)
    )
    timeline = build_timeline(scenario, records_of(), events, 4.0)
    assert timeline.set_point.rows() == [
        ("max_batch_size", 4.0, 0.0, 2.0),
        ("max_batch_size", 2.0, 2.0, 4.0),
        ("replicas_on", 1.0, 0.0, 3.0),
        ("replicas_on", 0.0, 3.0, 4.0),
    ]


def test_the_response_percentile_looks_back_on_the_same_class() -> None:
    records = records_of((0.0, 0, 0.0, 1.0), (0.0, 1, 1.0, 9.0), (8.0, 0, 9.0, 11.0))
    response = build_timeline(dispatcher(), records, events_of(), 12.0).response
    assert response.select("request_class", "clock_s", "response_s").rows() == [
        (0, 1.0, 1.0),
        (1, 9.0, 9.0),
        (0, 11.0, 3.0),
    ]
    # Between 1 and 3 at the level 0.95.
    assert response["response_p95_s"].to_list() == pytest.approx([1.0, 9.0, 2.9])


def test_a_window_cuts_spans_and_carries_levels_over_its_edges() -> None:
    records = records_of((0.0, 0, 0.0, 4.0), (0.0, 0, 4.0, 8.0))
    events = events_of(
        (0.0, Kind.BATCH_DISPATCH, 0),
        (4.0, Kind.BATCH_COMPLETION, 0),
        (4.0, Kind.BATCH_DISPATCH, 0),
        (8.0, Kind.BATCH_COMPLETION, 0),
        (8.0, Kind.REPLICA_DOWN, 0),
    )
    shown = cut_to(build_timeline(dispatcher(), records, events, 20.0), 6.0, 10.0)
    assert shown.service.select("start_s", "end_s").rows() == [(6.0, 8.0)]
    assert shown.replica_state.rows() == [(0, "down", 8.0, 10.0)]
    assert shown.response["clock_s"].to_list() == [6.0, 8.0, 10.0]
    assert shown.response["response_s"].to_list() == [4.0, 8.0, 8.0]


@pytest.mark.parametrize(("start_s", "end_s"), [(2.0, 2.0), (3.0, 2.0), (-1.0, 2.0), (0.0, 5.1)])
def test_a_window_outside_the_episode_is_refused(start_s: float, end_s: float) -> None:
    timeline = build_timeline(dispatcher(), records_of(), events_of(), 5.0)
    with pytest.raises(ValueError, match="start_s, end_s"):
        cut_to(timeline, start_s, end_s)


def test_a_timeline_is_of_one_lane() -> None:
    one, other = records_of((0.0, 0, 0.0, 1.0)), records_of((0.0, 0, 0.0, 1.0), lane=1)
    both = RequestRecords(*(np.concatenate(pair) for pair in zip(one, other, strict=True)))
    with pytest.raises(ValueError, match=r"records\.lane = \[0, 1\]"):
        build_timeline(dispatcher(), both, events_of(), 1.0)
