"""The state of all lanes: arrays and nothing else, the lane first, future draws included."""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from simulator.observation import RESPONSE_WINDOW
from simulator.parameters import Scenario


class EventKind(IntEnum):
    """What happened. The subject of an event is a request or, for batches, a replica."""

    REQUEST_ARRIVAL = 0
    REQUEST_SHED = 1
    BATCH_DISPATCH = 2
    BATCH_COMPLETION = 3


class Ending(IntEnum):
    """Whether an episode runs, was cut by its horizon, or ended because its trace is drained."""

    RUNNING = 0
    TRUNCATED = 1
    TERMINATED = 2


class RequestStatus(IntEnum):
    """Where a request is in its life."""

    EXPECTED = 0
    WAITING = 1
    IN_SERVICE = 2
    COMPLETED = 3
    SHED = 4


class ClusterState(NamedTuple):
    """B lanes, C request classes, K replicas, R requests of an episode, N queue places.

    Where a feature is off, its arrays have length 0 in the last axis: `noise_z` without noise, the
    `request_...` records and the `event_...` log when nobody asked for them.
    """

    # The future, drawn before the episode starts
    arrival_s: np.ndarray  # [B, R] s, ascending, infinite after the last request
    request_class: np.ndarray  # [B, R]
    size: np.ndarray  # [B, R] 1.0 where the class has a fixed cost
    noise_z: np.ndarray  # [B, R] standard normal; a batch takes that of its oldest request
    request_count: np.ndarray  # [B]
    horizon_s: np.ndarray  # [B] s, instant that truncates the episode
    drains: np.ndarray  # [B] bool, True where the episode ends when its trace is drained
    # The lane
    clock_s: np.ndarray  # [B] s
    ending: np.ndarray  # [B] Ending
    next_request: np.ndarray  # [B] requests that have arrived so far
    holds: np.ndarray  # [B] bool, True from an action until the next decision may be due
    tick: np.ndarray  # [B] ticks that have passed (decision epochs at ticks only)
    next_tick_s: np.ndarray  # [B] s, infinite where no tick is pending
    # Central queue: one ring buffer a class
    queue_request: np.ndarray  # [B, C, N] numbers of the waiting requests
    queue_start: np.ndarray  # [B, C] place of the oldest
    queue_length: np.ndarray  # [B, C]
    number_in_system: np.ndarray  # [B, C] waiting and in service
    # Replicas
    batch_request: np.ndarray  # [B, K, max batch size] numbers of the requests in service
    batch_size: np.ndarray  # [B, K] 0 where idle
    batch_class: np.ndarray  # [B, K]
    departure_s: np.ndarray  # [B, K] s, infinite where idle
    expected_departure_s: np.ndarray  # [B, K] s, without noise
    # Signals of the observation
    last_dispatch_s: np.ndarray  # [B] s
    last_replica: np.ndarray  # [B] -1 before the first dispatch
    arrival_rate_rps: np.ndarray  # [B, C] as of rate_at_s
    rate_at_s: np.ndarray  # [B, C] s
    utilization: np.ndarray  # [B, K] as of utilization_at_s
    utilization_at_s: np.ndarray  # [B, K] s
    recent_response_s: np.ndarray  # [B, RESPONSE_WINDOW] s, a ring
    answered: np.ndarray  # [B] requests answered so far
    # Reward terms since the last decision, in the order of `reward.reward_term_names`
    reward_terms: np.ndarray  # [B, 5 C + 2]
    # Records of each request
    request_status: np.ndarray  # [B, R] RequestStatus
    request_dispatch_s: np.ndarray  # [B, R] s, NaN before
    request_departure_s: np.ndarray  # [B, R] s, NaN before
    # Log of events
    event_clock_s: np.ndarray  # [B, E] s
    event_kind: np.ndarray  # [B, E] EventKind
    event_subject: np.ndarray  # [B, E] request or replica
    event_count: np.ndarray  # [B] events so far; more than E means that the log is full


class Recording(NamedTuple):
    """What a state keeps beyond what the simulation needs."""

    requests: bool = False
    events: int = 0  # places in the log of events of each lane


RECORD_NOTHING = Recording()


def empty_state(
    scenario: Scenario, lanes: int, requests: int, recording: Recording = RECORD_NOTHING
) -> ClusterState:
    """Arrays of a state with room for `requests` requests in each lane, nothing drawn yet."""
    classes, replicas = len(scenario.request_classes), len(scenario.replicas)
    noisy = any(cv > 0 for replica in scenario.replicas for cv in replica.noise_cv)
    recorded = requests if recording.requests else 0
    largest_batch = max(replica.max_batch_size for replica in scenario.replicas)

    def zeros(*shape: int, dtype: type = np.float64) -> np.ndarray:
        return np.zeros((lanes, *shape), dtype)

    return ClusterState(
        arrival_s=np.full((lanes, requests), np.inf),
        request_class=zeros(requests, dtype=np.int16),
        size=zeros(requests),
        noise_z=zeros(requests if noisy else 0),
        request_count=zeros(dtype=np.int64),
        horizon_s=zeros(),
        drains=zeros(dtype=np.bool_),
        clock_s=zeros(),
        ending=zeros(dtype=np.int8),
        next_request=zeros(dtype=np.int64),
        holds=zeros(dtype=np.bool_),
        tick=zeros(dtype=np.int64),
        next_tick_s=zeros(),
        queue_request=zeros(classes, scenario.queue_capacity, dtype=np.int32),
        queue_start=zeros(classes, dtype=np.int64),
        queue_length=zeros(classes, dtype=np.int64),
        number_in_system=zeros(classes, dtype=np.int64),
        batch_request=zeros(replicas, largest_batch, dtype=np.int32),
        batch_size=zeros(replicas, dtype=np.int64),
        batch_class=zeros(replicas, dtype=np.int64),
        departure_s=zeros(replicas),
        expected_departure_s=zeros(replicas),
        last_dispatch_s=zeros(),
        last_replica=zeros(dtype=np.int64),
        arrival_rate_rps=zeros(classes),
        rate_at_s=zeros(classes),
        utilization=zeros(replicas),
        utilization_at_s=zeros(replicas),
        recent_response_s=zeros(RESPONSE_WINDOW),
        answered=zeros(dtype=np.int64),
        reward_terms=zeros(5 * classes + 2),
        request_status=zeros(recorded, dtype=np.int8),
        request_dispatch_s=zeros(recorded),
        request_departure_s=zeros(recorded),
        event_clock_s=zeros(recording.events),
        event_kind=zeros(recording.events, dtype=np.int8),
        event_subject=zeros(recording.events, dtype=np.int32),
        event_count=zeros(dtype=np.int64),
    )
