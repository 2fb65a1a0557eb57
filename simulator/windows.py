"""One long recorded trace as overlapping windows side by side in lanes, and its records put back.

Each lane begins empty, `warmup_s` before the part of the trace that it counts, and runs on for
`cooldown_s` after it. What it counts is then what one lane would have seen that replays the whole
trace, as far as the cluster forgets its past within the warm-up and answers within the cool-down.

Clocks of lanes start at 0. What a scenario writes in clock time (a scripted fault) happens in every
lane at that time of its own; and what happens at multiples of an interval (a control decision, a
view) keeps its instants only where `Windows.start_s` are multiples of it too. Noise, delays and
random faults are drawn by each lane for itself: equal in distribution, not request by request.
"""

import math
from typing import NamedTuple

import numpy as np

from simulator.checks import check
from simulator.environment import RequestRecords
from simulator.workload import Arrivals, RecordedWorkload, check_arrivals


class Windows(NamedTuple):
    """What B lanes replay of a trace, and which part of it each of them counts.

    `workloads` and `horizon_s` are those of an `Environment` of B lanes. Every request of the
    trace is counted by one lane. Where the warm-up would begin before the trace, the lane begins
    with the trace.
    """

    workloads: tuple[RecordedWorkload, ...]  # [B]
    horizon_s: float  # of every lane
    start_s: np.ndarray  # [B] s, the instant of the trace at which the clock of the lane is 0
    counted_s: np.ndarray  # [B, 2] s by the clock of the lane, from and before
    counted_request: np.ndarray  # [B, 2] the same in requests: numbers in the lane, from and before


def split_windows(
    arrivals: Arrivals, span_s: float, lanes: int, warmup_s: float, cooldown_s: float
) -> Windows:
    """The trace in [0, span_s) cut into `lanes` equal parts, each with a warm-up and a cool-down.

    Every lane simulates `span_s / lanes + warmup_s + cooldown_s` seconds. Requests go on arriving
    in the cool-down as they do in the trace, for they compete with those that are counted.
    Raises ValueError for a trace that is not within the span, or for lengths that make no windows.
    """
    check(math.isfinite(span_s) and span_s > 0, "span_s", span_s, "must be positive and finite")
    check(lanes >= 1, "lanes", lanes, "must be at least 1")
    for field, value in (("warmup_s", warmup_s), ("cooldown_s", cooldown_s)):
        rule = "must be finite and at least 0"
        check(math.isfinite(value) and value >= 0, field, value, rule)
    check_arrivals(arrivals, 1 + int(arrivals.request_class.max(initial=0)))
    last_s = float(arrivals.arrival_s.max(initial=0.0))
    check(last_s < span_s, "span_s", span_s, f"must be above the last arrival_s {last_s!r}")
    # Division last, so that the last edge is the span itself and loses no request to rounding.
    edge_s = np.arange(lanes + 1) * span_s / lanes
    start_s = np.maximum(edge_s[:-1] - warmup_s, 0.0)
    horizon_s = warmup_s + span_s / lanes + cooldown_s
    # Rounded edges must not leave the last counted request beyond the horizon.
    horizon_s += 4.0 * float(np.spacing(span_s + horizon_s))
    counted_s = np.stack([edge_s[:-1], edge_s[1:]], axis=1) - start_s[:, None]
    # Numbers rather than instants say what is counted: rounding loses and doubles no request.
    edge_request = np.searchsorted(arrivals.arrival_s, edge_s)
    before = np.searchsorted(arrivals.arrival_s, start_s)
    counted_request = np.stack([edge_request[:-1], edge_request[1:]], axis=1) - before[:, None]
    workloads = tuple(
        RecordedWorkload(arrivals.window(begin_s, begin_s + horizon_s)) for begin_s in start_s
    )
    return Windows(workloads, horizon_s, start_s, counted_s, counted_request)


def merged_records(windows: Windows, records: RequestRecords) -> RequestRecords:
    """The counted requests of all lanes in the order of the trace, by its clock, as of one lane 0.

    `records` are those of an environment that replayed `windows` to the end. A request that the
    cool-down was too short to answer keeps its status and its NaN: look at `in_system` of the
    metrics, whose duration is the span of the trace.
    Raises ValueError where a lane has not run through the part that it counts.
    """
    lanes = len(windows.workloads)
    largest = int(records.lane.max(initial=0))
    check(largest < lanes, "records.lane", largest, f"the windows have {lanes} lanes")
    arrived = np.bincount(records.lane, minlength=lanes)
    first, end = windows.counted_request.T
    for lane in np.flatnonzero(arrived < end):
        rule = f"lane {lane} counts requests up to number {end[lane]}: it must run to its end"
        check(False, "len(records.lane)", arrived[lane].item(), rule)
    number = np.arange(len(records.lane)) - np.repeat(np.cumsum(arrived) - arrived, arrived)
    counted = (number >= first[records.lane]) & (number < end[records.lane])
    kept = RequestRecords(*(column[counted] for column in records))
    start_s = windows.start_s[kept.lane]
    # Every time in a record is an instant, so each moves by what its lane began late.
    moved = {
        field: getattr(kept, field) + start_s for field in kept._fields if field.endswith("_s")
    }
    return kept._replace(lane=np.zeros_like(kept.lane), **moved)
