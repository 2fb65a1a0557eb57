"""What rules share: which action sends a batch, and how choices become probabilities."""

import math
from collections.abc import Mapping, Sequence
from numbers import Integral

import numpy as np

from simulator.action import HEAD_OF_LINE, SHED, WAIT, action_table
from simulator.observation import Observation
from simulator.scenario import MixedBatches, Scenario

# Probabilities are whole multiples of 1 / GRID. Any partial sum of a row is then exact in float64,
# so the row sums to exactly 1 in whatever order it is added up (sum, cumsum, another library).
GRID = 2.0**52
MOST_REQUESTS = 1_000_000  # of a batch size: larger ones are slips of the pen
SUM_TOLERANCE = 1e-5  # what a row of float32 probabilities may miss 1 by


def checked_batch_size(field: str, value: object, scenario: Scenario) -> int:
    """`value` as an int; ValueError unless it is a whole number that the menu can serve."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError(f"{field} = {value!r}: must be a whole number of requests")
    if value < 1:
        raise ValueError(f"{field} = {value!r}: must be at least 1")
    if int(value) > MOST_REQUESTS:
        raise ValueError(f"{field} = {value!r}: must be at most {MOST_REQUESTS}")
    if value < scenario.batch_sizes[0]:
        raise ValueError(
            f"{field} = {value!r}: the menu has no such small size, "
            f"its smallest is {scenario.batch_sizes[0]}"
        )
    return int(value)


def sizes_by_class(
    field: str, batch_size: int | Mapping[str, int], scenario: Scenario
) -> list[int]:
    """One batch size for each class `[C]`, from a number for all or one by class name."""
    names = scenario.class_names
    if not isinstance(batch_size, Mapping):
        return [checked_batch_size(field, batch_size, scenario)] * len(names)
    if set(batch_size) != set(names):
        raise ValueError(
            f"{field} = {dict(batch_size)!r}: needs one size for each of {list(names)}"
        )
    return [checked_batch_size(f"{field}.{name}", batch_size[name], scenario) for name in names]


def seconds_by_class(
    field: str, value: float | Mapping[str, float], scenario: Scenario, above: bool = False
) -> np.ndarray:
    """A time for each class `[C]` s, from a number for all or one by class name."""
    names = scenario.class_names
    if not isinstance(value, Mapping):
        value = dict.fromkeys(names, checked_seconds(field, value, above))
    if set(value) != set(names):
        raise ValueError(f"{field} = {dict(value)!r}: needs one time for each of {list(names)}")
    return np.array([checked_seconds(f"{field}.{name}", value[name], above) for name in names])


def checked_seconds(field: str, value: object, above: bool = False) -> float:
    """`value` as a float; ValueError unless it is a finite time, at least 0 or `above` 0."""
    holds = isinstance(value, int | float) and not isinstance(value, bool)
    holds = holds and (value > 0.0 if above else value >= 0.0) and value < math.inf  # type: ignore
    if not holds:
        rule = "above 0" if above else "at least 0"
        raise ValueError(f"{field} = {value!r}: must be a finite number of seconds, {rule}")
    return float(value)  # type: ignore[arg-type]


def batch_latency_s(scenario: Scenario) -> np.ndarray:
    """Expected batch latency `[K, C, M + 1]` s of 0 .. M requests of size 1, 0 for none.

    M is the largest `max_batch_size`. By the line or the latency table, padding included; what a
    replica cannot serve, for its maximum or its classes, takes infinitely long.
    """
    parameters = scenario.parameters()
    most = int(parameters.max_batch_size.max())
    latency_s = np.full((*parameters.alpha_s.shape, most + 1), np.inf)
    for replica, request_class in np.ndindex(parameters.alpha_s.shape):
        if not parameters.serves[replica, request_class]:
            continue
        size = parameters.padded_size[replica, : parameters.max_batch_size[replica] + 1]
        alpha_s = parameters.alpha_s[replica, request_class]
        took_s = alpha_s + parameters.beta_s[replica, request_class] * size
        points = parameters.table_count[replica, request_class]
        if points:
            took_s = _from_table(
                parameters.table_size[replica, request_class, :points],
                parameters.table_latency_s[replica, request_class, :points],
                size.astype(float),
            )
        latency_s[replica, request_class, : len(size)] = took_s
    latency_s[:, :, 0] = 0.0
    return latency_s


def _from_table(known: np.ndarray, known_s: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Latencies between the points of a table, and along its last segment beyond it."""
    took_s = np.interp(size, known, known_s)
    if len(known) > 1:
        slope = max(0.0, (known_s[-1] - known_s[-2]) / (known[-1] - known[-2]))
        took_s = took_s + slope * np.maximum(size - known[-1], 0.0)
    return np.asarray(took_s)


