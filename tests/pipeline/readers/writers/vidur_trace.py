"""Writes simulated requests as Vidur's traces have them."""

from pathlib import Path

from tests.pipeline.readers.writers import SimulatedLog


def write(log: SimulatedLog, path: Path) -> None:
    """A CSV file of arrivals and tokens."""
    lines = ["arrived_at,num_prefill_tokens,num_decode_tokens"]
    for row, arrival_us in enumerate(log.arrival_us.tolist()):
        lines.append(f"{arrival_us / 1e6!r},{log.prompt_tokens[row]},{log.output_tokens[row]}")
    path.write_text("\n".join(lines) + "\n")
