"""Writes simulated batches as statistics of Triton Inference Server."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.pipeline.readers.writers import SimulatedLog


def write(log: SimulatedLog, path: Path) -> None:
    """`path` holds one snapshot after the last request: runs and ns by class and batch size.

    The format carries the mean batch latency by class and batch size, and mean waiting by class.
    """
    members: dict[int, list[int]] = defaultdict(list)
    for row, status in enumerate(log.status):
        if status == "completed":
            members[int(log.batch_id[row])].append(row)
    models = [_model(log, name, members) for name in sorted(set(log.request_class))]
    path.write_text(json.dumps({"model_stats": models}), encoding="utf-8")


def _model(log: SimulatedLog, name: str, members: dict[int, list[int]]) -> dict[str, Any]:
    by_size: dict[int, list[int]] = defaultdict(list)
    waiting_us: list[int] = []
    for rows in members.values():
        if log.request_class[rows[0]] == name:
            by_size[len(rows)].append(int(log.departure_us[rows[0]] - log.dispatch_us[rows[0]]))
            waiting_us += [int(log.dispatch_us[row] - log.arrival_us[row]) for row in rows]
    queue = {"count": len(waiting_us), "ns": 1000 * sum(waiting_us)}
    return {
        "name": name,
        "version": "1",
        "inference_stats": {"queue": queue},
        "batch_stats": [
            {
                "batch_size": size,
                "compute_input": {"count": len(taken_us), "ns": 0},
                "compute_infer": {"count": len(taken_us), "ns": 1000 * sum(taken_us)},
                "compute_output": {"count": len(taken_us), "ns": 0},
            }
            for size, taken_us in sorted(by_size.items())
        ],
    }
