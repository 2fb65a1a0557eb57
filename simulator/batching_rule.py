"""The rules inside the engine that start batches and route requests, where the policy does not."""

import math

from simulator import fifo
from simulator.bookkeeping import reschedule, set_timer
from simulator.fifo import CENTRAL
from simulator.jit import int64, kernel, rare_kernel, single_kernel
from simulator.parameters import Parameters
from simulator.service.continuous import iterations_are_cut, iterations_begin
from simulator.service.whole_batch import batch_is_dispatched
from simulator.state import ClusterState, ReplicaMode, ReplicaTimer, Timer

_UP, _STARTING = int64(ReplicaMode.UP), int64(ReplicaMode.STARTING)
_TIMEOUT, _BATCH = int64(ReplicaTimer.TIMEOUT), int64(Timer.BATCH)


@kernel
def can_take(parameters: Parameters, state: ClusterState, lane: int, replica: int) -> bool:
    """True where a batch may be sent to the replica: up, wanted, and a slot is free."""
    return (
        state.slot_count[lane, replica] <= parameters.backlog
        and state.replica_mode[lane, replica] == _UP
        and replica < state.replicas_on[lane]
    )


@single_kernel
def asked_rules_start(parameters: Parameters, state: ClusterState, lane: int) -> None:
    """What the last event made possible starts: batches of local queues, or iterations."""
    for replica in range(state.asks.shape[1]):
        if not state.asks[lane, replica]:
            continue
        state.asks[lane, replica] = False
        if not parameters.replica_queues:
            central_batches_start(parameters, state, lane)
        elif parameters.continuous:
            if state.planned[lane, replica] > 0:
                iterations_are_cut(parameters, state, lane, replica)
            elif state.replica_mode[lane, replica] == _UP:
                iterations_begin(parameters, state, lane, replica)
        else:
            local_batch_starts(parameters, state, lane, replica)


@rare_kernel
def local_batch_starts(
    parameters: Parameters, state: ClusterState, lane: int, replica: int
) -> None:
    """An idle replica starts a batch of its own queue if one is full or has waited long enough."""
    timeout_s = math.inf
    if state.replica_mode[lane, replica] == _UP and state.slot_count[lane, replica] == 0:
        request_class = fifo.firing_class(parameters, state, lane, replica, replica)
        if request_class >= 0:
            limit = min(state.set_batch_size[lane], parameters.max_batch_size[replica])
            batch_is_dispatched(parameters, state, lane, replica, request_class, limit)
        else:
            timeout_s = fifo.next_firing_s(parameters, state, lane, replica, replica)
    state.replica_timer_s[lane, replica, _TIMEOUT] = timeout_s
    reschedule(parameters, state, lane, replica)


@rare_kernel
def central_batches_start(parameters: Parameters, state: ClusterState, lane: int) -> None:
    """The same of the central queue under `tune`, for the replicas that can take one in turn."""
    for replica in range(state.replica_mode.shape[1]):
        while can_take(parameters, state, lane, replica):
            request_class = fifo.firing_class(parameters, state, lane, CENTRAL, replica)
            if request_class < 0:
                break
            limit = min(state.set_batch_size[lane], parameters.max_batch_size[replica])
            batch_is_dispatched(parameters, state, lane, replica, request_class, limit)
    timeout_s = math.inf
    for replica in range(state.replica_mode.shape[1]):
        if can_take(parameters, state, lane, replica):
            firing_s = fifo.next_firing_s(parameters, state, lane, CENTRAL, replica)
            timeout_s = min(timeout_s, firing_s)
    # What a fault put in front may leave an older request overdue behind it: at once then.
    set_timer(state, lane, _BATCH, max(timeout_s, state.clock_s[lane]))


@kernel
def is_routable(
    parameters: Parameters, state: ClusterState, lane: int, replica: int, request_class: int
) -> bool:
    """True where a request of the class may be routed to the replica; class -1 is any.

    Replicas that are wanted, up or starting, and serve the class; where there is none of these,
    those that are down as well.
    """
    if not _could_serve(parameters, state, lane, replica, request_class):
        return False
    mode = state.replica_mode[lane, replica]
    if mode == _UP or mode == _STARTING:
        return True
    for other in range(state.replica_mode.shape[1]):
        mode = state.replica_mode[lane, other]
        alive = mode == _UP or mode == _STARTING
        if alive and _could_serve(parameters, state, lane, other, request_class):
            return False
    return True


@kernel
def _could_serve(
    parameters: Parameters, state: ClusterState, lane: int, replica: int, request_class: int
) -> bool:
    if replica >= state.replicas_on[lane]:
        return False
    return request_class < 0 or parameters.serves[replica, request_class]


@rare_kernel
def routed_by_rule(
    parameters: Parameters, state: ClusterState, lane: int, request_class: int
) -> int:
    """The replica that the routing rule of the engine chooses."""
    replicas = state.replica_mode.shape[1]
    if parameters.round_robin:
        for step in range(1, replicas + 1):
            replica = (state.last_replica[lane] + step) % replicas
            if is_routable(parameters, state, lane, replica, request_class):
                return replica
    chosen, fewest = -1, 0
    for replica in range(replicas):
        if is_routable(parameters, state, lane, replica, request_class):
            pending = in_flight(state, lane, replica)
            pending += fifo.waiting(state, lane, replica)
            if chosen < 0 or pending < fewest:
                chosen, fewest = replica, pending
    return chosen


@kernel
def in_flight(state: ClusterState, lane: int, replica: int) -> int:
    """Requests in the slots or the running set of the replica, its own queue excluded."""
    pending = state.running[lane, replica]
    slots = state.batch_size.shape[2]
    for number in range(state.slot_count[lane, replica]):
        slot = (state.slot_start[lane, replica] + number) % slots
        pending += state.batch_size[lane, replica, slot]
    return pending
