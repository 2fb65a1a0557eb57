"""What can happen in a lane. One event, one function; the reference has the same names.

Ties are broken in this order: what happens at replicas by themselves, by replica number and then in
the order of `ReplicaTimer`; arrivals in the order of their numbers; the lane's timers in the order
of `Timer`; the decision. A `route` decision comes with its arrival, a `tune` decision with CONTROL.
"""

import math

from simulator import fifo
from simulator.batching_rule import routed_by_rule
from simulator.bookkeeping import (
    arrival_is_counted,
    log_event,
    request_is_shed,
    reschedule,
    set_timer,
)
from simulator.fifo import CENTRAL
from simulator.jit import int64, kernel, rare_kernel, single_kernel
from simulator.parameters import DISPATCH, ROUTE, TUNE, Parameters
from simulator.scaling import (
    autoscaler_is_asked,
    class_is_activated,
    fault_passes,
    replica_is_ready,
    replica_settles,
)
from simulator.service.continuous import iterations_end
from simulator.service.whole_batch import batch_completes, waiting_batch_starts
from simulator.state import ClusterState, EventKind, ReplicaTimer, RequestStatus, Timer

# Numba reads these as constants.
_ARRIVAL, _SHED, _JOIN = (
    int64(EventKind.REQUEST_ARRIVAL),
    int64(EventKind.REQUEST_SHED),
    int64(EventKind.REQUEST_JOIN),
)
_STATUS_WAITING = int64(RequestStatus.WAITING)
_ENDS, _FAULT, _READY, _STARTS, _JOINS = (
    int64(ReplicaTimer.COMPLETION),
    int64(ReplicaTimer.FAULT),
    int64(ReplicaTimer.READY),
    int64(ReplicaTimer.START),
    int64(ReplicaTimer.JOIN),
)
_VIEW, _CONTROL, _TICK, _BATCH = (
    int64(Timer.VIEW),
    int64(Timer.CONTROL),
    int64(Timer.TICK),
    int64(Timer.BATCH),
)


@single_kernel
def request_arrives(parameters: Parameters, state: ClusterState, lane: int) -> None:
    """The next request joins the central queue, is routed, or waits at the door for a decision."""
    request = state.next_request[lane]
    state.next_request[lane] = request + 1
    request_class = int64(state.request_class[lane, request])
    arrival_is_counted(parameters, state, lane, request_class)
    if state.replicas_on[lane] < state.replica_mode.shape[1]:
        class_is_activated(parameters, state, lane, request_class)
    if parameters.kind == ROUTE:
        state.door_request[lane] = request
    elif parameters.replica_queues:
        replica = routed_by_rule(parameters, state, lane, request_class)
        request_is_routed(parameters, state, lane, request, replica)
    else:
        request_joins(parameters, state, lane, CENTRAL, request)
        if parameters.kind == TUNE:
            state.asks[lane, 0] = True


@kernel
def request_joins(
    parameters: Parameters, state: ClusterState, lane: int, queue: int, request: int
) -> bool:
    """The request joins the queue of its class, or is shed where the queue is full: False."""
    status = _STATUS_WAITING
    if fifo.waiting(state, lane, queue) >= parameters.queue_capacity:
        request_is_shed(state, lane, request)
        log_event(state, lane, _SHED, request)
        return False
    request_class = int64(state.request_class[lane, request])
    fifo.join(state, lane, queue, request_class, request)
    state.number_in_system[lane, request_class] += 1
    log_event(state, lane, _ARRIVAL, request)
    if state.request_status.shape[1] > 0:
        state.request_status[lane, request] = status
    return True


@kernel
def request_is_routed(
    parameters: Parameters, state: ClusterState, lane: int, request: int, replica: int
) -> None:
    """The request joins the queue of the replica, at once or after the delay of the network."""
    clock_s = state.clock_s[lane]
    state.last_dispatch_s[lane] = clock_s
    state.last_replica[lane] = replica
    if not request_joins(parameters, state, lane, replica, request):
        return
    if state.join_s.shape[1] > 0:
        join_s = max(clock_s + state.delay_s[lane, request], state.last_join_s[lane, replica])
        state.join_s[lane, request] = join_s
        state.last_join_s[lane, replica] = join_s
        state.queue_transit[lane, replica, state.request_class[lane, request]] += 1
        if state.replica_timer_s[lane, replica, _JOINS] == math.inf:
            state.replica_timer_s[lane, replica, _JOINS] = join_s
            reschedule(parameters, state, lane, replica)
    else:
        replica_asks(parameters, state, lane, replica)


