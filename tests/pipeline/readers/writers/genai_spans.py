"""Writes simulated requests as spans of the OpenTelemetry GenAI conventions."""

from pathlib import Path

from tests.pipeline.readers.writers import MISSING, SimulatedLog
from tests.pipeline.readers.writers.otlp import span, write_lines


def write(log: SimulatedLog, path: Path) -> None:
    """`path` holds a line for each request; one that was not served takes 1 ms.

    The format carries arrival, first token, departure, class, replica (as server), tokens and
    status; no dispatch.
    """
    groups = []
    for row, status in enumerate(log.status):
        start_us = int(log.arrival_us[row])
        values = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "vllm",
            "gen_ai.request.model": log.request_class[row],
            "gen_ai.response.id": log.request_id[row],
            "gen_ai.usage.input_tokens": int(log.prompt_tokens[row]),
            "gen_ai.usage.output_tokens": int(log.output_tokens[row]),
            "server.address": log.replica[row],
        }
        end_us = start_us + 1000
        if status == "completed":
            end_us = int(log.departure_us[row])
        else:
            values["error.type"] = "429" if status == "shed" else "timeout"
        if log.first_token_us[row] != MISSING:
            first_s = float(log.first_token_us[row] - start_us) / 1e6
            values["gen_ai.response.time_to_first_chunk"] = first_s
        code = 0 if status == "completed" else 2
        instants_us = (log.origin_us + start_us, log.origin_us + end_us)
        groups.append(({}, [span(row + 1, "chat", *instants_us, values, code)]))
    write_lines(path, groups)
