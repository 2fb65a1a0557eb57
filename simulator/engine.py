"""The event loop: what happens next in a lane, until a decision is due or the episode ends."""

import math

import numpy as np

from simulator import fifo
from simulator.action import HEAD_OF_LINE, WAIT, ActionTable
from simulator.events import (
    batch_completes,
    batch_is_dispatched,
    pass_time,
    request_arrives,
    tick_passes,
)
from simulator.jit import kernel
from simulator.observation import RESPONSE_WINDOW, Observation
from simulator.parameters import Parameters
from simulator.state import ClusterState, Ending

_RUNNING, _TRUNCATED, _TERMINATED = (
    int(Ending.RUNNING),
    int(Ending.TRUNCATED),
    int(Ending.TERMINATED),
)


@kernel
def start_episode(parameters: Parameters, state: ClusterState, lane: int) -> None:
    """Empties the lane and sets its clock to 0. Its future must have been drawn."""
    state.clock_s[lane] = 0.0
    state.ending[lane] = _RUNNING
    state.next_request[lane] = 0
    state.holds[lane] = False
    state.tick[lane] = 0
    state.next_tick_s[lane] = parameters.tick_s if parameters.at_ticks else math.inf
    state.queue_start[lane] = 0
    state.queue_length[lane] = 0
    state.number_in_system[lane] = 0
    state.batch_size[lane] = 0
    state.departure_s[lane] = math.inf
    state.expected_departure_s[lane] = 0.0
    state.last_dispatch_s[lane] = 0.0
    state.last_replica[lane] = -1
    state.arrival_rate_rps[lane] = 0.0
    state.rate_at_s[lane] = 0.0
    state.utilization[lane] = 0.0
    state.utilization_at_s[lane] = 0.0
    state.answered[lane] = 0
    state.reward_terms[lane] = 0.0
    state.request_status[lane] = 0
    state.request_dispatch_s[lane] = math.nan
    state.request_departure_s[lane] = math.nan
    state.event_count[lane] = 0


@kernel
def decision_is_due(parameters: Parameters, state: ClusterState, lane: int) -> bool:
    """True where the policy must act now, all events of this instant being past."""
    if state.holds[lane]:
        return False
    if parameters.at_ticks:
        return True
    if fifo.waiting(state, lane) == 0:
        return False
    for replica in range(state.batch_size.shape[1]):
        if state.batch_size[lane, replica] == 0:
            return True
    return False


@kernel
def advance(parameters: Parameters, state: ClusterState, lane: int) -> None:
    """Runs the lane until a decision is due or its episode ends."""
    replicas = state.departure_s.shape[1]
    requests = state.request_count[lane]
    horizon_s = state.horizon_s[lane]
    while True:
        replica = 0
        for other in range(1, replicas):
            if state.departure_s[lane, other] < state.departure_s[lane, replica]:
                replica = other
        departure_s = state.departure_s[lane, replica]
        request = state.next_request[lane]
        arrival_s = state.arrival_s[lane, request] if request < requests else math.inf
        event_s = min(departure_s, arrival_s)
        # At equal times the tick comes after the events of that instant, and the decision last.
        if event_s > state.clock_s[lane] and decision_is_due(parameters, state, lane):
            return
        tick_s = state.next_tick_s[lane]
        if min(event_s, tick_s) >= horizon_s:
            pass_time(parameters, state, lane, horizon_s)
            state.ending[lane] = _TRUNCATED
            return
        if event_s <= tick_s:
            pass_time(parameters, state, lane, event_s)
            if departure_s <= arrival_s:
                batch_completes(parameters, state, lane, replica)
            else:
                request_arrives(parameters, state, lane)
            if not parameters.at_ticks:
                state.holds[lane] = False
                state.next_tick_s[lane] = math.inf
            if state.drains[lane] and is_drained(state, lane):
                state.ending[lane] = _TERMINATED
                return
        else:
            pass_time(parameters, state, lane, tick_s)
            tick_passes(parameters, state, lane)


@kernel
def is_drained(state: ClusterState, lane: int) -> bool:
    """True where every request of the trace has arrived and none is left in the system."""
    if state.next_request[lane] < state.request_count[lane]:
        return False
    for request_class in range(state.number_in_system.shape[1]):
        if state.number_in_system[lane, request_class] > 0:
            return False
    return True


@kernel
def take_action(
    parameters: Parameters, state: ClusterState, lane: int, table: ActionTable, action: int
) -> None:
    """The decision takes effect: WAIT holds the lane, any other action dispatches a batch."""
    if action == WAIT:
        state.holds[lane] = True
        if not parameters.at_ticks:
            state.next_tick_s[lane] = state.clock_s[lane] + parameters.tick_s
        return
    request_class = table.request_class[action]
    if request_class == HEAD_OF_LINE:
        request_class = fifo.head_class(state, lane)
    batch_is_dispatched(
        parameters, state, lane, table.replica[action], request_class, table.batch_size[action]
    )
    if parameters.at_ticks:
        state.holds[lane] = True


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


