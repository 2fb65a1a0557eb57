"""The arrays of a state: their axes, their types, and which of them a scenario needs."""

import numpy as np

from simulator.observation import RESPONSE_WINDOW
from simulator.scenario import QueuePlace, Scenario
from simulator.state import (
    COLD_STARTS,
    RECORD_NOTHING,
    SIGNALS,
    ClusterState,
    Recording,
    ReplicaTimer,
    Timer,
)

_TIME, _NUMBER, _FLAG = np.float64, np.int64, np.bool_
_REQUEST, _SMALL, _TINY = np.int32, np.int16, np.int8

# Axes as in ClusterState, type, and the feature without which the last axis has length 0.
_FIELDS: dict[str, tuple[str, type, str]] = {
    "arrival_s": ("BR", _TIME, ""),
    "request_class": ("BR", _SMALL, ""),
    "size": ("BR", _TIME, "batches"),
    "prompt_tokens": ("BR", _REQUEST, "tokens"),
    "output_tokens": ("BR", _REQUEST, "tokens"),
    "noise_z": ("BR", _TIME, "noise"),
    "delay_s": ("BR", _TIME, "delay"),
    "cold_start_s": ("BKX", _TIME, "starts"),
    "fault_s": ("BKF", _TIME, ""),
    "request_count": ("B", _NUMBER, ""),
    "horizon_s": ("B", _TIME, ""),
    "drains": ("B", _FLAG, ""),
    "clock_s": ("B", _TIME, ""),
    "ending": ("B", _TINY, ""),
    "next_request": ("B", _NUMBER, ""),
    "holds": ("B", _FLAG, ""),
    "door_request": ("B", _NUMBER, ""),
    "tunes": ("B", _FLAG, ""),
    "timer_s": ("B4", _TIME, ""),
    "next_timer_s": ("B", _TIME, ""),
    "timer_count": ("B4", _NUMBER, ""),
    "set_batch_size": ("B", _NUMBER, ""),
    "set_timeout_s": ("B", _TIME, ""),
    "set_num_seqs": ("B", _NUMBER, ""),
    "replicas_on": ("B", _NUMBER, ""),
    "replicas_paid": ("B", _NUMBER, ""),
    "fewer_since_s": ("B", _TIME, ""),
    "queue_request": ("BQCN", _REQUEST, ""),
    "queue_start": ("BQC", _NUMBER, ""),
    "queue_length": ("BQC", _NUMBER, ""),
    "queue_transit": ("BQC", _NUMBER, ""),
    "join_s": ("BR", _TIME, "joins"),
    "number_in_system": ("BC", _NUMBER, ""),
    "replica_mode": ("BK", _TINY, ""),
    "replica_timer_s": ("BK6", _TIME, ""),
    "replica_event_s": ("BK", _TIME, ""),
    "starts": ("BK", _NUMBER, ""),
    "faults": ("BK", _NUMBER, ""),
    "last_join_s": ("BK", _TIME, ""),
    "serving": ("BK", _FLAG, ""),
    "asks": ("BK", _FLAG, ""),
    "batch_request": ("BKSM", _REQUEST, "batches"),
    "batch_size": ("BKS", _NUMBER, "batches"),
    "batch_class": ("BKS", _NUMBER, "batches"),
    "batch_join_s": ("BKS", _TIME, "batches"),
    "batch_service_s": ("BKS", _TIME, "batches"),
    "batch_expected_s": ("BKS", _TIME, "batches"),
    "slot_start": ("BK", _NUMBER, ""),
    "slot_count": ("BK", _NUMBER, ""),
    "expected_departure_s": ("BK", _TIME, ""),
    "sequence_request": ("BKM", _REQUEST, "tokens"),
    "sequence_finish": ("BKM", _NUMBER, "tokens"),
    "sequence_prefill": ("BKM", _REQUEST, "tokens"),
    "running": ("BK", _NUMBER, ""),
    "decoding": ("BK", _NUMBER, ""),
    "kv_used": ("BK", _NUMBER, ""),
    "context": ("BK", _NUMBER, ""),
    "iteration": ("BK", _NUMBER, ""),
    "anchor_s": ("BK", _TIME, ""),
    "planned": ("BK", _NUMBER, ""),
    "generated": ("BR", _REQUEST, "tokens"),
    "last_dispatch_s": ("B", _TIME, ""),
    "last_replica": ("B", _NUMBER, ""),
    "arrived": ("BC", _NUMBER, ""),
    "arrival_rate_rps": ("BC", _TIME, ""),
    "rate_at_s": ("BC", _TIME, ""),
    "utilization": ("BK", _TIME, ""),
    "utilization_at_s": ("BK", _TIME, ""),
    "recent_response_s": ("BW", _TIME, ""),
    "answered": ("B", _NUMBER, ""),
    "batches": ("BK", _NUMBER, ""),
    "last_batch_class": ("BK", _NUMBER, ""),
    "last_batch_size": ("BK", _NUMBER, ""),
    "last_batch_s": ("BK", _TIME, ""),
    "last_view": ("BKV", _TIME, "stale"),
    "last_view_wait_s": ("BC", _TIME, "stale"),
    "reward_terms": ("BT", _TIME, ""),
    "request_status": ("BR", _TINY, "records"),
    "request_dispatch_s": ("BR", _TIME, "records"),
    "request_departure_s": ("BR", _TIME, "records"),
    "request_first_token_s": ("BR", _TIME, "tokens"),
    "request_replica": ("BR", _SMALL, "records"),
    "event_clock_s": ("BE", _TIME, ""),
    "event_kind": ("BE", _TINY, ""),
    "event_subject": ("BE", _REQUEST, ""),
    "event_count": ("B", _NUMBER, ""),
}


