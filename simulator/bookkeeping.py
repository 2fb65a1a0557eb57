"""What every event does beside moving requests: the log, the clock, records, signals, terms."""

import math

from simulator.jit import int64, kernel
from simulator.observation import RESPONSE_WINDOW
from simulator.parameters import Parameters
from simulator.state import ClusterState, ReplicaMode, RequestStatus

# Numba reads these as constants.
_OFF, _UP, _STARTING = (
    int64(ReplicaMode.OFF),
    int64(ReplicaMode.UP),
    int64(ReplicaMode.STARTING),
)
_COMPLETED, _SHED = int64(RequestStatus.COMPLETED), int64(RequestStatus.SHED)


@kernel
def log_event(state: ClusterState, lane: int, kind: int, subject: int) -> None:
    """Notes the event at the lane's clock, where there is a log with room for it."""
    places = state.event_clock_s.shape[1]
    if places > 0:
        number = state.event_count[lane]
        state.event_count[lane] = number + 1
        if number < places:
            state.event_clock_s[lane, number] = state.clock_s[lane]
            state.event_kind[lane, number] = kind
            state.event_subject[lane, number] = subject


@kernel
def pass_time(parameters: Parameters, state: ClusterState, lane: int, until_s: float) -> None:
    """The clock moves to `until_s`; number-in-system, replica-seconds, energy and bill accrue."""
    elapsed_s = until_s - state.clock_s[lane]
    if elapsed_s > 0.0:
        classes = state.number_in_system.shape[1]
        terms = state.reward_terms[lane]
        for request_class in range(classes):
            terms[2 * classes + request_class] += (
                state.number_in_system[lane, request_class] * elapsed_s
            )
        terms[5 * classes] += state.replicas_paid[lane] * elapsed_s
        if parameters.metered:
            _meter(parameters, state, lane, elapsed_s)
    state.clock_s[lane] = until_s


@kernel
def _meter(parameters: Parameters, state: ClusterState, lane: int, elapsed_s: float) -> None:
    """Energy and bill of `elapsed_s` seconds. A replica that is DOWN is paid for and draws none."""
    power_w, price_per_s = 0.0, 0.0
    for replica in range(state.replica_mode.shape[1]):
        mode = state.replica_mode[lane, replica]
        if mode != _OFF:
            price_per_s += parameters.price_per_s[replica]
        if state.serving[lane, replica]:
            power_w += parameters.busy_power_w[replica]
        elif mode == _UP or mode == _STARTING:
            power_w += parameters.idle_power_w[replica]
    classes = state.number_in_system.shape[1]
    state.reward_terms[lane, 5 * classes + 1] += power_w * elapsed_s
    state.reward_terms[lane, 5 * classes + 2] += price_per_s * elapsed_s


@kernel
def reschedule(parameters: Parameters, state: ClusterState, lane: int, replica: int) -> None:
    """Finds the next thing that happens at the replica by itself."""
    if parameters.completes_only:
        state.replica_event_s[lane, replica] = state.replica_timer_s[lane, replica, 0]
        return
    earliest_s = state.replica_timer_s[lane, replica, 0]
    for timer in range(1, state.replica_timer_s.shape[2]):
        earliest_s = min(earliest_s, state.replica_timer_s[lane, replica, timer])
    state.replica_event_s[lane, replica] = earliest_s


@kernel
def set_timer(state: ClusterState, lane: int, timer: int, at_s: float) -> None:
    """The timer of the lane goes off at that instant, or never where it is infinite."""
    state.timer_s[lane, timer] = at_s
    earliest_s = state.timer_s[lane, 0]
    for other in range(1, state.timer_s.shape[1]):
        earliest_s = min(earliest_s, state.timer_s[lane, other])
    state.next_timer_s[lane] = earliest_s


@kernel
def begins_serving(parameters: Parameters, state: ClusterState, lane: int, replica: int) -> None:
    """The replica, idle until now, is busy."""
    elapsed_s = state.clock_s[lane] - state.utilization_at_s[lane, replica]
    if elapsed_s > 0.0:  # under load it has just ended another batch
        state.utilization[lane, replica] *= math.exp(-elapsed_s / parameters.rate_window_s)
    state.utilization_at_s[lane, replica] = state.clock_s[lane]
    state.serving[lane, replica] = True


@kernel
def ends_serving(parameters: Parameters, state: ClusterState, lane: int, replica: int) -> None:
    """The replica, busy until now, is idle."""
    elapsed_s = state.clock_s[lane] - state.utilization_at_s[lane, replica]
    decay = math.exp(-elapsed_s / parameters.rate_window_s)
    state.utilization[lane, replica] = state.utilization[lane, replica] * decay + (1.0 - decay)
    state.utilization_at_s[lane, replica] = state.clock_s[lane]
    state.serving[lane, replica] = False


@kernel
def arrival_is_counted(
    parameters: Parameters, state: ClusterState, lane: int, request_class: int
) -> None:
    """The count and the average arrival rate of the class take the arrival in."""
    state.arrived[lane, request_class] += 1
    clock_s = state.clock_s[lane]
    elapsed_s = clock_s - state.rate_at_s[lane, request_class]
    decay = math.exp(-elapsed_s / parameters.rate_window_s)
    state.arrival_rate_rps[lane, request_class] = (
        state.arrival_rate_rps[lane, request_class] * decay + 1.0 / parameters.rate_window_s
    )
    state.rate_at_s[lane, request_class] = clock_s


@kernel
def request_is_answered(
    parameters: Parameters, state: ClusterState, lane: int, request: int
) -> None:
    """The request departs: its response time, its SLO and its record."""
    clock_s = state.clock_s[lane]
    classes = state.number_in_system.shape[1]
    request_class = state.request_class[lane, request]
    response_s = clock_s - state.arrival_s[lane, request]
    terms = state.reward_terms[lane]
    terms[request_class] += 1.0
    terms[classes + request_class] += response_s
    missed = response_s > parameters.slo_s[request_class]
    if parameters.continuous and not missed:
        missed = tokens_are_late(parameters, state, lane, request)
    if missed:
        terms[4 * classes + request_class] += 1.0
    state.number_in_system[lane, request_class] -= 1
    answered = state.answered[lane]
    state.recent_response_s[lane, answered & (RESPONSE_WINDOW - 1)] = response_s
    state.answered[lane] = answered + 1
    if state.request_status.shape[1] > 0:
        state.request_status[lane, request] = _COMPLETED
        state.request_departure_s[lane, request] = clock_s


@kernel
def tokens_are_late(parameters: Parameters, state: ClusterState, lane: int, request: int) -> bool:
    """True where the first token, or those after it on average, missed their targets."""
    request_class = state.request_class[lane, request]
    first_s = state.request_first_token_s[lane, request]
    if first_s - state.arrival_s[lane, request] > parameters.slo_ttft_s[request_class]:
        return True
    rest = state.output_tokens[lane, request] - 1
    if rest < 1:
        return False
    return (state.clock_s[lane] - first_s) / rest > parameters.slo_tpot_s[request_class]


@kernel
def request_is_shed(state: ClusterState, lane: int, request: int) -> None:
    """The request is refused or lost for good. Leaving the system is the caller's."""
    classes = state.number_in_system.shape[1]
    request_class = int64(state.request_class[lane, request])
    state.reward_terms[lane, 3 * classes + request_class] += 1.0
    if state.request_status.shape[1] > 0:
        state.request_status[lane, request] = _SHED
