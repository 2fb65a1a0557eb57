"""The decisions behind a log of batches, with the state that each was taken in."""

import math
from typing import NamedTuple

import numpy as np

from simulator.checks import check, checked_number

_ROUNDING_S = 1e-9
_MOST_TICKS = 1000  # in one pause
WAITED = -1  # in place of a replica and a class


class DispatchLog(NamedTuple):
    """Requests that were not shed, and their batches in order of dispatch. One class a batch.

    Within a class requests are served in the order of arrival.
    """

    arrival_s: np.ndarray  # [n] s, ascending
    request_class: np.ndarray  # [n] in 0 .. classes - 1
    replica: np.ndarray  # [m] in 0 .. replicas - 1
    batch_class: np.ndarray  # [m]
    batch_size: np.ndarray  # [m] requests
    dispatch_s: np.ndarray  # [m] s, ascending
    departure_s: np.ndarray  # [m] s
    classes: int
    replicas: int


class DispatchDecisions(NamedTuple):
    """Decisions to send a batch or to wait. D decisions, C classes, K replicas."""

    clock_s: np.ndarray  # [D] s
    queue_length: np.ndarray  # [D, C]
    oldest_wait_s: np.ndarray  # [D, C] s, 0 where none waits
    idle: np.ndarray  # [D, K] bool
    in_service: np.ndarray  # [D, K] requests
    last_replica: np.ndarray  # [D] -1 before the first dispatch
    replica: np.ndarray  # [D] that the batch went to, WAITED
    request_class: np.ndarray  # [D] of the batch, WAITED
    batch_size: np.ndarray  # [D] 0 where it waited

    def chosen(self, rows: np.ndarray | slice) -> "DispatchDecisions":
        """Some of the decisions."""
        return DispatchDecisions(*(column[rows] for column in self))

    @property
    def length(self) -> int:
        """The number of decisions D."""
        return len(self.clock_s)


def check_dispatch_log(log: DispatchLog) -> None:
    """Raises ValueError where the log could not have happened, naming the first such value."""
    for field in ("arrival_s", "dispatch_s"):
        values = getattr(log, field)
        check(len(values) > 0, f"len({field})", 0, "needs at least one")
        check(bool(np.isfinite(values).all()), field, "not finite", "must be finite")
        back = np.diff(values) < 0
        if back.any():
            place = int(np.argmax(back)) + 1
            check(False, f"{field}[{place}]", float(values[place]), "must be ascending")
    for field, most in (
        ("request_class", log.classes),
        ("batch_class", log.classes),
        ("replica", log.replicas),
    ):
        values = getattr(log, field)
        wrong = (values < 0) | (values >= most)
        if wrong.any():
            place = int(np.argmax(wrong))
            check(False, f"{field}[{place}]", int(values[place]), f"must be in 0..{most - 1}")
    early = log.departure_s < log.dispatch_s
    if early.any():
        place = int(np.argmax(early))
        value = float(log.departure_s[place])
        check(False, f"departure_s[{place}]", value, "must not be before dispatch_s")


