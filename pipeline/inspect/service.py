"""What replicas served, batch by batch or sequence by sequence, read from records and events."""

from collections import deque
from typing import NamedTuple

import numpy as np
import polars as pl

from simulator.environment import RequestRecords
from simulator.state import EventKind

COMPLETED, LOST, PREEMPTED, RUNNING = "completed", "lost", "preempted", "running"
SERVICE = {
    "replica": pl.Int64,
    "request_class": pl.Int64,
    "start_s": pl.Float64,
    "end_s": pl.Float64,
    "low": pl.Int64,
    "high": pl.Int64,
    "batch_size": pl.Int64,
    "ending": pl.String,
}
QUEUE_CHANGE = {"clock_s": pl.Float64, "request_class": pl.Int64, "amount": pl.Int64}


class EventLog(NamedTuple):
    """Everything that happened in one lane, in order."""

    clock_s: np.ndarray  # [E] s
    kind: np.ndarray  # [E] EventKind
    subject: np.ndarray  # [E] request, replica or action

    def of(self, *kinds: EventKind) -> list[tuple[float, int, int]]:
        """(clock, kind, subject) of the events of these kinds."""
        chosen = np.isin(self.kind, kinds)
        columns = (column[chosen].tolist() for column in self)
        return list(zip(*columns, strict=True))


class ServiceLog(NamedTuple):
    """What was in service, and how that changed the queue."""

    service: pl.DataFrame  # SERVICE
    queue_change: pl.DataFrame  # QUEUE_CHANGE: -1 as a request leaves its queue, +1 as it returns


class _Batch(NamedTuple):
    """A batch that has started. Its requests left their queue at `sent_s`."""

    replica: int
    sent_s: float
    start_s: float
    end_s: float
    ending: str


class _Fault(NamedTuple):
    """A fault, and what it has ended."""

    clock_s: float
    sent_s: list[float]  # of the batches that were lost, the one in service first
    batch: int | None  # place of that one in the list of batches, if one was in service
    requests: list[int]  # lost, from the last of the last batch to the first of the first


class _Batches:
    """Follows the batches of all replicas through the events; one event, one method."""

    def __init__(self, arrival_s: list[float], sent_ahead: bool) -> None:
        self.batches: list[_Batch] = []
        self.faults: list[_Fault] = []
        self.requeued: list[tuple[float, int]] = []
        self._arrival_s = arrival_s
        self._sent_ahead = sent_ahead
        self._waiting: dict[int, deque[float]] = {}  # by replica: instants of sending
        self._in_service: dict[int, tuple[float, float]] = {}  # by replica: sent, started

    def batch_is_sent(self, replica: int, clock_s: float) -> None:
        waiting = self._waiting.setdefault(replica, deque())
        if self._sent_ahead or waiting or replica in self._in_service:
            waiting.append(clock_s)
        else:
            self._in_service[replica] = (clock_s, clock_s)

    def batch_starts(self, replica: int, clock_s: float) -> None:
        self._in_service[replica] = (self._waiting[replica].popleft(), clock_s)

    def batch_ends(self, replica: int, clock_s: float, ending: str) -> None:
        in_service = self._in_service.pop(replica)
        self.batches.append(_Batch(replica, *in_service, clock_s, ending))

    def replica_fails(self, replica: int, clock_s: float) -> None:
        sent_s, batch = list(self._waiting.pop(replica, ())), None
        if replica in self._in_service:
            sent_s.insert(0, self._in_service[replica][0])
            batch = len(self.batches)
            self.batch_ends(replica, clock_s, LOST)
        self.faults.append(_Fault(clock_s, sent_s, batch, []))

    def request_is_requeued(self, request: int, clock_s: float) -> None:
        self.faults[-1].requests.append(request)
        self.requeued.append((clock_s, request))

    def request_is_shed(self, request: int, clock_s: float) -> None:
        """By a fault, or on arrival: then it has left no replica."""
        at_a_fault = bool(self.faults) and self.faults[-1].clock_s == clock_s
        if at_a_fault and self._arrival_s[request] < clock_s:
            self.faults[-1].requests.append(request)

    def episode_ends(self, end_s: float) -> None:
        for replica in sorted(self._in_service):
            self.batch_ends(replica, end_s, RUNNING)


def read_batches(
    records: RequestRecords, events: EventLog, end_s: float, sent_ahead: bool
) -> ServiceLog:
    """The batches of an episode; `sent_ahead` says that every batch is in transit first.

    A batch is known by its replica and the instant at which it started, the dispatch time of its
    requests. The requests of a batch that a fault has ended are those that return, or are shed,
    right after the fault.
    """
    batches = _Batches(records.arrival_s.tolist(), sent_ahead)
    happens = {
        EventKind.BATCH_DISPATCH: batches.batch_is_sent,
        EventKind.BATCH_START: batches.batch_starts,
        EventKind.BATCH_COMPLETION: lambda replica, at_s: batches.batch_ends(
            replica, at_s, COMPLETED
        ),
        EventKind.REPLICA_DOWN: batches.replica_fails,
        EventKind.REQUEST_REQUEUED: batches.request_is_requeued,
        EventKind.REQUEST_SHED: batches.request_is_shed,
    }
    for clock_s, kind, subject in events.of(*happens):
        happens[EventKind(kind)](subject, clock_s)
    batches.episode_ends(end_s)
    return _log_of(batches, records)