@kernel
def observe(
    parameters: Parameters, state: ClusterState, lane: int, observation: Observation
) -> None:
    """Writes what the dispatcher of the lane knows now."""
    clock_s = state.clock_s[lane]
    for request_class in range(state.queue_length.shape[1]):
        length = state.queue_length[lane, request_class]
        observation.queue_length[lane, request_class] = length
        wait_s = 0.0
        if length > 0:
            wait_s = clock_s - state.arrival_s[lane, fifo.oldest(state, lane, request_class)]
        observation.oldest_wait_s[lane, request_class] = wait_s
        elapsed_s = clock_s - state.rate_at_s[lane, request_class]
        observation.arrival_rate_rps[lane, request_class] = state.arrival_rate_rps[
            lane, request_class
        ] * math.exp(-elapsed_s / parameters.rate_window_s)
    observation.head_class[lane] = fifo.head_class(state, lane)
    observation.since_dispatch_s[lane] = clock_s - state.last_dispatch_s[lane]
    observation.last_replica[lane] = state.last_replica[lane]
    observation.response_p95_s[lane] = recent_p95_s(state, lane)
    for replica in range(state.batch_size.shape[1]):
        size = state.batch_size[lane, replica]
        elapsed_s = clock_s - state.utilization_at_s[lane, replica]
        decay = math.exp(-elapsed_s / parameters.rate_window_s)
        utilization = state.utilization[lane, replica] * decay
        remaining_s = 0.0
        if size > 0:
            utilization += 1.0 - decay
            remaining_s = max(0.0, state.expected_departure_s[lane, replica] - clock_s)
        observation.can_take[lane, replica] = 1.0 if size == 0 else 0.0
        observation.in_service[lane, replica] = size
        observation.remaining_service_s[lane, replica] = remaining_s
        observation.utilization[lane, replica] = utilization


@kernel
def mark_legal(
    parameters: Parameters,
    state: ClusterState,
    lane: int,
    table: ActionTable,
    action_mask: np.ndarray,
) -> None:
    """Writes the row `[A]` of the action mask; the same rule as `action.legal_actions`.

    A truncated lane is no exception: its value is bootstrapped over what would be legal.
    """
    action_mask[lane, WAIT] = True
    anything = fifo.waiting(state, lane) > 0
    for action in range(1, len(table.replica)):
        replica = table.replica[action]
        request_class = table.request_class[action]
        has_request = (
            anything
            if request_class == HEAD_OF_LINE
            else state.queue_length[lane, request_class] > 0
        )
        action_mask[lane, action] = (
            has_request
            and state.batch_size[lane, replica] == 0
            and table.batch_size[action] <= parameters.max_batch_size[replica]
        )


@kernel
def start_lanes(
    parameters: Parameters,
    state: ClusterState,
    table: ActionTable,
    starts: np.ndarray,
    observation: Observation,
    action_mask: np.ndarray,
) -> None:
    """Starts an episode in the lanes where `starts [B]` is True and runs to its first decision."""
    for lane in range(len(starts)):
        if starts[lane]:
            start_episode(parameters, state, lane)
            advance(parameters, state, lane)
            observe(parameters, state, lane, observation)
            mark_legal(parameters, state, lane, table, action_mask)


@kernel
def step_lanes(
    parameters: Parameters,
    state: ClusterState,
    table: ActionTable,
    action: np.ndarray,
    observation: Observation,
    action_mask: np.ndarray,
    reward_terms: np.ndarray,
    holding_s: np.ndarray,
) -> None:
    """Every running lane takes its action `[B]` and runs to its next decision.

    Writes the reward terms `[B, T]` since the last decision; those of the time before the first
    decision of an episode count with its first step.
    """
    for lane in range(len(action)):
        if state.ending[lane] != _RUNNING:
            reward_terms[lane] = 0.0
            holding_s[lane] = 0.0
            continue
        since_s = state.clock_s[lane]
        take_action(parameters, state, lane, table, action[lane])
        advance(parameters, state, lane)
        holding_s[lane] = state.clock_s[lane] - since_s
        for term in range(reward_terms.shape[1]):
            reward_terms[lane, term] = state.reward_terms[lane, term]
        state.reward_terms[lane] = 0.0
        observe(parameters, state, lane, observation)
        mark_legal(parameters, state, lane, table, action_mask)