def rebuilt_decisions(
    log: DispatchLog, slack_s: float = 0.002, tick_s: float = math.inf
) -> tuple[DispatchDecisions, int]:
    """The decisions that a log without decisions tells, and how many dispatches could not be.

    Each dispatch is one. After each arrival, departure and dispatch, where a request waits and a
    replica is idle, there was one to wait, unless a dispatch follows within `slack_s`, the time
    that a dispatcher takes to react; and one more every `tick_s` until the next event. A dispatch
    to a replica that seems busy, or of requests that have not arrived, contradicts the log: it is
    left out and counted.
    """
    check_dispatch_log(log)
    checked_number("slack_s", slack_s)
    check(tick_s > 0, "tick_s", tick_s, "must be above 0, or infinite")
    sent = state_at(log, log.dispatch_s, np.arange(len(log.dispatch_s)))._replace(
        replica=log.replica, request_class=log.batch_class, batch_size=log.batch_size
    )
    rows = np.arange(sent.length)
    sound = sent.idle[rows, log.replica]
    sound &= sent.queue_length[rows, log.batch_class] >= log.batch_size
    instant_s, made = _pauses(log, slack_s, tick_s)
    waited = state_at(log, instant_s, made)
    due = waited.idle.any(axis=1) & (waited.queue_length.sum(axis=1) > 0)
    parts = (sent.chosen(sound), waited.chosen(due))
    both = DispatchDecisions(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    return both.chosen(np.argsort(both.clock_s, kind="stable")), int((~sound).sum())


def _pauses(log: DispatchLog, slack_s: float, tick_s: float) -> tuple[np.ndarray, np.ndarray]:
    """Instants in s at which nothing was sent though something had happened; dispatches so far."""
    event_s = np.unique(np.concatenate([log.arrival_s, log.dispatch_s, log.departure_s]))
    event_s = event_s[event_s < log.dispatch_s[-1]]  # after the last one, nobody tells
    made: np.ndarray = np.searchsorted(log.dispatch_s, event_s + _ROUNDING_S, side="right")
    until_s = log.dispatch_s[np.minimum(made, len(log.dispatch_s) - 1)] - slack_s
    until_s = np.minimum(until_s, np.append(event_s[1:], np.inf))
    ticks = np.ceil((until_s - event_s) / tick_s - 1e-6) if math.isfinite(tick_s) else until_s > 0
    ticks = np.where(until_s > event_s, np.clip(ticks, 1, _MOST_TICKS), 0).astype(np.int64)
    number = np.arange(ticks.sum()) - np.repeat(np.cumsum(ticks) - ticks, ticks)
    late_s = number * tick_s if math.isfinite(tick_s) else np.zeros(len(number))
    return np.repeat(event_s, ticks) + late_s, np.repeat(made, ticks)


def recorded_decisions(
    log: DispatchLog,
    clock_s: np.ndarray,
    queue_length: np.ndarray,
    can_take: np.ndarray,
    batch: np.ndarray,
) -> DispatchDecisions:
    """The decisions that the log itself holds; how long requests had waited comes from arrivals.

    In their order: `clock_s [D]` s, `queue_length [D, C]`, `can_take [D, K]` bool, and `batch [D]`,
    the number of the batch that was sent, -1 to wait.
    """
    check_dispatch_log(log)
    sent = batch >= 0
    made: np.ndarray = np.cumsum(sent) - sent
    expected = np.arange(sent.sum())
    rule = "must number the dispatches of the log in order"
    check(np.array_equal(batch[sent], expected), "batch", batch[sent], rule)
    check(len(expected) <= len(log.dispatch_s), "batch", len(expected), rule)
    state = state_at(log, clock_s, made)
    rows = np.maximum(batch, 0)
    return state._replace(
        queue_length=np.asarray(queue_length),
        idle=np.asarray(can_take, bool),
        replica=np.where(sent, log.replica[rows], WAITED),
        request_class=np.where(sent, log.batch_class[rows], WAITED),
        batch_size=np.where(sent, log.batch_size[rows], 0),
    )


def state_at(log: DispatchLog, clock_s: np.ndarray, made: np.ndarray) -> DispatchDecisions:
    """The state at instants `[D]` s after the first `made [D]` dispatches; as if all waited."""
    count, seen_s = len(clock_s), clock_s + _ROUNDING_S
    queue_length = np.zeros((count, log.classes), np.int64)
    oldest_wait_s = np.zeros((count, log.classes))
    for request_class in range(log.classes):
        arrival_s = log.arrival_s[log.request_class == request_class]
        size = np.where(log.batch_class == request_class, log.batch_size, 0)
        left = np.concatenate([[0], np.cumsum(size)])[made]
        waiting = np.searchsorted(arrival_s, seen_s, side="right") - left
        queue_length[:, request_class] = waiting
        oldest_s = np.append(arrival_s, np.inf)[np.minimum(left, len(arrival_s))]
        wait_s = np.where(waiting > 0, clock_s - np.minimum(oldest_s, clock_s), 0.0)
        oldest_wait_s[:, request_class] = wait_s
    idle = np.ones((count, log.replicas), bool)
    in_service = np.zeros((count, log.replicas), np.int64)
    for replica in range(log.replicas):
        own = np.flatnonzero(log.replica == replica)
        latest_s = np.append(-np.inf, np.maximum.accumulate(log.departure_s[own]))
        last = np.searchsorted(own, made)  # of its batches, those among the first `made`
        idle[:, replica] = latest_s[last] <= seen_s
        size = np.append(0, log.batch_size[own])[last]
        in_service[:, replica] = np.where(idle[:, replica], 0, size)
    nobody = np.full(count, WAITED)
    return DispatchDecisions(
        clock_s,
        queue_length,
        oldest_wait_s,
        idle,
        in_service,
        np.append(WAITED, log.replica)[made],
        nobody,
        nobody,
        np.zeros(count, np.int64),
    )
