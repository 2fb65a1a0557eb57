"""Writes simulated requests as a trace file of Triton Inference Server."""

import json
from pathlib import Path
from typing import Any

from tests.pipeline.readers.writers import SimulatedLog

UPTIME_NS = 5_000_000_000_000  # of the host at time 0


def write(log: SimulatedLog, path: Path) -> None:
    """`path` holds the completed requests, each as a record of its model and two of events.

    The format carries arrival, dispatch, departure and class; no replica, no tokens.
    """
    records: list[dict[str, Any]] = []
    for row, status in enumerate(log.status):
        if status != "completed":
            continue
        model = {"model_name": log.request_class[row], "model_version": 1}
        departure_us = int(log.departure_us[row])
        compute = [("COMPUTE_START", int(log.dispatch_us[row])), ("COMPUTE_END", departure_us)]
        request = [("REQUEST_START", int(log.arrival_us[row])), ("REQUEST_END", departure_us + 20)]
        records += [
            {"id": row + 1, **model, "request_id": log.request_id[row]},
            {"id": row + 1, "timestamps": _events(compute)},
            {"id": row + 1, "timestamps": _events(request)},
        ]
    path.write_text(json.dumps(records), encoding="utf-8")


def _events(instants_us: list[tuple[str, int]]) -> list[dict[str, Any]]:
    return [{"name": name, "ns": UPTIME_NS + 1000 * at_us} for name, at_us in instants_us]
