"""Writes simulated requests as a run of vLLM that LLMServingSim recorded."""

import json
from pathlib import Path

from tests.pipeline.readers.writers import MISSING, SimulatedLog

UPTIME_S = 27_536  # of the host at time 0


def write(log: SimulatedLog, path: Path) -> None:
    """`path` holds the completed and the failed requests; a stage that was not reached is 0.

    The format carries every instant and both token counts; no class, no replica, no shed request.
    """
    lines = [json.dumps(_record(log, row)) for row, s in enumerate(log.status) if s != "shed"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _record(log: SimulatedLog, row: int) -> dict[str, object]:
    def stage(at_us: int) -> float:
        return 0.0 if at_us == MISSING else (UPTIME_S * 1_000_000 + int(at_us)) / 1e6

    return {
        "request_id": log.request_id[row],
        "input_toks": int(log.prompt_tokens[row]),
        "output_toks": int(log.output_tokens[row]),
        "arrival_time": (log.origin_us + int(log.arrival_us[row])) / 1e6,
        "queued_ts": stage(log.arrival_us[row]),
        "scheduled_ts": stage(log.dispatch_us[row]),
        "first_token_ts": stage(log.first_token_us[row]),
        "last_token_ts": stage(log.departure_us[row]),
    }
