"""Writes simulated requests as the Azure LLM trace of 2023 has them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.pipeline.readers.writers import SimulatedLog


def write(log: SimulatedLog, path: Path) -> None:
    """A CSV file with seven digits and no offset, CRLF, no newline at the end."""
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for arrival_us, prompt, output in zip(
        log.arrival_us.tolist(), log.prompt_tokens, log.output_tokens, strict=True
    ):
        instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
            microseconds=log.origin_us + arrival_us
        )
        lines.append(f"{instant:%Y-%m-%d %H:%M:%S.%f}0,{prompt},{output}")
    path.write_bytes("\r\n".join(lines).encode())
