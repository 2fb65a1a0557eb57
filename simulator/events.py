"""What can happen in a lane. One event, one function; `reference.py` has the same names.

Ties are broken in this order: batch completions by replica number, then arrivals in the order of
their numbers, then the tick, then the decision.
"""

import math

from simulator import fifo
from simulator.jit import kernel
from simulator.observation import RESPONSE_WINDOW
from simulator.parameters import Parameters
from simulator.service.whole_batch import batch_latency_s, noise_factor
from simulator.state import ClusterState, EventKind, RequestStatus

# Numba reads these as constants.
_ARRIVAL, _SHED = int(EventKind.REQUEST_ARRIVAL), int(EventKind.REQUEST_SHED)
_DISPATCH, _COMPLETION = int(EventKind.BATCH_DISPATCH), int(EventKind.BATCH_COMPLETION)
_STATUS_WAITING, _STATUS_IN_SERVICE = int(RequestStatus.WAITING), int(RequestStatus.IN_SERVICE)
_STATUS_COMPLETED, _STATUS_SHED = int(RequestStatus.COMPLETED), int(RequestStatus.SHED)


@kernel
def log_event(state: ClusterState, lane: int, kind: int, subject: int) -> None:
    """Notes the event at the lane's clock, where there is a log with room for it."""
    number = state.event_count[lane]
    state.event_count[lane] = number + 1
    if number < state.event_clock_s.shape[1]:
        state.event_clock_s[lane, number] = state.clock_s[lane]
        state.event_kind[lane, number] = kind
        state.event_subject[lane, number] = subject


@kernel
def pass_time(parameters: Parameters, state: ClusterState, lane: int, until_s: float) -> None:
    """The clock moves to `until_s`; number-in-system, replica-seconds and energy accrue."""
    elapsed_s = until_s - state.clock_s[lane]
    if elapsed_s > 0.0:
        classes = state.number_in_system.shape[1]
        terms = state.reward_terms[lane]
        for request_class in range(classes):
            terms[2 * classes + request_class] += (
                state.number_in_system[lane, request_class] * elapsed_s
            )
        replicas = state.batch_size.shape[1]
        power_w = 0.0
        for replica in range(replicas):
            if state.batch_size[lane, replica] > 0:
                power_w += parameters.busy_power_w[replica]
            else:
                power_w += parameters.idle_power_w[replica]
        terms[5 * classes] += replicas * elapsed_s
        terms[5 * classes + 1] += power_w * elapsed_s
    state.clock_s[lane] = until_s


@kernel
def request_arrives(parameters: Parameters, state: ClusterState, lane: int) -> None:
    """The next request joins the queue of its class, or is shed where the queue is full."""
    request = state.next_request[lane]
    state.next_request[lane] = request + 1
    request_class = state.request_class[lane, request]
    clock_s = state.clock_s[lane]
    elapsed_s = clock_s - state.rate_at_s[lane, request_class]
    decay = math.exp(-elapsed_s / parameters.rate_window_s)
    state.arrival_rate_rps[lane, request_class] = (
        state.arrival_rate_rps[lane, request_class] * decay + 1.0 / parameters.rate_window_s
    )
    state.rate_at_s[lane, request_class] = clock_s
    if fifo.waiting(state, lane) < parameters.queue_capacity:
        fifo.join(state, lane, request_class, request)
        state.number_in_system[lane, request_class] += 1
        log_event(state, lane, _ARRIVAL, request)
        status = _STATUS_WAITING
    else:
        classes = state.number_in_system.shape[1]
        state.reward_terms[lane, 3 * classes + request_class] += 1.0
        log_event(state, lane, _SHED, request)
        status = _STATUS_SHED
    if state.request_status.shape[1] > 0:
        state.request_status[lane, request] = status


@kernel
def batch_is_dispatched(
    parameters: Parameters,
    state: ClusterState,
    lane: int,
    replica: int,
    request_class: int,
    batch_size: int,
) -> None:
    """The oldest `batch_size` requests of the class, or all if fewer wait, start on the replica."""
    clock_s = state.clock_s[lane]
    size = min(batch_size, state.queue_length[lane, request_class])
    records = state.request_status.shape[1] > 0
    total_size = 0.0
    for place in range(size):
        request = fifo.leave(state, lane, request_class)
        state.batch_request[lane, replica, place] = request
        total_size += state.size[lane, request]
        if records:
            state.request_status[lane, request] = _STATUS_IN_SERVICE
            state.request_dispatch_s[lane, request] = clock_s
    expected_s = batch_latency_s(
        parameters.alpha_s[replica, request_class],
        parameters.beta_s[replica, request_class],
        total_size,
    )
    service_s = expected_s
    sigma = parameters.noise_sigma[replica, request_class]
    if sigma > 0.0:
        # The noise belongs to the oldest request, not to the n-th batch: policies that form
        # different batches still meet the same luck at the same place of the trace.
        oldest = state.batch_request[lane, replica, 0]
        service_s = expected_s * noise_factor(sigma, state.noise_z[lane, oldest])
    state.batch_size[lane, replica] = size
    state.batch_class[lane, replica] = request_class
    state.departure_s[lane, replica] = clock_s + service_s
    state.expected_departure_s[lane, replica] = clock_s + expected_s
    elapsed_s = clock_s - state.utilization_at_s[lane, replica]
    state.utilization[lane, replica] *= math.exp(-elapsed_s / parameters.rate_window_s)
    state.utilization_at_s[lane, replica] = clock_s
    state.last_dispatch_s[lane] = clock_s
    state.last_replica[lane] = replica
    log_event(state, lane, _DISPATCH, replica)


@kernel
def batch_completes(parameters: Parameters, state: ClusterState, lane: int, replica: int) -> None:
    """All requests of the batch depart; the replica is idle."""
    clock_s = state.clock_s[lane]
    classes = state.number_in_system.shape[1]
    request_class = state.batch_class[lane, replica]
    size = state.batch_size[lane, replica]
    terms = state.reward_terms[lane]
    records = state.request_status.shape[1] > 0
    for place in range(size):
        request = state.batch_request[lane, replica, place]
        response_s = clock_s - state.arrival_s[lane, request]
        terms[classes + request_class] += response_s
        if response_s > parameters.slo_s[request_class]:
            terms[4 * classes + request_class] += 1.0
        state.recent_response_s[lane, state.answered[lane] % RESPONSE_WINDOW] = response_s
        state.answered[lane] += 1
        if records:
            state.request_status[lane, request] = _STATUS_COMPLETED
            state.request_departure_s[lane, request] = clock_s
    terms[request_class] += size
    state.number_in_system[lane, request_class] -= size
    state.batch_size[lane, replica] = 0
    state.departure_s[lane, replica] = math.inf
    elapsed_s = clock_s - state.utilization_at_s[lane, replica]
    decay = math.exp(-elapsed_s / parameters.rate_window_s)
    state.utilization[lane, replica] = state.utilization[lane, replica] * decay + (1.0 - decay)
    state.utilization_at_s[lane, replica] = clock_s
    log_event(state, lane, _COMPLETION, replica)


@kernel
def tick_passes(parameters: Parameters, state: ClusterState, lane: int) -> None:
    """The wait is over: a decision may be due again."""
    state.holds[lane] = False
    if parameters.at_ticks:
        # A product, not a running sum: the thousandth tick of 0.025 s is at 25 s exactly.
        state.tick[lane] += 1
        state.next_tick_s[lane] = (state.tick[lane] + 1) * parameters.tick_s
    else:
        state.next_tick_s[lane] = math.inf
