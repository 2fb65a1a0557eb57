"""What a policy may see, in natural units, and how it becomes the feature vector of a network."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from simulator.by_reference import by_reference
from simulator.scenario import DecisionKind, QueuePlace, Scenario

RESPONSE_WINDOW = 32  # answered requests that `response_p95_s` looks back on; a power of two


class ReplicaState(IntEnum):
    """What the dispatcher sees of a replica."""

    OFF = 0
    STARTING = 1
    IDLE = 2
    BUSY = 3
    DOWN = 4


@by_reference
class Observation(NamedTuple):
    """What the dispatcher knows at a decision, lane first. B lanes, C classes, K replicas.

    The arrays that an environment hands out are overwritten by its next step: copy what you keep.
    """

    queue_length: np.ndarray  # [B, C] requests waiting
    oldest_wait_s: np.ndarray  # [B, C] s that the oldest of the class has waited, 0 if none waits
    head_class: np.ndarray  # [B] class of the request that has waited longest, or that is to be
    # routed now; -1 if there is none
    head_size: np.ndarray  # [B] its size, or its prompt tokens; 0 if there is none
    since_dispatch_s: np.ndarray  # [B] s since the last dispatch, or since the start
    last_replica: np.ndarray  # [B] replica of the last dispatch, -1 before the first
    can_take: np.ndarray  # [B, K] 1.0 where the replica can take a batch, or the request, now
    remaining_service_s: np.ndarray  # [B, K] expected s to completion, 0 where idle or overdue
    in_service: np.ndarray  # [B, K] requests of the batch in service, or sequences running
    arrival_rate_rps: np.ndarray  # [B, C] exponentially weighted over rate_window_s
    response_p95_s: np.ndarray  # [B] nearest-rank P95 of the last RESPONSE_WINDOW answered; 0 first
    utilization: np.ndarray  # [B, K] share of time busy, exponentially weighted over rate_window_s
    replica_state: np.ndarray  # [B, K] ReplicaState
    in_flight: np.ndarray  # [B, K] requests sent to the replica and unanswered
    kv_fill: np.ndarray  # [B, K] share of the KV memory in use, 0 unless continuous
    replica_queue_length: np.ndarray  # [B, K, C] requests waiting in the replica's own queue
    set_points: np.ndarray  # [B, 4] max_batch_size, batch_timeout_s, max_num_seqs, replicas on
    clock_s: np.ndarray  # [B] s since the episode began
    arrived: np.ndarray  # [B, C] requests that have arrived so far
    oldest_waits_s: np.ndarray  # [B, C, M] s that each of the first M of the class has waited, the
    # oldest first, 0 where there are fewer; M = view.oldest_requests
    batches: np.ndarray  # [B, K] batches completed so far; of the last one of them, the next three
    last_batch_class: np.ndarray  # [B, K] class of its oldest request, -1 before the first
    last_batch_size: np.ndarray  # [B, K] requests
    last_batch_s: np.ndarray  # [B, K] s that it took, 0 before the first


def empty_observation(scenario: Scenario, lanes: int) -> Observation:
    """Arrays of lanes in which nothing has happened and no replica can take anything."""
    classes, replicas = len(scenario.request_classes), len(scenario.replicas)
    return Observation(
        queue_length=np.zeros((lanes, classes)),
        oldest_wait_s=np.zeros((lanes, classes)),
        head_class=np.full(lanes, -1, np.int64),
        head_size=np.zeros(lanes),
        since_dispatch_s=np.zeros(lanes),
        last_replica=np.full(lanes, -1, np.int64),
        can_take=np.zeros((lanes, replicas)),
        remaining_service_s=np.zeros((lanes, replicas)),
        in_service=np.zeros((lanes, replicas)),
        arrival_rate_rps=np.zeros((lanes, classes)),
        response_p95_s=np.zeros(lanes),
        utilization=np.zeros((lanes, replicas)),
        replica_state=np.zeros((lanes, replicas)),
        in_flight=np.zeros((lanes, replicas)),
        kv_fill=np.zeros((lanes, replicas)),
        replica_queue_length=np.zeros((lanes, replicas, classes)),
        set_points=np.zeros((lanes, 4)),
        clock_s=np.zeros(lanes),
        arrived=np.zeros((lanes, classes)),
        oldest_waits_s=np.zeros((lanes, classes, scenario.view.oldest_requests)),
        batches=np.zeros((lanes, replicas)),
        last_batch_class=np.full((lanes, replicas), -1, np.int64),
        last_batch_size=np.zeros((lanes, replicas)),
        last_batch_s=np.zeros((lanes, replicas)),
    )


@dataclass(frozen=True)
class Feature:
    """One number of the feature vector: its name, its unit and the range it can take."""

    name: str
    unit: str
    low: float
    high: float  # may be infinite


@dataclass(frozen=True)
class Encoder:
    """Turns an `Observation` into features `[B, F]` float32, in the order of `features`."""

    name: str
    features: tuple[Feature, ...]
    encode: Callable[[Observation], np.ndarray]


def _one_hot(number: np.ndarray, size: int) -> np.ndarray:
    return (number[:, None] == np.arange(size)).astype(np.float32)


Block = tuple[tuple[Feature, ...], Callable[[Observation], np.ndarray]]  # encoded as [B, n]


def full_encoder(scenario: Scenario) -> Encoder:
    """Every field of the observation that can change in the scenario, in natural units.

    Numbers of classes, replicas and states are one-hot.
    """
    names, replicas = scenario.class_names, range(len(scenario.replicas))
    queues = 1 if scenario.queues == QueuePlace.CENTRAL else len(scenario.replicas)
    # What faults or preemption put back may exceed the capacity.
    capacity = math.inf if scenario.may_requeue else float(scenario.queue_capacity * queues)
    blocks: list[Block] = [
        (_each("queue_length", names, "requests", capacity), lambda o: o.queue_length),
        (_each("oldest_wait_s", names, "s"), lambda o: o.oldest_wait_s),
        (_each("head_class", names, "1", 1), lambda o: _one_hot(o.head_class, len(names))),
        ((Feature("since_dispatch_s", "s", 0, math.inf),), lambda o: o.since_dispatch_s[:, None]),
        (
            _each("last_replica", replicas, "1", 1),
            lambda o: _one_hot(o.last_replica, len(replicas)),
        ),
        (_each("can_take", replicas, "1", 1), lambda o: o.can_take),
        (_each("remaining_service_s", replicas, "s"), lambda o: o.remaining_service_s),
        (
            tuple(
                Feature(f"in_service.{k}", "requests", 0, _most_in_service(scenario, k))
                for k in replicas
            ),
            lambda o: o.in_service,
        ),
        (_each("arrival_rate_rps", names, "requests/s"), lambda o: o.arrival_rate_rps),
        ((Feature("response_p95_s", "s", 0, math.inf),), lambda o: o.response_p95_s[:, None]),
        (_each("utilization", replicas, "1", 1), lambda o: o.utilization),
        *_blocks_of_options(scenario),
    ]

    def encode(observation: Observation) -> np.ndarray:
        parts = [read(observation) for _, read in blocks]
        return np.concatenate(parts, axis=1, dtype=np.float32)

    return Encoder("full", tuple(f for features, _ in blocks for f in features), encode)


def _each(
    field: str, numbers: Iterable[object], unit: str, high: float = math.inf
) -> tuple[Feature, ...]:
    return tuple(Feature(f"{field}.{number}", unit, 0, high) for number in numbers)


def _most_in_service(scenario: Scenario, replica: int) -> float:
    tokens = scenario.replicas[replica].tokens
    return float(tokens.max_num_seqs if tokens else scenario.replicas[replica].max_batch_size)


def _blocks_of_options(scenario: Scenario) -> list[Block]:
    """Features that only some scenarios have."""
    names, replicas = scenario.class_names, range(len(scenario.replicas))
    with_queues = scenario.queues == QueuePlace.REPLICA
    states = [f"{k}.{state.name.lower()}" for k in replicas for state in ReplicaState]
    waiting = [f"{k}.{name}" for k in replicas for name in names]
    options: list[tuple[bool, Block]] = [
        (
            with_queues,
            ((Feature("head_size", "tokens or 1", 0, math.inf),), lambda o: o.head_size[:, None]),
        ),
        (
            scenario.may_start_replicas or scenario.has_faults,
            (
                _each("replica_state", states, "1", 1),
                lambda o: _one_hot(o.replica_state.reshape(-1), len(ReplicaState)).reshape(
                    len(o.replica_state), -1
                ),
            ),
        ),
        (
            with_queues or scenario.replica_backlog > 0 or scenario.view.refresh_s > 0,
            (_each("in_flight", replicas, "requests"), lambda o: o.in_flight),
        ),
        (scenario.continuous, (_each("kv_fill", replicas, "1", 1), lambda o: o.kv_fill)),
        (
            with_queues,
            (
                _each("replica_queue_length", waiting, "requests"),
                lambda o: o.replica_queue_length.reshape(len(o.replica_queue_length), -1),
            ),
        ),
        (
            scenario.decision == DecisionKind.TUNE,
            (_each("set_point", _SET_POINTS, "natural"), lambda o: o.set_points),
        ),
    ]
    return [block for present, block in options if present]


_SET_POINTS = ("max_batch_size", "batch_timeout_s", "max_num_seqs", "replicas_on")


def paper_encoder(scenario: Scenario, window_s: float = 1.0) -> Encoder:
    """The paper's state (section 4.1): queue length over capacity, time since the last batch over
    `window_s` (clipped to 1), class at the head of the line one-hot, busy flags; padded with zeros
    to the paper's 8 numbers where there are fewer (D13, D21, D22)."""
    names, replicas = scenario.class_names, range(len(scenario.replicas))
    features = [
        Feature("queue_fill", "1", 0, 1),
        Feature("since_dispatch_share", "1", 0, 1),
        *(Feature(f"head_class.{c}", "1", 0, 1) for c in names),
        *(Feature(f"busy.{k}", "1", 0, 1) for k in replicas),
    ]
    padding = max(0, 8 - len(features))
    features += [Feature(f"padding.{i}", "1", 0, 0) for i in range(padding)]

    def encode(observation: Observation) -> np.ndarray:
        lanes = len(observation.head_class)
        return np.concatenate(
            [
                observation.queue_length.sum(1, keepdims=True) / scenario.queue_capacity,
                np.minimum(observation.since_dispatch_s[:, None] / window_s, 1.0),
                _one_hot(observation.head_class, len(names)),
                1.0 - observation.can_take,
                np.zeros((lanes, padding)),
            ],
            axis=1,
            dtype=np.float32,
        )

    return Encoder("paper", tuple(features), encode)


ENCODERS: dict[str, Callable[[Scenario], Encoder]] = {"full": full_encoder, "paper": paper_encoder}
