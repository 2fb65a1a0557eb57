"""Writes simulated requests as a Mooncake trace."""

import json
from pathlib import Path

from tests.pipeline.readers.writers import SimulatedLog


def write(log: SimulatedLog, path: Path) -> None:
    """`path` holds the completed requests: arrival in whole milliseconds (rounded down), tokens."""
    lines = [
        json.dumps(
            {
                "timestamp": int(log.arrival_us[row]) // 1000,
                "input_length": int(log.prompt_tokens[row]),
                "output_length": int(log.output_tokens[row]),
                "hash_ids": list(range(-(-int(log.prompt_tokens[row]) // 512))),
            }
        )
        for row, status in enumerate(log.status)
        if status == "completed"
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
