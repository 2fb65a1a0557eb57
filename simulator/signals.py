"""What the dispatcher sees: the observation, live or as of the last refresh, and the mask."""

import math
from typing import NamedTuple

import numpy as np

from simulator import fifo
from simulator.action import HEAD_OF_LINE, WAIT, ActionTable
from simulator.batching_rule import can_take, in_flight, is_routable
from simulator.fifo import CENTRAL
from simulator.jit import int64, kernel, rare_kernel, single_kernel
from simulator.observation import RESPONSE_WINDOW, Observation, ReplicaState
from simulator.parameters import DISPATCH, ROUTE, Parameters
from simulator.state import SIGNALS, ClusterState, ReplicaMode

_UP, _IDLE, _BUSY = (
    int64(ReplicaMode.UP),
    int64(ReplicaState.IDLE),
    int64(ReplicaState.BUSY),
)


class ReplicaSignals(NamedTuple):
    """What a replica tells, in the order in which a view keeps it."""

    state: float  # ReplicaState
    remaining_service_s: float
    in_service: float
    utilization: float
    in_flight: float
    kv_fill: float


@kernel
def signals_of(
    parameters: Parameters, state: ClusterState, lane: int, replica: int
) -> ReplicaSignals:
    """What the replica would tell now."""
    clock_s = state.clock_s[lane]
    elapsed_s = clock_s - state.utilization_at_s[lane, replica]
    decay = math.exp(-elapsed_s / parameters.rate_window_s)
    utilization = state.utilization[lane, replica] * decay
    remaining_s, in_service, kv_fill = 0.0, 0, 0.0
    shown = int64(state.replica_mode[lane, replica])
    if shown == _UP:
        shown = _BUSY if state.serving[lane, replica] else _IDLE
    if state.serving[lane, replica]:
        utilization += 1.0 - decay
        if parameters.continuous:
            in_service = state.running[lane, replica]
        else:
            in_service = state.batch_size[lane, replica, state.slot_start[lane, replica]]
            remaining_s = max(0.0, state.expected_departure_s[lane, replica] - clock_s)
    if parameters.continuous:
        kv_fill = state.kv_used[lane, replica] / parameters.kv_capacity[replica]
    sent = in_flight(state, lane, replica)
    if parameters.replica_queues:
        sent += fifo.waiting(state, lane, replica)
    return ReplicaSignals(
        float(shown), remaining_s, float(in_service), utilization, float(sent), kv_fill
    )


@kernel
def oldest_wait_s(state: ClusterState, lane: int, request_class: int) -> float:
    """Seconds that the oldest waiting request of the class has waited, in whatever queue."""
    arrival_s = math.inf
    for queue in range(state.queue_length.shape[1]):
        if state.queue_length[lane, queue, request_class] > 0:
            request = fifo.oldest(state, lane, queue, request_class)
            arrival_s = min(arrival_s, state.arrival_s[lane, request])
    return 0.0 if arrival_s == math.inf else state.clock_s[lane] - arrival_s


@rare_kernel
def view_is_refreshed(parameters: Parameters, state: ClusterState, lane: int) -> None:
    """Every replica tells its signals, and they stand until the next refresh."""
    classes = state.queue_length.shape[2]
    for replica in range(state.last_view.shape[1]):
        seen = signals_of(parameters, state, lane, replica)
        view = state.last_view[lane, replica]
        view[0], view[1], view[2] = seen.state, seen.remaining_service_s, seen.in_service
        view[3], view[4], view[5] = seen.utilization, seen.in_flight, seen.kv_fill
        for request_class in range(classes):
            view[SIGNALS + request_class] = 0.0
            if parameters.replica_queues:
                view[SIGNALS + request_class] = state.queue_length[lane, replica, request_class]
    for request_class in range(classes):
        state.last_view_wait_s[lane, request_class] = oldest_wait_s(state, lane, request_class)


@rare_kernel
def observe(
    parameters: Parameters, state: ClusterState, lane: int, observation: Observation
) -> None:
    """Writes what the dispatcher of the lane knows now."""
    clock_s = state.clock_s[lane]
    _observe_replicas(parameters, state, lane, observation)
    stale = parameters.view_refresh_s > 0.0 and parameters.replica_queues
    for request_class in range(state.queue_length.shape[2]):
        waiting = 0.0
        if parameters.replica_queues:
            for replica in range(state.replica_mode.shape[1]):
                waiting += observation.replica_queue_length[lane, replica, request_class]
        else:
            waiting += state.queue_length[lane, 0, request_class]
        observation.queue_length[lane, request_class] = waiting
        observation.arrived[lane, request_class] = state.arrived[lane, request_class]
        observation.oldest_wait_s[lane, request_class] = (
            state.last_view_wait_s[lane, request_class]
            if stale
            else oldest_wait_s(state, lane, request_class)
        )
        elapsed_s = clock_s - state.rate_at_s[lane, request_class]
        observation.arrival_rate_rps[lane, request_class] = state.arrival_rate_rps[
            lane, request_class
        ] * math.exp(-elapsed_s / parameters.rate_window_s)
    _observe_head(parameters, state, lane, observation)
    observation.since_dispatch_s[lane] = clock_s - state.last_dispatch_s[lane]
    observation.last_replica[lane] = state.last_replica[lane]
    observation.response_p95_s[lane] = recent_p95_s(state, lane)
    observation.set_points[lane, 0] = state.set_batch_size[lane]
    observation.set_points[lane, 1] = state.set_timeout_s[lane]
    observation.set_points[lane, 2] = state.set_num_seqs[lane]
    observation.set_points[lane, 3] = state.replicas_on[lane]
    observation.clock_s[lane] = clock_s
    if observation.oldest_waits_s.shape[2] > 0:
        _observe_waits(state, lane, observation)


