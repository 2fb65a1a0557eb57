"""Writes simulated requests as the detail log of BurstGPT's replay client."""

import json
from pathlib import Path

from tests.pipeline.readers.writers import SimulatedLog

CLOCK_S = 14_592_657  # perf_counter at time 0


def write(log: SimulatedLog, path: Path) -> None:
    """`path` holds the completed requests in the order of their completion, keyed by their number.

    The format carries arrival, first token, departure and prompt tokens; out_len is characters.
    """
    rows = [row for row, status in enumerate(log.status) if status == "completed"]
    entries = {}
    for row in sorted(rows, key=lambda row: int(log.departure_us[row])):
        arrival_us = int(log.arrival_us[row])
        entries[str(row)] = {
            "event_id": row,
            "out_len": 4 * int(log.output_tokens[row]),
            "in_len": int(log.prompt_tokens[row]),
            "first_chunk_time": (int(log.first_token_us[row]) - arrival_us) / 1e6,
            "total_chunk_time": (int(log.departure_us[row]) - arrival_us) / 1e6,
            "record_time": (CLOCK_S * 1_000_000 + int(log.departure_us[row])) / 1e6,
        }
    path.write_text(json.dumps(entries), encoding="utf-8")