def action_batch_size(menu: Sequence[int], waiting: int, limit: int) -> int:
    """The menu size of the action that sends min(waiting, limit) requests, or as near as it can.

    The smallest size that covers them without passing `limit` (the engine clips it to the queue);
    where there is none, the largest size up to `limit`. `menu` ascends from at most `limit`.
    """
    allowed = [size for size in menu if size <= limit]
    return next((size for size in allowed if size >= waiting), allowed[-1])


class BatchActions:
    """Which action sends a class to a replica, for every queue length: a table, not a search.

    `action [C, N + 1, K]` and the expected service time `expected_s [C, N + 1, K]` s of its batch
    of min(n, batch size), with n the requests that a batch of the class could hold, up to N, the
    largest limit. Nothing can be sent of an empty queue, nor to a replica that does not serve the
    class: WAIT, and an infinite time. `shed [C]` is the action that gives up the oldest request of
    the class, where `sheds`.
    """

    def __init__(self, scenario: Scenario, batch_size: Sequence[int]) -> None:
        """`batch_size [C]` is the rule's size for each class; a replica's maximum may lower it."""
        table, parameters = action_table(scenario), scenario.parameters()
        number = {
            key: action
            for action, key in enumerate(
                zip(
                    table.replica.tolist(),
                    table.request_class.tolist(),
                    table.batch_size.tolist(),
                    strict=True,
                )
            )
        }
        named = HEAD_OF_LINE not in table.request_class[WAIT + 1 :]
        self.sheds = scenario.may_shed
        shedding = np.flatnonzero(table.batch_size == SHED)
        self.shed = np.broadcast_to(shedding, len(batch_size)) if self.sheds else None
        self._behind = scenario.replica_backlog > 0  # batches may be sent to busy replicas
        self._mixed = scenario.mixed != MixedBatches.NEVER
        self._serves = None if parameters.serves.all() else parameters.serves  # [K, C]
        limit = np.minimum(np.array(batch_size)[:, None], parameters.max_batch_size)  # [C, K]
        self.longest = int(limit.max())
        latency_s = batch_latency_s(scenario)
        shape = (len(batch_size), self.longest + 1, len(scenario.replicas))
        self.action = np.full(shape, WAIT, np.int64)
        self.expected_s = np.full(shape, np.inf)
        for request_class, waiting, replica in np.ndindex(shape):
            if waiting == 0 or not parameters.serves[replica, request_class]:
                continue
            size = action_batch_size(
                scenario.batch_sizes, waiting, int(limit[request_class, replica])
            )
            slot = request_class if named else HEAD_OF_LINE
            self.action[request_class, waiting, replica] = number[replica, slot, size]
            self.expected_s[request_class, waiting, replica] = latency_s[
                replica, request_class, min(waiting, size)
            ]

    def waiting(self, observation: Observation) -> np.ndarray:
        """Requests `[B, C]` that a batch of the class could hold, sent now.

        Those of the class, or of all classes where batches mix them. 0 where none of the class
        waits, or no replica that serves the class can take a batch.
        """
        waiting = observation.queue_length
        if self._mixed:
            waiting = np.where(waiting > 0, waiting.sum(axis=1, keepdims=True), 0)
        if self._serves is not None:
            waiting = np.where((observation.can_take > 0) @ self._serves, waiting, 0)
        return waiting

    def send(
        self, observation: Observation, request_class: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """For each lane's class `[B]`: the action, and when it is expected to be done, by replica.

        Both `[B, K]`, the latter in s from now: of batches behind the one in service nothing is
        seen. A class of -1 (none waits) reads the last class, whose queue is empty as well: WAIT.
        """
        lane = np.arange(len(request_class))
        waiting = np.minimum(self.waiting(observation)[lane, request_class], self.longest)
        return self.batch_of(observation, request_class, waiting.astype(np.int64, copy=False))

    def batch_of(
        self, observation: Observation, request_class: np.ndarray, count: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `send`, where `count [B]` requests wait, at most `longest`."""
        expected_s = self.expected_s[request_class, count]
        if self._behind:
            expected_s = expected_s + observation.remaining_service_s
        return self.action[request_class, count], expected_s


def head_of_line(observation: Observation) -> np.ndarray:
    """The class `[B]` of the request that has waited longest, -1 where none waits."""
    return observation.head_class.astype(np.int64, copy=False)


def to_least(action: np.ndarray, cost: np.ndarray, can_take: np.ndarray) -> np.ndarray:
    """The action `[B]` of the replica with the least `cost` among those that can take a batch.

    `action`, `cost` and `can_take` are `[B, K]`, `cost` finite wherever `action` is not WAIT. Ties
    go to the lowest number; WAIT where no replica can take a batch of the class.
    """
    lane = np.arange(len(action))
    takes = (can_take > 0) & (action != WAIT)
    replica = np.where(takes, cost, np.inf).argmin(axis=1)
    return np.where(takes[lane, replica], action[lane, replica], WAIT)


def one_hot(action: np.ndarray, action_mask: np.ndarray) -> np.ndarray:
    """Probability 1 for each lane's `action [B]`, as `[B, A]`; WAIT in lanes that stand still.

    RuntimeError if the mask forbids an action.
    """
    lane = np.arange(len(action))
    allowed = action_mask[lane, action]
    if not allowed.all():
        action = np.where(_stands_still(allowed, action_mask), WAIT, action)
    probabilities = np.zeros(action_mask.shape)
    probabilities[lane, action] = 1.0
    return probabilities


def equal_shares(action: np.ndarray, candidate: np.ndarray, action_mask: np.ndarray) -> np.ndarray:
    """Equal probabilities `[B, A]` for the actions of the candidate replicas, both `[B, K]`.

    WAIT has probability 1 without a candidate and in lanes that stand still. RuntimeError if the
    mask forbids a candidate's action.
    """
    lane = np.arange(len(action))
    allowed = action_mask[lane[:, None], action] | ~candidate
    if not allowed.all():
        candidate = candidate & ~_stands_still(allowed.all(axis=1), action_mask)[:, None]
    waits = candidate.sum(axis=1) == 0
    share = uniform(np.column_stack([candidate, waits]))
    probabilities = np.zeros(action_mask.shape)
    probabilities[lane[:, None], action] = share[:, :-1]
    probabilities[:, WAIT] = share[:, -1]  # last, for it is also the action of an empty queue
    return probabilities


def _stands_still(allowed: np.ndarray, action_mask: np.ndarray) -> np.ndarray:
    """True `[B]` where WAIT alone is legal; RuntimeError where a running lane is not `allowed [B]`.

    A lane whose episode has ended may show waiting requests and idle replicas, and accepts nothing.
    """
    still: np.ndarray = action_mask[:, WAIT + 1 :].sum(axis=1) == 0
    sound = allowed | still
    if not sound.all():
        raise RuntimeError(
            f"lane {np.argmin(sound)}: the mask forbids the action that the rule takes; "
            "the observation and the mask contradict each other"
        )
    return still


def uniform(chosen: np.ndarray) -> np.ndarray:
    """Equal probabilities for the True of each row of bools `[B, A]`; RuntimeError if one has none.

    Cut to the grid like `exact_rows`, but cheaper; the first of the row takes what is missing.
    """
    count = chosen.sum(axis=1)
    if not count.all():
        raise RuntimeError(f"lane {np.argmin(count)}: no action is legal, not even WAIT")
    share = np.floor(GRID / count) / GRID
    probabilities: np.ndarray = chosen * share[:, None]
    probabilities[np.arange(len(chosen)), chosen.argmax(axis=1)] += 1.0 - count * share
    return probabilities


def exact_rows(probabilities: np.ndarray) -> np.ndarray:
    """The rows of `[B, A]`, moved by rounding only, so that each sums to exactly 1 in float64.

    Each probability is cut to a multiple of 1 / GRID; the largest of its row takes what is missing.
    RuntimeError where a row was not a distribution to begin with.
    """
    parts: np.ndarray = np.multiply(probabilities, GRID, dtype=np.float64)
    np.floor(parts, out=parts)
    missing = GRID - parts @ np.ones(parts.shape[1])  # whole numbers: exact in any order
    sound = np.abs(missing) <= SUM_TOLERANCE * GRID  # False for NaN
    if not sound.all():
        lane = np.argmin(sound)
        raise RuntimeError(
            f"lane {lane}: probabilities sum to {1.0 - missing[lane] / GRID}, not to 1"
        )
    parts[np.arange(len(parts)), parts.argmax(axis=1)] += missing
    parts /= GRID
    return parts
