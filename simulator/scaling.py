"""Replicas start, drain, stop, fail and are repaired."""

import math

from simulator import fifo
from simulator.bookkeeping import ends_serving, log_event, request_is_shed, reschedule
from simulator.jit import int64, kernel, rare_kernel
from simulator.parameters import Parameters
from simulator.state import (
    ClusterState,
    EventKind,
    ReplicaMode,
    ReplicaTimer,
    RequestStatus,
)

_OFF, _STARTING = int64(ReplicaMode.OFF), int64(ReplicaMode.STARTING)
_UP, _DOWN = int64(ReplicaMode.UP), int64(ReplicaMode.DOWN)
_STARTS, _READY = int64(EventKind.REPLICA_START), int64(EventKind.REPLICA_READY)
_STOPS, _FAILS = int64(EventKind.REPLICA_OFF), int64(EventKind.REPLICA_DOWN)
_REPAIRED, _REQUEUED = int64(EventKind.REPLICA_REPAIRED), int64(EventKind.REQUEST_REQUEUED)
_SHED, _WAITING = int64(EventKind.REQUEST_SHED), int64(RequestStatus.WAITING)
_AT_READY, _AT_FAULT = int64(ReplicaTimer.READY), int64(ReplicaTimer.FAULT)
_AT_END, _AT_START = int64(ReplicaTimer.COMPLETION), int64(ReplicaTimer.START)
_AT_TIMEOUT = int64(ReplicaTimer.TIMEOUT)


@kernel
def is_empty(parameters: Parameters, state: ClusterState, lane: int, replica: int) -> bool:
    """True where nothing is at the replica, on its way to it, or in its own queue."""
    if state.slot_count[lane, replica] > 0 or state.running[lane, replica] > 0:
        return False
    return not parameters.replica_queues or fifo.waiting(state, lane, replica) == 0


@kernel
def replica_settles(parameters: Parameters, state: ClusterState, lane: int, replica: int) -> None:
    """A wanted replica that is off starts; one that is not wanted and empty is off."""
    mode = state.replica_mode[lane, replica]
    wanted = replica < state.replicas_on[lane]
    if wanted == (mode != _OFF):
        return
    _replica_is_switched(parameters, state, lane, replica)


@rare_kernel
def _replica_is_switched(
    parameters: Parameters, state: ClusterState, lane: int, replica: int
) -> None:
    if replica < state.replicas_on[lane]:
        number = state.starts[lane, replica]
        state.starts[lane, replica] = number + 1
        state.replica_mode[lane, replica] = _STARTING
        state.replicas_paid[lane] += 1
        cold_start_s = state.cold_start_s[lane, replica, number % state.cold_start_s.shape[2]]
        state.replica_timer_s[lane, replica, _AT_READY] = state.clock_s[lane] + cold_start_s
        log_event(state, lane, _STARTS, replica)
    elif is_empty(parameters, state, lane, replica):
        state.replica_mode[lane, replica] = _OFF
        state.replicas_paid[lane] -= 1
        state.replica_timer_s[lane, replica, _AT_READY] = math.inf
        log_event(state, lane, _STOPS, replica)
    reschedule(parameters, state, lane, replica)


@rare_kernel
def replicas_are_wanted(
    parameters: Parameters, state: ClusterState, lane: int, replicas_on: int
) -> None:
    """Replicas 0 to n - 1 are wanted from now on."""
    state.replicas_on[lane] = replicas_on
    for replica in range(state.replica_mode.shape[1]):
        replica_settles(parameters, state, lane, replica)


@rare_kernel
def class_is_activated(
    parameters: Parameters, state: ClusterState, lane: int, request_class: int
) -> None:
    """More replicas are wanted until one of them serves the class of an arrival."""
    while state.replicas_on[lane] < state.replica_mode.shape[1]:
        for replica in range(state.replicas_on[lane]):
            if parameters.serves[replica, request_class]:
                return
        replicas_are_wanted(parameters, state, lane, state.replicas_on[lane] + 1)


@rare_kernel
def replica_is_ready(parameters: Parameters, state: ClusterState, lane: int, replica: int) -> None:
    """The cold start is over."""
    state.replica_mode[lane, replica] = _UP
    state.replica_timer_s[lane, replica, _AT_READY] = math.inf
    log_event(state, lane, _READY, replica)
    reschedule(parameters, state, lane, replica)
    replica_settles(parameters, state, lane, replica)
    state.asks[lane, replica] = True