def _log_of(read: _Batches, records: RequestRecords) -> ServiceLog:
    """The batches with what each held of each class."""
    request_class = records.request_class.tolist()
    lost, changes = [], []
    for fault in read.faults:
        for request, place in zip(*_by_batch(fault, records), strict=True):
            changes.append((fault.sent_s[place], request_class[request], -1))
            if fault.batch is not None and place == 0:
                lost.append((fault.batch, request_class[request]))
    changes += [(clock_s, request_class[request], 1) for clock_s, request in read.requeued]
    schema = dict.fromkeys(_Batch._fields, pl.Float64) | {"replica": pl.Int64, "ending": pl.String}
    batches = pl.DataFrame(read.batches, schema, orient="row").with_row_index("batch")
    batches = batches.with_columns(pl.col("batch").cast(pl.Int64))
    counted = _members(batches, lost, records)
    left = counted.filter(pl.col("ending") != LOST).select(
        clock_s="sent_s", request_class="request_class", amount=-pl.col("count")
    )
    returned = pl.DataFrame(changes, QUEUE_CHANGE, orient="row")
    return ServiceLog(counted.select(*SERVICE), pl.concat([left, returned]))


def _by_batch(fault: _Fault, records: RequestRecords) -> tuple[list[int], list[int]]:
    """The lost requests in the order in which they were sent, and for each the place of its batch.

    The log does not say where one batch ends and the next begins. No request is in a batch that was
    sent before it arrived, none is empty, and a batch is taken to have one class.
    """
    requests = fault.requests[::-1]
    place, places = 0, []
    for number, request in enumerate(requests):
        left, behind = len(requests) - number, len(fault.sent_s) - 1 - place
        previous = requests[number - 1]
        other = records.request_class[request] != records.request_class[previous]
        late = records.arrival_s[request] > fault.sent_s[place]
        if number and behind and (other or late or left <= behind):
            place += 1
        places.append(place)
    return requests, places


def _members(
    batches: pl.DataFrame, lost: list[tuple[int, int]], records: RequestRecords
) -> pl.DataFrame:
    """The batches, a row for each class, with `low` to `high` of its `batch_size` requests."""
    served = pl.DataFrame(
        {
            "replica": records.replica.astype(np.int64),
            "start_s": records.dispatch_s.astype(float),
            "request_class": records.request_class.astype(np.int64),
        }
    )
    kept = batches.filter(pl.col("ending") != LOST)
    members = kept.join(served, on=["replica", "start_s"]).select("batch", "request_class")
    gone = pl.DataFrame(lost, {"batch": pl.Int64, "request_class": pl.Int64}, orient="row")
    return (
        pl.concat([members, gone])
        .group_by("batch", "request_class")
        .len("count")
        .with_columns(pl.col("count").cast(pl.Int64))
        .sort("batch", "request_class")
        .join(batches, on="batch", maintain_order="left")
        .with_columns(
            high=pl.col("count").cum_sum().over("batch"),
            batch_size=pl.col("count").sum().over("batch"),
        )
        .with_columns(low=pl.col("high") - pl.col("count"))
    )


def read_sequences(records: RequestRecords, events: EventLog, end_s: float) -> ServiceLog:
    """The admissions of sequences to the running sets of replicas, under continuous batching."""
    endings = {
        EventKind.REQUEST_COMPLETION: COMPLETED,
        EventKind.REQUEST_PREEMPTED: PREEMPTED,
        EventKind.REQUEST_REQUEUED: LOST,
        EventKind.REQUEST_SHED: LOST,
    }
    replica, request_class = records.replica.tolist(), records.request_class.tolist()
    admitted: dict[int, float] = {}
    rows, changes = [], []
    for clock_s, kind, request in events.of(EventKind.REQUEST_ADMITTED, *endings):
        of_class = request_class[request]
        if kind == EventKind.REQUEST_ADMITTED:
            admitted[request] = clock_s
            changes.append((clock_s, of_class, -1))
        elif request in admitted:  # else it was shed on arrival
            start_s, ending = admitted.pop(request), endings[EventKind(kind)]
            rows.append((replica[request], of_class, start_s, clock_s, 0, 1, 1, ending))
            if kind in (EventKind.REQUEST_PREEMPTED, EventKind.REQUEST_REQUEUED):
                changes.append((clock_s, of_class, 1))
    for request, start_s in admitted.items():
        running = (start_s, end_s, 0, 1, 1, RUNNING)
        rows.append((replica[request], request_class[request], *running))
    return ServiceLog(
        pl.DataFrame(rows, SERVICE, orient="row"),
        pl.DataFrame(changes, QUEUE_CHANGE, orient="row"),
    )