@rare_kernel
def _observe_waits(state: ClusterState, lane: int, observation: Observation) -> None:
    """Writes how long each of the first requests of every class has waited."""
    capacity = state.queue_request.shape[3]
    for request_class in range(state.queue_length.shape[2]):
        place = state.queue_start[lane, 0, request_class]
        waiting = state.queue_length[lane, 0, request_class]
        for number in range(observation.oldest_waits_s.shape[2]):
            wait_s = 0.0
            if number < waiting:
                request = state.queue_request[lane, 0, request_class, place]
                wait_s = state.clock_s[lane] - state.arrival_s[lane, request]
                place = 0 if place + 1 == capacity else place + 1
            observation.oldest_waits_s[lane, request_class, number] = wait_s


@single_kernel
def _observe_replicas(
    parameters: Parameters, state: ClusterState, lane: int, observation: Observation
) -> None:
    """Writes the signals of the replicas, from the last view where that is stale."""
    head = door_class(state, lane)
    stale = parameters.view_refresh_s > 0.0
    for replica in range(state.replica_mode.shape[1]):
        seen = signals_of(parameters, state, lane, replica)
        in_flight_now = seen.in_flight
        if stale:
            view = state.last_view[lane, replica]
            seen = ReplicaSignals(view[0], view[1], view[2], view[3], view[4], view[5])
        observation.replica_state[lane, replica] = seen.state
        observation.remaining_service_s[lane, replica] = seen.remaining_service_s
        observation.in_service[lane, replica] = seen.in_service
        observation.utilization[lane, replica] = seen.utilization
        observation.kv_fill[lane, replica] = seen.kv_fill
        observation.in_flight[lane, replica] = (
            in_flight_now if parameters.own_in_flight else seen.in_flight
        )
        if parameters.replica_queues:
            for request_class in range(state.queue_length.shape[2]):
                observation.replica_queue_length[lane, replica, request_class] = (
                    state.last_view[lane, replica, SIGNALS + request_class]
                    if stale
                    else state.queue_length[lane, replica, request_class]
                )
            takes = is_routable(parameters, state, lane, replica, head)
        else:
            takes = can_take(parameters, state, lane, replica)
        observation.can_take[lane, replica] = 1.0 if takes else 0.0
        observation.batches[lane, replica] = state.batches[lane, replica]
        observation.last_batch_class[lane, replica] = state.last_batch_class[lane, replica]
        observation.last_batch_size[lane, replica] = state.last_batch_size[lane, replica]
        observation.last_batch_s[lane, replica] = state.last_batch_s[lane, replica]


@kernel
def door_class(state: ClusterState, lane: int) -> int:
    """Class of the request to be routed now, -1 without one."""
    request = state.door_request[lane]
    if request < 0:
        return -1
    return int64(state.request_class[lane, request])


@single_kernel
def _observe_head(
    parameters: Parameters, state: ClusterState, lane: int, observation: Observation
) -> None:
    """Writes the class and the size of the request that the decision is about."""
    request, head = state.door_request[lane], door_class(state, lane)
    if not parameters.replica_queues:
        head = fifo.head_class(state, lane, CENTRAL)
        if head >= 0:
            request = fifo.oldest(state, lane, CENTRAL, head)
    observation.head_class[lane] = head
    size = 0.0
    if head >= 0:
        if parameters.continuous:
            size += state.prompt_tokens[lane, request]
        else:
            size = state.size[lane, request]
    observation.head_size[lane] = size


@kernel
def recent_p95_s(state: ClusterState, lane: int) -> float:
    """Nearest-rank P95 of the last RESPONSE_WINDOW response times, 0 before the first answer.

    With at most 32 values the rank is the largest or, from 20 values on, the second largest.
    """
    count = min(state.answered[lane], RESPONSE_WINDOW)
    largest, second = 0.0, 0.0
    for place in range(count):
        response_s = state.recent_response_s[lane, place]
        if response_s > largest:
            largest, second = response_s, largest
        elif response_s > second:
            second = response_s
    return second if count >= 20 else largest


@rare_kernel
def mark_legal(
    parameters: Parameters,
    state: ClusterState,
    lane: int,
    table: ActionTable,
    observation: Observation,
    action_mask: np.ndarray,
) -> None:
    """Writes the row `[A]` of the action mask; for `dispatch` as `action.legal_actions` does.

    `observe` comes before: it says which replicas can take a batch.

    A truncated lane is no exception: its value is bootstrapped over what would be legal.
    """
    if parameters.kind != DISPATCH:
        head = door_class(state, lane)
        for action in range(len(table.replica)):
            action_mask[lane, action] = parameters.kind != ROUTE or is_routable(
                parameters, state, lane, action, head
            )
        return
    action_mask[lane, WAIT] = True
    head = fifo.head_class(state, lane, CENTRAL)
    for action in range(1, len(table.replica)):
        replica = table.replica[action]
        request_class = table.request_class[action]
        if request_class == HEAD_OF_LINE:
            request_class = head
        if replica < 0:  # it sheds
            action_mask[lane, action] = (
                request_class >= 0 and state.queue_length[lane, 0, request_class] > 0
            )
            continue
        action_mask[lane, action] = (
            request_class >= 0
            and state.queue_length[lane, 0, request_class] > 0
            and observation.can_take[lane, replica] > 0.0
            and parameters.serves[replica, request_class]
            and table.batch_size[action] <= parameters.max_batch_size[replica]
        )
