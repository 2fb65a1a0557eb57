"""Writes simulated requests as a RAGPulse trace."""

import json
from pathlib import Path

from tests.pipeline.readers.writers import SimulatedLog

NO_BLOCKS: dict[str, list[int]] = {
    name: [] for name in ("sys_prompt", "passages_ids", "history", "web_search", "user_input")
}


def write(log: SimulatedLog, path: Path) -> None:
    """`path` holds the completed requests: arrival in whole seconds (rounded down), tokens."""
    lines = [
        json.dumps(
            {
                "timestamp": str(int(log.arrival_us[row]) // 1_000_000),
                "input_length": int(log.prompt_tokens[row]),
                "output_length": int(log.output_tokens[row]),
                "hash_ids": NO_BLOCKS,
                "session_id": log.request_class[row],
            }
        )
        for row, status in enumerate(log.status)
        if status == "completed"
    ]
    path.write_text("\n".join(lines) + "\n\n", encoding="utf-8")
