"""From the records and the log of events of an episode to the tables that the picture shows."""

from typing import NamedTuple

import numpy as np
import polars as pl

from pipeline.inspect.service import EventLog, ServiceLog, read_batches, read_sequences
from simulator.action import KEPT, action_table
from simulator.checks import check
from simulator.environment import RequestRecords
from simulator.scenario import DecisionKind, QueuePlace, Scenario
from simulator.state import EventKind, RequestStatus

RESPONSE_WINDOW = 32  # answers of a class that its P95 looks back on


class Timeline(NamedTuple):
    """What happened in an episode, as tables. Times are s from its start."""

    end_s: float
    service: pl.DataFrame  # replica, request_class, start_s, end_s, low, high, batch_size, ending
    replica_state: pl.DataFrame  # replica, state (off, starting, down), start_s, end_s
    queue_change: pl.DataFrame  # clock_s, request_class, amount
    shed: pl.DataFrame  # clock_s, request_class
    set_point: pl.DataFrame  # set_point, value, start_s, end_s
    response: pl.DataFrame  # request_class, clock_s, response_s, response_p95_s


def build_timeline(
    scenario: Scenario,
    records: RequestRecords,
    events: EventLog,
    end_s: float,
) -> Timeline:
    """The tables of one lane's episode, which lasted until `end_s`.

    A row of `service` is what one replica had of one class in one batch: `low` to `high` of its
    `batch_size` requests; with continuous batching one admission of one sequence, whose low and
    high are 0 and 1. `ending` is completed, lost (by a fault), preempted or running (at `end_s`).
    A request that was sent to a replica and has not started by then counts as waiting.
    Raises ValueError where the records are of several lanes.
    """
    lanes = np.unique(records.lane)
    if len(lanes) > 1:
        raise ValueError(f"records.lane = {lanes.tolist()}: a timeline shows one lane")
    if scenario.continuous:
        log = read_sequences(records, events, end_s)
    else:
        ahead = scenario.queues == QueuePlace.CENTRAL and scenario.dispatch_delay.exists
        log = read_batches(records, events, end_s, ahead)
    return Timeline(
        end_s,
        log.service,
        _replica_states(scenario, events, end_s),
        _queue_changes(records, events, log),
        _shed(records, events),
        _set_points(scenario, events, end_s),
        _responses(records),
    )


def _replica_states(scenario: Scenario, events: EventLog, end_s: float) -> pl.DataFrame:
    """Intervals in which a replica was not up."""
    after = {
        EventKind.REPLICA_START: "starting",
        EventKind.REPLICA_READY: "up",
        EventKind.REPLICA_OFF: "off",
        EventKind.REPLICA_DOWN: "down",
        EventKind.REPLICA_REPAIRED: "up",
    }
    replicas, initial = len(scenario.replicas), scenario.scaling.initial_replicas
    on = replicas if initial is None else initial
    state = ["up" if replica < on else "off" for replica in range(replicas)]
    since_s = [0.0] * replicas
    rows = []
    for clock_s, kind, replica in events.of(*after):
        rows.append((replica, state[replica], since_s[replica], clock_s))
        state[replica], since_s[replica] = after[EventKind(kind)], clock_s
    rows += [(replica, state[replica], since_s[replica], end_s) for replica in range(replicas)]
    schema = {"replica": pl.Int64, "state": pl.String, "start_s": pl.Float64, "end_s": pl.Float64}
    frame = pl.DataFrame(rows, schema, orient="row")
    shown = (pl.col("state") != "up") & (pl.col("end_s") > pl.col("start_s"))
    return frame.filter(shown).sort("replica", "start_s")


def _queue_changes(records: RequestRecords, events: EventLog, log: ServiceLog) -> pl.DataFrame:
    """Arrivals into a queue, and what came back to one, as +1; what left it as -1 each."""
    joins = events.kind == EventKind.REQUEST_ARRIVAL
    joined = pl.DataFrame(
        {
            "clock_s": events.clock_s[joins].astype(float),
            "request_class": records.request_class[events.subject[joins]].astype(np.int64),
        }
    ).with_columns(amount=pl.lit(1, pl.Int64))
    return pl.concat([joined, log.queue_change]).sort("clock_s", "request_class", "amount")


def _shed(records: RequestRecords, events: EventLog) -> pl.DataFrame:
    shed = events.kind == EventKind.REQUEST_SHED
    return pl.DataFrame(
        {
            "clock_s": events.clock_s[shed].astype(float),
            "request_class": records.request_class[events.subject[shed]].astype(np.int64),
        }
    )


