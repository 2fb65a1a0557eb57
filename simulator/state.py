"""The state of all lanes: arrays and nothing else, the lane first, future draws included."""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from simulator.by_reference import by_reference


class EventKind(IntEnum):
    """What happened. The subject is a request, a replica, or the action for `SET_POINTS`."""

    REQUEST_ARRIVAL = 0  # request; it joins a queue or is on its way there
    REQUEST_SHED = 1  # request
    BATCH_DISPATCH = 2  # replica; the batch starts at once unless BATCH_START follows
    BATCH_COMPLETION = 3  # replica
    BATCH_START = 4  # replica; of a batch that was in transit, or behind another
    REQUEST_JOIN = 5  # request; reaches its replica after a delay
    REQUEST_ADMITTED = 6  # request; continuous batching, as the next three
    FIRST_TOKEN = 7
    REQUEST_PREEMPTED = 8
    REQUEST_COMPLETION = 9
    REPLICA_START = 10  # replica; the cold start begins
    REPLICA_READY = 11
    REPLICA_OFF = 12
    REPLICA_DOWN = 13
    REPLICA_REPAIRED = 14
    REQUEST_REQUEUED = 15  # request; lost by a fault, back at the front of the queue
    SET_POINTS = 16  # action


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


class ReplicaMode(IntEnum):
    """What a replica is. UP shows as IDLE or BUSY in an observation."""

    OFF = 0
    STARTING = 1
    UP = 2
    DOWN = 4


class Timer(IntEnum):
    """What happens in a lane by the clock alone; at equal times in this order."""

    BATCH = 0  # a batch timeout of the central queue, under `tune`
    VIEW = 1
    CONTROL = 2
    TICK = 3


class ReplicaTimer(IntEnum):
    """What happens at a replica by itself; at equal times in this order."""

    COMPLETION = 0  # of its batch, or of its iterations
    FAULT = 1  # or the repair
    READY = 2
    START = 3  # a batch arrives that was in transit
    JOIN = 4  # a request arrives that was in transit
    TIMEOUT = 5  # a batch timeout of its own queue


SIGNALS = 6  # of a replica, beside its queue by class; in the order of `engine.ReplicaSignals`
COLD_STARTS = 32  # drawn for each replica; the next start takes the first again


