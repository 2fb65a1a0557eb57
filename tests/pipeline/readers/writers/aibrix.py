"""Writes simulated requests as the client log of AIBrix has them."""

from pathlib import Path

from tests.pipeline.readers.writers import SimulatedLog

HEADER = (
    "prompt_tokens,generation_tokens,ttft,generation_time,user_id,question_id,launch_time,"
    "finish_time"
)


def write(log: SimulatedLog, path: Path) -> None:
    """A CSV file of floats."""
    lines = [HEADER]
    for row, arrival_us in enumerate(log.arrival_us.tolist()):
        first_us, end_us = int(log.first_token_us[row]), int(log.departure_us[row])
        launch_us, finish_us = log.origin_us + arrival_us, log.origin_us + end_us
        lines.append(
            f"{float(log.prompt_tokens[row])},{float(log.output_tokens[row])},"
            f"{(first_us - arrival_us) / 1e6!r},{(end_us - first_us) / 1e6!r},1,{row},"
            f"{launch_us / 1e6!r},{finish_us / 1e6!r}"
        )
    path.write_text("\n".join(lines) + "\n")