@rare_kernel
def fault_passes(parameters: Parameters, state: ClusterState, lane: int, replica: int) -> None:
    """A fault begins or ends, as the boundaries drawn for the replica say in turn."""
    number = state.faults[lane, replica] + 1
    state.faults[lane, replica] = number
    following_s = math.inf
    if number < state.fault_s.shape[2]:
        following_s = state.fault_s[lane, replica, number]
    state.replica_timer_s[lane, replica, _AT_FAULT] = following_s
    mode = state.replica_mode[lane, replica]
    if number % 2 == 1:
        if mode == _STARTING or mode == _UP:
            _replica_fails(parameters, state, lane, replica)
    elif mode == _DOWN:
        state.replica_mode[lane, replica] = _UP
        log_event(state, lane, _REPAIRED, replica)
        replica_settles(parameters, state, lane, replica)
        state.asks[lane, replica] = True
    reschedule(parameters, state, lane, replica)


@rare_kernel
def _replica_fails(parameters: Parameters, state: ClusterState, lane: int, replica: int) -> None:
    """The replica is down, and what it had is lost, the newest first."""
    state.replica_mode[lane, replica] = _DOWN
    for timer in (_AT_READY, _AT_END, _AT_START, _AT_TIMEOUT):
        state.replica_timer_s[lane, replica, timer] = math.inf
    log_event(state, lane, _FAILS, replica)
    if parameters.continuous:
        for place in range(state.running[lane, replica] - 1, -1, -1):
            request = int64(state.sequence_request[lane, replica, place])
            _request_is_lost(parameters, state, lane, replica, request)
        state.running[lane, replica] = 0
        state.decoding[lane, replica] = 0
        state.kv_used[lane, replica] = 0
        state.context[lane, replica] = 0
        state.planned[lane, replica] = 0
    else:
        # Requests that are back in the central queue may start elsewhere.
        some = state.slot_count[lane, replica] > 0
        state.asks[lane, replica] = some and parameters.requeue and not parameters.replica_queues
        _batches_are_lost(parameters, state, lane, replica)
    if state.serving[lane, replica]:
        ends_serving(parameters, state, lane, replica)
    replica_settles(parameters, state, lane, replica)


@rare_kernel
def _batches_are_lost(parameters: Parameters, state: ClusterState, lane: int, replica: int) -> None:
    slots = state.batch_size.shape[2]
    queue = replica if parameters.replica_queues else 0
    while state.slot_count[lane, replica] > 0:
        state.slot_count[lane, replica] -= 1
        slot = (state.slot_start[lane, replica] + state.slot_count[lane, replica]) % slots
        for place in range(state.batch_size[lane, replica, slot] - 1, -1, -1):
            request = int64(state.batch_request[lane, replica, slot, place])
            _request_is_lost(parameters, state, lane, queue, request)


@rare_kernel
def _request_is_lost(
    parameters: Parameters, state: ClusterState, lane: int, queue: int, request: int
) -> None:
    """The request goes back to the front of the queue and starts anew, or is shed."""
    if not parameters.requeue:
        state.number_in_system[lane, state.request_class[lane, request]] -= 1
        request_is_shed(state, lane, request)
        log_event(state, lane, _SHED, request)
        return
    fifo.join_in_front(state, lane, queue, request)
    if parameters.continuous:
        state.generated[lane, request] = 0
    if state.request_status.shape[1] > 0:
        state.request_status[lane, request] = _WAITING
        state.request_dispatch_s[lane, request] = math.nan
    log_event(state, lane, _REQUEUED, request)


@rare_kernel
def autoscaler_is_asked(parameters: Parameters, state: ClusterState, lane: int) -> None:
    """More replicas are wanted at once, fewer after the scale-down delay."""
    in_system = 0
    for request_class in range(state.number_in_system.shape[1]):
        in_system += state.number_in_system[lane, request_class]
    desired = math.ceil(in_system / parameters.target_in_system)
    desired = max(desired, parameters.keep_warm_replicas)
    desired = min(desired, state.replica_mode.shape[1])
    on, clock_s = state.replicas_on[lane], state.clock_s[lane]
    if desired >= on:
        state.fewer_since_s[lane] = math.inf
        if desired > on:
            replicas_are_wanted(parameters, state, lane, desired)
        return
    if state.fewer_since_s[lane] == math.inf:
        state.fewer_since_s[lane] = clock_s
    if clock_s - state.fewer_since_s[lane] >= parameters.scale_down_delay_s:
        state.fewer_since_s[lane] = math.inf
        replicas_are_wanted(parameters, state, lane, desired)
