"""Whole-batch service: all requests of a batch start and depart together."""

import math

from simulator import fifo
from simulator.bookkeeping import (
    begins_serving,
    ends_serving,
    log_event,
    request_is_answered,
    reschedule,
)
from simulator.jit import int64, kernel, rare_kernel
from simulator.parameters import Parameters
from simulator.service.batch_latency import expected_latency_s, noise_factor, special_batch_is_taken
from simulator.state import ClusterState, EventKind, ReplicaTimer, RequestStatus

_DISPATCH, _COMPLETION = int64(EventKind.BATCH_DISPATCH), int64(EventKind.BATCH_COMPLETION)
_START = int64(EventKind.BATCH_START)
_ENDS, _JOINS = int64(ReplicaTimer.COMPLETION), int64(ReplicaTimer.START)
_IN_SERVICE = int64(RequestStatus.IN_SERVICE)


@rare_kernel
def batch_is_dispatched(
    parameters: Parameters,
    state: ClusterState,
    lane: int,
    replica: int,
    request_class: int,
    limit: int,
) -> None:
    """The oldest `limit` requests of the class, or all if fewer are ready, go to the replica.

    Mixed batches take the oldest of all classes. The batch starts at once, unless it is in transit
    or another is before it.
    """
    clock_s = state.clock_s[lane]
    slot = state.slot_start[lane, replica] + state.slot_count[lane, replica]
    if slot >= state.batch_size.shape[2]:
        slot -= state.batch_size.shape[2]
    if parameters.plain:
        expected_s = _batch_is_taken(parameters, state, lane, replica, slot, request_class, limit)
    else:
        expected_s = special_batch_is_taken(
            parameters, state, lane, replica, slot, request_class, limit
        )
    # The noise belongs to the oldest request, not to the n-th batch: policies that form different
    # batches still meet the same luck at the same place of the trace.
    oldest = state.batch_request[lane, replica, slot, 0]
    service_s = expected_s
    if state.noise_z.shape[1] > 0:
        service_s = expected_s * noise_factor(
            parameters, replica, state.batch_class[lane, replica, slot], state.noise_z[lane, oldest]
        )
    state.batch_expected_s[lane, replica, slot] = expected_s
    state.batch_service_s[lane, replica, slot] = service_s
    state.slot_count[lane, replica] += 1
    log_event(state, lane, _DISPATCH, replica)
    if not parameters.replica_queues:
        state.last_dispatch_s[lane] = clock_s
        state.last_replica[lane] = replica
    first = state.slot_count[lane, replica] == 1
    if state.delay_s.shape[1] > 0 and not parameters.replica_queues:
        join_s = max(clock_s + state.delay_s[lane, oldest], state.last_join_s[lane, replica])
        state.last_join_s[lane, replica] = join_s
        state.batch_join_s[lane, replica, slot] = join_s
        if first:
            state.replica_timer_s[lane, replica, _JOINS] = join_s
            reschedule(parameters, state, lane, replica)
    elif first:
        batch_starts(parameters, state, lane, replica)
    else:
        state.batch_join_s[lane, replica, slot] = clock_s


@kernel
def _batch_is_taken(
    parameters: Parameters,
    state: ClusterState,
    lane: int,
    replica: int,
    slot: int,
    request_class: int,
    limit: int,
) -> float:
    """Moves the oldest requests of one class into the slot; returns the expected latency in s."""
    queue = replica if parameters.replica_queues else 0
    count = min(limit, fifo.ready(state, lane, queue, request_class))
    start, capacity = state.queue_start[lane, queue, request_class], state.queue_request.shape[3]
    total_size = 0.0
    for place in range(count):
        request = state.queue_request[lane, queue, request_class, start]
        start = 0 if start + 1 == capacity else start + 1
        state.batch_request[lane, replica, slot, place] = request
        total_size += state.size[lane, request]
    state.queue_start[lane, queue, request_class] = start
    state.queue_length[lane, queue, request_class] -= count
    state.batch_size[lane, replica, slot] = count
    state.batch_class[lane, replica, slot] = request_class
    return expected_latency_s(parameters, replica, request_class, total_size)


@kernel
def batch_starts(parameters: Parameters, state: ClusterState, lane: int, replica: int) -> None:
    """The batch in the first slot is in service."""
    clock_s = state.clock_s[lane]
    slot = state.slot_start[lane, replica]
    if state.request_status.shape[1] > 0:
        for place in range(state.batch_size[lane, replica, slot]):
            request = state.batch_request[lane, replica, slot, place]
            state.request_status[lane, request] = _IN_SERVICE
            state.request_dispatch_s[lane, request] = clock_s
            state.request_replica[lane, request] = replica
    ends_s = clock_s + state.batch_service_s[lane, replica, slot]
    state.replica_timer_s[lane, replica, _ENDS] = ends_s
    state.replica_event_s[lane, replica] = min(state.replica_event_s[lane, replica], ends_s)
    state.expected_departure_s[lane, replica] = (
        clock_s + state.batch_expected_s[lane, replica, slot]
    )
    begins_serving(parameters, state, lane, replica)
    if parameters.burns:
        energy_j = parameters.energy_j[replica, state.batch_class[lane, replica, slot]]
        classes = state.number_in_system.shape[1]
        state.reward_terms[lane, 5 * classes + 1] += (
            energy_j[0] + energy_j[1] * state.batch_size[lane, replica, slot]
        )


@kernel
def batch_completes(parameters: Parameters, state: ClusterState, lane: int, replica: int) -> None:
    """All requests of the batch depart; the next slot starts if its batch is there."""
    slot = state.slot_start[lane, replica]
    for place in range(state.batch_size[lane, replica, slot]):
        request = int64(state.batch_request[lane, replica, slot, place])
        request_is_answered(parameters, state, lane, request)
    state.batches[lane, replica] += 1
    state.last_batch_class[lane, replica] = state.batch_class[lane, replica, slot]
    state.last_batch_size[lane, replica] = state.batch_size[lane, replica, slot]
    state.last_batch_s[lane, replica] = state.batch_service_s[lane, replica, slot]
    slot += 1
    state.slot_start[lane, replica] = 0 if slot == state.batch_size.shape[2] else slot
    state.slot_count[lane, replica] -= 1
    state.replica_timer_s[lane, replica, _ENDS] = math.inf
    ends_serving(parameters, state, lane, replica)
    log_event(state, lane, _COMPLETION, replica)
    if state.slot_count[lane, replica] > 0:
        join_s = state.batch_join_s[lane, replica, state.slot_start[lane, replica]]
        if join_s <= state.clock_s[lane]:
            waiting_batch_starts(parameters, state, lane, replica)
        else:
            state.replica_timer_s[lane, replica, _JOINS] = join_s
    reschedule(parameters, state, lane, replica)


@kernel
def waiting_batch_starts(
    parameters: Parameters, state: ClusterState, lane: int, replica: int
) -> None:
    """A batch that was sent before starts now."""
    state.replica_timer_s[lane, replica, _JOINS] = math.inf
    batch_starts(parameters, state, lane, replica)
    log_event(state, lane, _START, replica)
