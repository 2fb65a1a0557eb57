"""What ran while a log was written: as its system.json says, or as the log shows."""

import math
from typing import Any

import numpy as np
import polars as pl

from pipeline.calibration.log_batches import IDLE
from pipeline.calibration.logged_policy.system import LONGEST_MENU

_US = 1e6
_LEAST_CAPACITY = 1000


def system_of_log(
    names: list[str],
    replicas: list[str],
    arrays: dict[str, np.ndarray],
    sizes: np.ndarray,
    batches_from: str,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The facts that a system.json would state, and in sentences what is assumed among them.

    `sizes [n]` are the requests of each batch. The policy is left out: it is recognized from the
    decisions, or unknown. The menu is of the sizes that were sent, so that set-points which are
    read off them are on it; where they are many it is powers of two and the largest.
    """
    count = max(1, len(replicas))
    menu = {1} if batches_from == IDLE else {1, *np.unique(sizes[sizes > 0]).tolist()}
    largest = max(menu)
    if len(menu) > LONGEST_MENU:
        menu = {1 << power for power in range(largest.bit_length())} | {largest}
    waited = max(_LEAST_CAPACITY, 2 * _most_in_system(arrays))
    system = {
        "request_classes": names,
        "replicas": count,
        "replica_names": replicas,
        "queue_capacity": waited,
        "batch_sizes": sorted(menu),
        "max_batch_size": largest,
        "class_choice": "any",
        "decision_epochs": "events",
        "tick_s": 0.005,
        "rate_window_s": 1.0,
    }
    return system, (
        f"one central queue of {waited} places: the log does not say how many may wait",
        f"batches of at most {largest}: the largest in the log",
    )


def _most_in_system(arrays: dict[str, np.ndarray]) -> int:
    """Most requests that were in the system at once, of those that were answered."""
    answered = ~np.isnan(arrays["departure_s"])
    arrival_s, departure_s = arrays["arrival_s"][answered], np.sort(arrays["departure_s"][answered])
    gone = np.searchsorted(departure_s, arrival_s, side="right")
    return int((np.arange(1, len(arrival_s) + 1) - gone).max(initial=0))


def duration_s(system: dict[str, Any], requests: pl.DataFrame) -> float:
    """The logged time: as system.json says, or up to the last arrival where it does not.

    It reaches past the last arrival in any case: a load generator that runs late sends its last
    requests after the end that was asked for.
    """
    told = system.get("duration_s")
    after_last_arrival_s = (requests["arrival_us"].to_numpy().max() + 1) / _US
    if told is None:
        told = after_last_arrival_s
    elif not (isinstance(told, int | float) and math.isfinite(told) and told > 0):
        raise ValueError(
            f"system.json: duration_s = {told!r}: must be positive and finite, or null"
        )
    return float(max(told, after_last_arrival_s))
