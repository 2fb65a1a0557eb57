"""Writes simulated requests as responses of vLLM with --enable-per-request-metrics."""

import json
from pathlib import Path
from typing import Any

from tests.pipeline.readers.writers import SimulatedLog


def write(log: SimulatedLog, path: Path) -> None:
    """`path` holds each response under `response`, beside `received`, its arrival in Unix seconds.

    The format carries every instant of a completed request, its class, and its tokens; of a shed or
    failed one, the arrival and the error code.
    """
    lines = [json.dumps(_record(log, row)) for row in range(len(log.request_id))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _record(log: SimulatedLog, row: int) -> dict[str, Any]:
    received = (log.origin_us + int(log.arrival_us[row])) / 1e6
    if log.status[row] != "completed":
        code = 503 if log.status[row] == "shed" else 500
        return {"received": received, "response": {"error": {"message": "no", "code": code}}}
    arrival_us, dispatch_us, first_us, departure_us = (
        int(instants[row])
        for instants in (log.arrival_us, log.dispatch_us, log.first_token_us, log.departure_us)
    )
    prompt, output = int(log.prompt_tokens[row]), int(log.output_tokens[row])
    response = {
        "id": log.request_id[row],
        "object": "chat.completion",
        "created": int(received),
        "model": log.request_class[row],
        "choices": [],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "total_tokens": prompt + output,
        },
        "metrics": {
            "time_to_first_token_ms": (first_us - dispatch_us) / 1e3,
            "generation_time_ms": (departure_us - first_us) / 1e3,
            "queue_time_ms": (dispatch_us - arrival_us) / 1e3,
        },
    }
    return {"received": received, "response": response}
