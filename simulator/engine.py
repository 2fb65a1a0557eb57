"""The event loop: what happens next in a lane, until a decision is due or the episode ends."""

import math

import numpy as np

from simulator import fifo
from simulator.action import HEAD_OF_LINE, KEPT, WAIT, ActionTable
from simulator.batching_rule import asked_rules_start, can_take
from simulator.bookkeeping import log_event, pass_time, request_is_shed, set_timer
from simulator.events import (
    control_passes,
    hold_is_released,
    replica_acts,
    request_arrives,
    request_is_routed,
    tick_passes,
    timer_is_set_again,
)
from simulator.fifo import CENTRAL
from simulator.jit import entry_kernel, int64, kernel, rare_kernel, single_kernel
from simulator.observation import Observation
from simulator.parameters import DISPATCH, ROUTE, TUNE, Parameters
from simulator.scaling import replicas_are_wanted
from simulator.service.whole_batch import batch_is_dispatched
from simulator.signals import mark_legal, observe, view_is_refreshed
from simulator.state import (
    ClusterState,
    Ending,
    EventKind,
    ReplicaMode,
    ReplicaTimer,
    Timer,
)

_RUNNING, _TRUNCATED, _TERMINATED = (
    int64(Ending.RUNNING),
    int64(Ending.TRUNCATED),
    int64(Ending.TERMINATED),
)
_BATCH, _VIEW, _CONTROL, _TICK = (
    int64(Timer.BATCH),
    int64(Timer.VIEW),
    int64(Timer.CONTROL),
    int64(Timer.TICK),
)
_FAULT, _UP, _OFF = (
    int64(ReplicaTimer.FAULT),
    int64(ReplicaMode.UP),
    int64(ReplicaMode.OFF),
)
_SET_POINTS, _SHED = int64(EventKind.SET_POINTS), int64(EventKind.REQUEST_SHED)


@kernel
def dispatch_is_due(parameters: Parameters, state: ClusterState, lane: int) -> bool:
    """True where a `dispatch` decision must be taken, all events of this instant being past."""
    if state.holds[lane]:
        return False
    if parameters.at_ticks:
        return True
    if fifo.waiting(state, lane, CENTRAL) == 0:
        return False
    for replica in range(state.replica_mode.shape[1]):
        if can_take(parameters, state, lane, replica):
            if parameters.plain:
                return True
            for request_class in range(state.queue_length.shape[2]):
                if (
                    state.queue_length[lane, 0, request_class] > 0
                    and parameters.serves[replica, request_class]
                ):
                    return True
    return False


@kernel
def next_replica(state: ClusterState, lane: int) -> int:
    """The replica at which something happens next by itself, the lowest number among equals."""
    replica: int = int64(0)
    earliest_s = state.replica_event_s[lane, 0]
    for other in range(1, state.replica_event_s.shape[1]):
        if state.replica_event_s[lane, other] < earliest_s:
            replica, earliest_s = other, state.replica_event_s[lane, other]
    return replica


@single_kernel
def advance(parameters: Parameters, state: ClusterState, lane: int) -> None:
    """Runs the lane until a decision is due or its episode ends."""
    requests = state.request_count[lane]
    while True:
        if parameters.kind != DISPATCH:
            asked_rules_start(parameters, state, lane)
        replica = next_replica(state, lane)
        replica_s = state.replica_event_s[lane, replica]
        request = state.next_request[lane]
        arrival_s = state.arrival_s[lane, request] if request < requests else math.inf
        timer_s = state.next_timer_s[lane]
        event_s = min(replica_s, arrival_s)
        next_s = min(event_s, timer_s)
        if (
            parameters.kind == DISPATCH
            and next_s > state.clock_s[lane]
            and dispatch_is_due(parameters, state, lane)
        ):
            return
        if next_s >= state.horizon_s[lane]:
            pass_time(parameters, state, lane, state.horizon_s[lane])
            state.ending[lane] = _TRUNCATED
            return
        pass_time(parameters, state, lane, next_s)
        if event_s > timer_s:
            timer_goes_off(parameters, state, lane)
            if state.tunes[lane]:
                return
            continue
        if replica_s <= arrival_s:
            replica_acts(parameters, state, lane, replica)
        else:
            request_arrives(parameters, state, lane)
            if state.door_request[lane] >= 0:
                return
        if not parameters.at_ticks:
            hold_is_released(state, lane)
        if state.drains[lane] and is_drained(state, lane):
            state.ending[lane] = _TERMINATED
            return


