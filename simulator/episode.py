"""How an episode begins: clock 0, empty lanes, warm replicas, the first set-points."""

import math

import numpy as np

from simulator.observation import ReplicaState
from simulator.parameters import Parameters
from simulator.state import ClusterState, ReplicaMode, ReplicaTimer, Timer

# What is not 0 in an empty lane.
_FIRST = {
    "door_request": -1,
    "last_replica": -1,
    "last_batch_class": -1,
    "timer_s": math.inf,
    "next_timer_s": math.inf,
    "replica_timer_s": math.inf,
    "replica_event_s": math.inf,
    "fewer_since_s": math.inf,
    "request_dispatch_s": math.nan,
    "request_departure_s": math.nan,
    "request_first_token_s": math.nan,
    "request_replica": -1,
}
_DRAWN = {
    "arrival_s",
    "request_class",
    "size",
    "prompt_tokens",
    "output_tokens",
    "noise_z",
    "delay_s",
    "cold_start_s",
    "fault_s",
    "request_count",
    "horizon_s",
    "drains",
}
# What is read only below a count that is 0, and what is written before it is read.
_LEFT_AS_IT_IS = {"queue_request", "batch_request", "sequence_request", "join_s", "event_clock_s"}


def start_lanes(parameters: Parameters, state: ClusterState, starts: np.ndarray) -> None:
    """Empties the lanes where `starts [B]` is True, whose future must have been drawn."""
    lanes = slice(None) if starts.all() else starts
    for field, array in zip(state._fields, state, strict=True):
        if field not in _DRAWN and field not in _LEFT_AS_IT_IS:
            array[lanes] = _FIRST.get(field, 0)
    on = np.arange(len(parameters.max_batch_size)) < parameters.initial_replicas
    state.replica_mode[lanes] = np.where(on, ReplicaMode.UP, ReplicaMode.OFF)
    state.replicas_on[lanes] = parameters.initial_replicas
    state.replicas_paid[lanes] = parameters.initial_replicas
    state.set_batch_size[lanes] = parameters.max_batch_size.max()
    state.set_timeout_s[lanes] = parameters.batch_timeout_s
    state.set_num_seqs[lanes] = parameters.max_num_seqs.max(initial=0)
    if state.fault_s.shape[2]:
        state.replica_timer_s[lanes, :, ReplicaTimer.FAULT] = state.fault_s[lanes, :, 0]
        state.replica_event_s[lanes] = state.fault_s[lanes, :, 0]
    if parameters.at_ticks:
        state.timer_s[lanes, Timer.TICK] = parameters.tick_s
    state.timer_s[lanes, Timer.CONTROL] = parameters.control_interval_s
    if parameters.view_refresh_s > 0.0:
        state.timer_s[lanes, Timer.VIEW] = parameters.view_refresh_s
        state.last_view[lanes, :, 0] = np.where(on, ReplicaState.IDLE, ReplicaState.OFF)
    state.next_timer_s[lanes] = state.timer_s[lanes].min(axis=1)