def empty_state(
    scenario: Scenario,
    lanes: int,
    requests: int,
    recording: Recording = RECORD_NOTHING,
    faults: int = 0,
) -> ClusterState:
    """Arrays of a state with room for `requests` requests in each lane, nothing drawn yet.

    `faults` is the number of boundaries of faults that each replica has room for.
    """
    length = _lengths(scenario, requests, recording, faults) | {"B": lanes}
    needed = _needed(scenario, recording)
    arrays: dict[str, np.ndarray] = {}
    for field, (axes, dtype, need) in _FIELDS.items():
        shape = [length[axis] for axis in axes]
        if need not in needed:
            shape[-1] = 0
        arrays[field] = np.zeros(shape, dtype)
    arrays["arrival_s"][:] = np.inf
    arrays["fault_s"][:] = np.inf
    return ClusterState(**arrays)


def _needed(scenario: Scenario, recording: Recording) -> set[str]:
    """The features of `_FIELDS` that the scenario has."""
    delayed = scenario.dispatch_delay.exists
    has = {
        "": True,
        "batches": not scenario.continuous,
        "tokens": scenario.continuous,
        "noise": scenario.has_noise,
        "delay": delayed,
        "joins": delayed and scenario.queues == QueuePlace.REPLICA,
        "starts": scenario.may_start_replicas,
        "stale": scenario.view.refresh_s > 0,
        "records": recording.requests,
    }
    return {feature for feature, present in has.items() if present}


def _lengths(
    scenario: Scenario, requests: int, recording: Recording, faults: int
) -> dict[str, int]:
    """The length of every axis but the lanes."""
    replicas, classes = len(scenario.replicas), len(scenario.request_classes)
    central = scenario.queues == QueuePlace.CENTRAL
    largest = max(
        max(r.max_batch_size, r.tokens.max_num_seqs if r.tokens else 0) for r in scenario.replicas
    )
    slots = 1 + scenario.replica_backlog
    # What faults or preemption put back into a queue finds room beyond its capacity.
    sent = slots * largest * (replicas if central else 1)
    return {
        "C": classes,
        "K": replicas,
        "R": requests,
        "Q": 1 if central else replicas,
        "N": scenario.queue_capacity + (sent if scenario.may_requeue else 0),
        "S": slots,
        "M": largest,
        "X": COLD_STARTS,
        "F": faults,
        "E": recording.events,
        "V": SIGNALS + classes,
        "W": RESPONSE_WINDOW,
        "T": 5 * classes + 3,
        "4": len(Timer),
        "6": len(ReplicaTimer),
    }
