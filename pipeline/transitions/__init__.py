"""Transitions: what a behavior policy saw, did and got, one Parquet row a decision.

Every episode ends with one closing row, the observation after its last decision: a truncated
episode is bootstrapped from it.
"""

from pipeline.transitions.files import Transitions, read_transitions, write_transitions
from pipeline.transitions.recording import Run, record_transitions, scenario_digest
from pipeline.transitions.schema import ActionMeaning, TransitionSchema, transition_schema

__all__ = [
    "ActionMeaning",
    "Run",
    "TransitionSchema",
    "Transitions",
    "read_transitions",
    "record_transitions",
    "scenario_digest",
    "transition_schema",
    "write_transitions",
]
