"""Writes simulated requests as LiteLLM's StandardLoggingPayload."""

import json
from pathlib import Path
from typing import Any

from tests.pipeline.readers.writers import SimulatedLog


def write(log: SimulatedLog, path: Path) -> None:
    """`path` holds a record for each request; one that was not served ends when it starts.

    The format carries arrival, first token, departure, class, replica (as api_base), tokens and
    status; no dispatch.
    """
    lines = [json.dumps(_record(log, row)) for row in range(len(log.request_id))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _record(log: SimulatedLog, row: int) -> dict[str, Any]:
    served = log.status[row] == "completed"
    start_s = (log.origin_us + int(log.arrival_us[row])) / 1e6
    end_s = (log.origin_us + int(log.departure_us[row])) / 1e6 if served else start_s
    first_s = (log.origin_us + int(log.first_token_us[row])) / 1e6 if served else start_s
    record = {
        "id": log.request_id[row],
        "call_type": "acompletion",
        "stream": True,
        "status": "success" if served else "failure",
        "startTime": start_s,
        "endTime": end_s,
        "completionStartTime": first_s,
        "model": log.request_class[row],
        "model_group": log.request_class[row],
        "api_base": log.replica[row],
        "cache_hit": False,
        "prompt_tokens": int(log.prompt_tokens[row]),
        "completion_tokens": int(log.output_tokens[row]),
    }
    if log.status[row] == "shed":
        record["error_information"] = {"error_code": "429", "error_class": "RateLimitError"}
    return record
