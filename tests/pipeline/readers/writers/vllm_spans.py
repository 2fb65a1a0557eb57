"""Writes simulated requests as spans `llm_request` of vLLM."""

from pathlib import Path

from tests.pipeline.readers.writers import SimulatedLog
from tests.pipeline.readers.writers.otlp import span, write_lines


def write(log: SimulatedLog, path: Path, unit_us: float = 1e6) -> None:
    """`path` holds a line for each completed request; `unit_us` is the unit of latencies in us.

    The format carries every instant, the class, the replica (as host) and the tokens.
    """
    groups = []
    for row, status in enumerate(log.status):
        if status != "completed":
            continue
        start_us = int(log.arrival_us[row])
        values = {
            "gen_ai.request.id": log.request_id[row],
            "gen_ai.response.model": log.request_class[row],
            "gen_ai.usage.prompt_tokens": int(log.prompt_tokens[row]),
            "gen_ai.usage.completion_tokens": int(log.output_tokens[row]),
            "gen_ai.latency.time_in_queue": float(log.dispatch_us[row] - start_us) / unit_us,
            "gen_ai.latency.time_to_first_token": float(log.first_token_us[row] - start_us)
            / unit_us,
            "gen_ai.latency.e2e": float(log.departure_us[row] - start_us) / unit_us,
        }
        end_us = log.origin_us + int(log.departure_us[row]) + 150
        made = span(row + 1, "llm_request", log.origin_us + start_us, end_us, values)
        groups.append(({"service.name": "vllm", "host.name": log.replica[row]}, [made]))
    write_lines(path, groups)
