"""Simulated requests, and writers that put them into the formats of logs, one module a format."""

from typing import NamedTuple

import numpy as np

MISSING = -1  # an instant, a batch or a count that a request does not have


class SimulatedLog(NamedTuple):
    """Requests as a simulator or a hand made them, in the order of their arrival."""

    request_id: list[str]  # [R]
    arrival_us: np.ndarray  # [R] from the start of the log
    dispatch_us: np.ndarray  # [R] MISSING where not dispatched, as in the next two
    first_token_us: np.ndarray  # [R]
    departure_us: np.ndarray  # [R]
    request_class: list[str]  # [R]
    replica: list[str]  # [R]
    size: np.ndarray  # [R]
    prompt_tokens: np.ndarray  # [R] MISSING where there are none
    output_tokens: np.ndarray  # [R]
    status: list[str]  # [R] completed, shed or failed
    batch_id: np.ndarray  # [R]
    origin_us: int = 1_780_000_000_000_000  # time 0 on the wall clock, since 1970