def _set_points(scenario: Scenario, events: EventLog, end_s: float) -> pl.DataFrame:
    """Intervals in which a set-point that `tune` decides had one value."""
    schema = {
        "set_point": pl.String,
        "value": pl.Float64,
        "start_s": pl.Float64,
        "end_s": pl.Float64,
    }
    table, decisions = action_table(scenario), events.of(EventKind.SET_POINTS)
    columns = {
        "max_batch_size": table.batch_size,
        "batch_timeout_s": table.batch_timeout_s,
        "max_num_seqs": table.max_num_seqs,
        "replicas_on": table.replicas_on,
    }
    rows = []
    for name, column in columns.items():
        if scenario.decision != DecisionKind.TUNE or not getattr(scenario.set_points, name):
            continue
        value, since_s, by_action = _initial_set_point(scenario, name), 0.0, column.tolist()
        for clock_s, _, action in decisions:
            if by_action[action] not in (KEPT, value):
                rows.append((name, value, since_s, clock_s))
                value, since_s = float(by_action[action]), clock_s
        rows.append((name, value, since_s, end_s))
    frame = pl.DataFrame(rows, schema, orient="row")
    return frame.filter(pl.col("end_s") > pl.col("start_s"))


def _initial_set_point(scenario: Scenario, name: str) -> float:
    replicas, initial = scenario.replicas, scenario.scaling.initial_replicas
    return {
        "max_batch_size": float(max(r.max_batch_size for r in replicas)),
        "batch_timeout_s": scenario.batch_timeout_s,
        "max_num_seqs": float(
            max((r.tokens.max_num_seqs for r in replicas if r.tokens), default=0)
        ),
        "replicas_on": float(len(replicas) if initial is None else initial),
    }[name]


def _responses(records: RequestRecords) -> pl.DataFrame:
    """Answered requests in the order of departure, with the P95 of the last ones of their class."""
    answered = records.status == RequestStatus.COMPLETED
    departure_s = records.departure_s[answered].astype(float)
    frame = pl.DataFrame(
        {
            "request_class": records.request_class[answered].astype(np.int64),
            "clock_s": departure_s,
            "response_s": departure_s - records.arrival_s[answered],
        }
    ).sort("clock_s", maintain_order=True)
    recent = pl.col("response_s").rolling_quantile(
        0.95, "linear", window_size=RESPONSE_WINDOW, min_samples=1
    )
    return frame.with_columns(response_p95_s=recent.over("request_class"))


def cut_to(timeline: Timeline, start_s: float, end_s: float) -> Timeline:
    """What lies in [start_s, end_s]; spans are cut at its edges.

    The changes of the queue are all kept: its length at the start is their sum. Raises ValueError
    where the window is empty or not within the episode.
    """
    rule = f"must be below end_s, both within the {timeline.end_s:g} s of the episode"
    check(0 <= start_s < end_s <= timeline.end_s, "start_s, end_s", (start_s, end_s), rule)
    span = (pl.col("end_s") > start_s) & (pl.col("start_s") < end_s)
    instant = (pl.col("clock_s") >= start_s) & (pl.col("clock_s") <= end_s)
    edges = {
        "start_s": pl.col("start_s").clip(start_s, None),
        "end_s": pl.col("end_s").clip(None, end_s),
    }
    return timeline._replace(
        service=timeline.service.filter(span).with_columns(**edges),
        replica_state=timeline.replica_state.filter(span).with_columns(**edges),
        set_point=timeline.set_point.filter(span).with_columns(**edges),
        shed=timeline.shed.filter(instant),
        response=_carried(timeline.response, start_s, end_s),
    )


def _carried(response: pl.DataFrame, start_s: float, end_s: float) -> pl.DataFrame:
    """The answers in the window; a level holds from before it and to its end."""
    begun = response.filter(pl.col("clock_s") <= end_s)
    before = begun.filter(pl.col("clock_s") < start_s).group_by("request_class").last()
    last = begun.group_by("request_class").last()
    return pl.concat(
        [
            before.with_columns(clock_s=pl.lit(start_s)).select(response.columns),
            begun.filter(pl.col("clock_s") >= start_s),
            last.with_columns(clock_s=pl.lit(end_s)).select(response.columns),
        ]
    ).sort("request_class", "clock_s", maintain_order=True)