@kernel
def replica_asks(parameters: Parameters, state: ClusterState, lane: int, replica: int) -> None:
    """A request has become ready at the replica: its rule may start something.

    Running iterations are not disturbed for a request that stands behind another.
    """
    runs = parameters.continuous and state.planned[lane, replica] > 0
    if not runs or fifo.ready_in_all(state, lane, replica) == 1:
        state.asks[lane, replica] = True


@rare_kernel
def request_reaches_replica(
    parameters: Parameters, state: ClusterState, lane: int, replica: int
) -> None:
    """The first request in transit to the replica is there."""
    request = fifo.next_to_join(state, lane, replica)
    state.queue_transit[lane, replica, state.request_class[lane, request]] -= 1
    log_event(state, lane, _JOIN, request)
    following_s = math.inf
    following = fifo.next_to_join(state, lane, replica)
    if following >= 0:
        following_s = state.join_s[lane, following]
    state.replica_timer_s[lane, replica, _JOINS] = following_s
    reschedule(parameters, state, lane, replica)
    replica_asks(parameters, state, lane, replica)


@single_kernel
def replica_acts(parameters: Parameters, state: ClusterState, lane: int, replica: int) -> None:
    """The first thing that is due at the replica happens."""
    clock_s = state.clock_s[lane]
    timer_s = state.replica_timer_s[lane, replica]
    if timer_s[_ENDS] <= clock_s:
        if parameters.continuous:
            iterations_end(parameters, state, lane, replica)
            # The next iterations begin before anything else can happen: see `asked_rules_start`.
            state.planned[lane, replica] = 0
            timer_s[_ENDS] = math.inf
            reschedule(parameters, state, lane, replica)
        else:
            batch_completes(parameters, state, lane, replica)
        replica_settles(parameters, state, lane, replica)
        if parameters.kind != DISPATCH:
            state.asks[lane, replica] = True
    else:
        _other_timer_goes_off(parameters, state, lane, replica)


@rare_kernel
def _other_timer_goes_off(
    parameters: Parameters, state: ClusterState, lane: int, replica: int
) -> None:
    clock_s = state.clock_s[lane]
    timer_s = state.replica_timer_s[lane, replica]
    if timer_s[_FAULT] <= clock_s:
        fault_passes(parameters, state, lane, replica)
    elif timer_s[_READY] <= clock_s:
        replica_is_ready(parameters, state, lane, replica)
    elif timer_s[_STARTS] <= clock_s:
        waiting_batch_starts(parameters, state, lane, replica)
        reschedule(parameters, state, lane, replica)
    elif timer_s[_JOINS] <= clock_s:
        request_reaches_replica(parameters, state, lane, replica)
    else:
        state.asks[lane, replica] = True  # a batch timeout


@kernel
def hold_is_released(state: ClusterState, lane: int) -> None:
    """After WAIT an event has come: a decision may be due again."""
    if state.holds[lane]:
        state.holds[lane] = False
        set_timer(state, lane, _TICK, math.inf)


@kernel
def tick_passes(parameters: Parameters, state: ClusterState, lane: int) -> None:
    """The wait is over: a decision may be due again."""
    state.holds[lane] = False
    if parameters.at_ticks:
        timer_is_set_again(state, lane, _TICK, parameters.tick_s)
    else:
        set_timer(state, lane, _TICK, math.inf)


@kernel
def timer_is_set_again(state: ClusterState, lane: int, timer: int, interval_s: float) -> None:
    """The next multiple of the interval: a product, not a running sum.

    So the thousandth tick of 0.025 s is at 25 s exactly.
    """
    state.timer_count[lane, timer] += 1
    set_timer(state, lane, timer, (state.timer_count[lane, timer] + 1) * interval_s)


@rare_kernel
def control_passes(parameters: Parameters, state: ClusterState, lane: int) -> None:
    """The autoscaler is asked, and a `tune` decision is due."""
    timer_is_set_again(state, lane, _CONTROL, parameters.control_interval_s)
    if parameters.scales:
        autoscaler_is_asked(parameters, state, lane)
    state.tunes[lane] = parameters.kind == TUNE