@by_reference
class ClusterState(NamedTuple):
    """B lanes, C request classes, K replicas, R requests of an episode, Q queues (1 or K).

    N places of a queue: its capacity and room for what is requeued. S batch slots of a replica: 1
    and its backlog. M requests of the largest batch, or sequences of continuous batching.
    Where a feature is off, its arrays have length 0 in the last axis.
    """

    # The future, drawn before the episode starts
    arrival_s: np.ndarray  # [B, R] s, ascending, infinite after the last request
    request_class: np.ndarray  # [B, R]
    size: np.ndarray  # [B, R] 1.0 where the class has a fixed cost
    prompt_tokens: np.ndarray  # [B, R]
    output_tokens: np.ndarray  # [B, R]
    noise_z: np.ndarray  # [B, R] standard normal; a batch takes that of its oldest request
    delay_s: np.ndarray  # [B, R] s; so does a batch in transit
    cold_start_s: np.ndarray  # [B, K, COLD_STARTS] s
    fault_s: np.ndarray  # [B, K, F] s, start and end in turn, infinite after the last
    request_count: np.ndarray  # [B]
    horizon_s: np.ndarray  # [B] s, instant that truncates the episode
    drains: np.ndarray  # [B] bool, True where the episode ends when its trace is drained
    # The lane
    clock_s: np.ndarray  # [B] s
    ending: np.ndarray  # [B] Ending
    next_request: np.ndarray  # [B] requests that have arrived so far
    holds: np.ndarray  # [B] bool, True from an action until the next decision may be due
    door_request: np.ndarray  # [B] request to be routed now, -1 without one
    tunes: np.ndarray  # [B] bool, True where a `tune` decision is due
    timer_s: np.ndarray  # [B, 4] s, by Timer; infinite where nothing is pending
    next_timer_s: np.ndarray  # [B] s, the least of these
    timer_count: np.ndarray  # [B, 4] times that the timer has gone off
    # Set-points
    set_batch_size: np.ndarray  # [B]
    set_timeout_s: np.ndarray  # [B] s
    set_num_seqs: np.ndarray  # [B]
    replicas_on: np.ndarray  # [B] replicas 0 .. n - 1 are wanted
    replicas_paid: np.ndarray  # [B] replicas that are not OFF
    fewer_since_s: np.ndarray  # [B] s since when the autoscaler wants fewer, infinite if not
    # Queues: one ring buffer for each queue and class
    queue_request: np.ndarray  # [B, Q, C, N] numbers of the waiting requests
    queue_start: np.ndarray  # [B, Q, C] place of the oldest
    queue_length: np.ndarray  # [B, Q, C] in transit included
    queue_transit: np.ndarray  # [B, Q, C] on their way to the replica
    join_s: np.ndarray  # [B, R] s, when a routed request reaches its replica
    number_in_system: np.ndarray  # [B, C] waiting and in service
    # Replicas
    replica_mode: np.ndarray  # [B, K] ReplicaMode
    replica_timer_s: np.ndarray  # [B, K, 6] s, by ReplicaTimer
    replica_event_s: np.ndarray  # [B, K] s, the least of these
    starts: np.ndarray  # [B, K] cold starts so far
    faults: np.ndarray  # [B, K] boundaries of faults that have passed
    last_join_s: np.ndarray  # [B, K] s, latest arrival of anything sent to the replica
    serving: np.ndarray  # [B, K] bool, True where the first slot is in service or sequences run
    asks: np.ndarray  # [B, K] bool, True where a rule of the engine may now start something
    # Batches of each replica: a ring of slots, the first in service or next to be
    batch_request: np.ndarray  # [B, K, S, M] numbers of the requests
    batch_size: np.ndarray  # [B, K, S]
    batch_class: np.ndarray  # [B, K, S] of the oldest request
    batch_join_s: np.ndarray  # [B, K, S] s, when the batch reaches the replica
    batch_service_s: np.ndarray  # [B, K, S] s
    batch_expected_s: np.ndarray  # [B, K, S] s, without noise
    slot_start: np.ndarray  # [B, K]
    slot_count: np.ndarray  # [B, K] batches at or on the way to the replica
    expected_departure_s: np.ndarray  # [B, K] s, without noise
    # Sequences of each replica, in the order of admission; the decoding ones come first
    sequence_request: np.ndarray  # [B, K, M]
    sequence_finish: np.ndarray  # [B, K, M] iteration that gives the last token
    sequence_prefill: np.ndarray  # [B, K, M] tokens that are still to be prefilled
    running: np.ndarray  # [B, K] sequences
    decoding: np.ndarray  # [B, K] of these
    kv_used: np.ndarray  # [B, K] tokens
    context: np.ndarray  # [B, K] tokens of the decoding sequences
    iteration: np.ndarray  # [B, K] iterations that gave tokens, at the anchor
    anchor_s: np.ndarray  # [B, K] s, when the present run of iterations began
    planned: np.ndarray  # [B, K] iterations until the next boundary that matters, 0 where idle
    generated: np.ndarray  # [B, R] tokens that a preempted request keeps
    # Signals of the observation
    last_dispatch_s: np.ndarray  # [B] s
    last_replica: np.ndarray  # [B] -1 before the first dispatch
    arrived: np.ndarray  # [B, C] requests that have arrived so far
    arrival_rate_rps: np.ndarray  # [B, C] as of rate_at_s
    rate_at_s: np.ndarray  # [B, C] s
    utilization: np.ndarray  # [B, K] as of utilization_at_s
    utilization_at_s: np.ndarray  # [B, K] s
    recent_response_s: np.ndarray  # [B, RESPONSE_WINDOW] s, a ring
    answered: np.ndarray  # [B] requests answered so far
    batches: np.ndarray  # [B, K] batches completed so far; of the last of them:
    last_batch_class: np.ndarray  # [B, K] class of its oldest request, -1 before the first
    last_batch_size: np.ndarray  # [B, K] requests
    last_batch_s: np.ndarray  # [B, K] s of service
    last_view: np.ndarray  # [B, K, SIGNALS + C] signals as of the last refresh
    last_view_wait_s: np.ndarray  # [B, C] s, oldest wait as of then
    # Reward terms since the last decision, in the order of `reward.reward_term_names`
    reward_terms: np.ndarray  # [B, 5 C + 3]
    # Records of each request
    request_status: np.ndarray  # [B, R] RequestStatus
    request_dispatch_s: np.ndarray  # [B, R] s, NaN before
    request_departure_s: np.ndarray  # [B, R] s, NaN before
    request_first_token_s: np.ndarray  # [B, R] s, NaN before; continuous batching
    request_replica: np.ndarray  # [B, R] -1 before
    # Log of events
    event_clock_s: np.ndarray  # [B, E] s
    event_kind: np.ndarray  # [B, E] EventKind
    event_subject: np.ndarray  # [B, E] request or replica
    event_count: np.ndarray  # [B] events so far, if there is a log; above E it is full


class Recording(NamedTuple):
    """What a state keeps beyond what the simulation needs."""

    requests: bool = False
    events: int = 0  # places in the log of events of each lane


RECORD_NOTHING = Recording()