@rare_kernel
def timer_goes_off(parameters: Parameters, state: ClusterState, lane: int) -> None:
    """The first timer that is due: a batch timeout of the central queue, view, control, tick."""
    timer: int = int64(0)
    while state.timer_s[lane, timer] > state.clock_s[lane]:
        timer += 1
    if timer == _BATCH:
        set_timer(state, lane, _BATCH, math.inf)
        state.asks[lane, 0] = True
    elif timer == _VIEW:
        timer_is_set_again(state, lane, _VIEW, parameters.view_refresh_s)
        view_is_refreshed(parameters, state, lane)
    elif timer == _CONTROL:
        control_passes(parameters, state, lane)
    else:
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


@rare_kernel
def take_action(
    parameters: Parameters, state: ClusterState, lane: int, table: ActionTable, action: int
) -> None:
    """The decision takes effect, by its kind; WAIT holds the lane until the next event."""
    if parameters.kind == ROUTE:
        request = state.door_request[lane]
        state.door_request[lane] = -1
        request_is_routed(parameters, state, lane, request, table.replica[action])
        if state.drains[lane] and is_drained(state, lane):
            state.ending[lane] = _TERMINATED
    elif parameters.kind == TUNE:
        set_points_change(parameters, state, lane, table, action)
    elif action == WAIT:
        state.holds[lane] = True
        if not parameters.at_ticks:
            set_timer(state, lane, _TICK, state.clock_s[lane] + parameters.tick_s)
    else:
        request_class = table.request_class[action]
        if request_class == HEAD_OF_LINE:
            request_class = fifo.head_class(state, lane, CENTRAL)
        replica, limit = table.replica[action], table.batch_size[action]
        if replica < 0:
            oldest_is_given_up(state, lane, request_class)
            return
        batch_is_dispatched(parameters, state, lane, replica, request_class, limit)
        state.holds[lane] = parameters.at_ticks


@rare_kernel
def oldest_is_given_up(state: ClusterState, lane: int, request_class: int) -> None:
    """The dispatcher sheds the oldest request of the class; it may decide again at once."""
    request = fifo.leave(state, lane, CENTRAL, request_class)
    state.number_in_system[lane, request_class] -= 1
    request_is_shed(state, lane, request)
    log_event(state, lane, _SHED, request)
    if state.drains[lane] and is_drained(state, lane):
        state.ending[lane] = _TERMINATED


@rare_kernel
def set_points_change(
    parameters: Parameters, state: ClusterState, lane: int, table: ActionTable, action: int
) -> None:
    """The set-points that the action names take their new values."""
    log_event(state, lane, _SET_POINTS, action)
    state.tunes[lane] = False
    if table.batch_size[action] != KEPT:
        state.set_batch_size[lane] = table.batch_size[action]
    if table.batch_timeout_s[action] >= 0.0:
        state.set_timeout_s[lane] = table.batch_timeout_s[action]
    before = state.set_num_seqs[lane]
    if table.max_num_seqs[action] != KEPT:
        state.set_num_seqs[lane] = table.max_num_seqs[action]
    if table.replicas_on[action] != KEPT:
        replicas_are_wanted(parameters, state, lane, table.replicas_on[action])
    changed = state.set_num_seqs[lane] != before
    for replica in range(state.replica_mode.shape[1]):
        if (
            not parameters.continuous
            or (changed and fifo.ready_in_all(state, lane, replica) > 0)
            or state.planned[lane, replica] == 0
        ):
            state.asks[lane, replica] = True


@entry_kernel
def run_lanes(
    parameters: Parameters,
    state: ClusterState,
    table: ActionTable,
    starts: np.ndarray,
    action: np.ndarray,
    observation: Observation,
    action_mask: np.ndarray,
    reward_terms: np.ndarray,
    holding_s: np.ndarray,
) -> None:
    """Lanes take their action `[B]` and run to their next decision.

    Where `starts [B]` is True a fresh lane runs to its first decision instead. An action of -1
    leaves the lane alone, as does an episode that has ended. Writes the reward terms `[B, T]` since
    the last decision; those of the time before the first decision count with the first step.
    """
    for lane in range(len(action)):
        for term in range(reward_terms.shape[1]):
            reward_terms[lane, term] = 0.0
        holding_s[lane] = 0.0
        since_s = state.clock_s[lane]
        if not starts[lane]:
            if state.ending[lane] != _RUNNING or action[lane] < 0:
                continue
            take_action(parameters, state, lane, table, action[lane])
        if state.ending[lane] == _RUNNING:
            advance(parameters, state, lane)
        if not starts[lane]:
            holding_s[lane] = state.clock_s[lane] - since_s
            for term in range(reward_terms.shape[1]):
                reward_terms[lane, term] = state.reward_terms[lane, term]
                state.reward_terms[lane, term] = 0.0
        observe(parameters, state, lane, observation)
        mark_legal(parameters, state, lane, table, observation, action_mask)
