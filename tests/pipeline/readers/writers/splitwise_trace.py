"""Writes simulated requests as traces of the Splitwise simulator have them."""

from pathlib import Path

from tests.pipeline.readers.writers import SimulatedLog


def write(log: SimulatedLog, path: Path) -> None:
    """A CSV file of arrivals and tokens."""
    lines = [
        "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size"
    ]
    for row, arrival_us in enumerate(log.arrival_us.tolist()):
        tokens = f"{log.prompt_tokens[row]},{log.output_tokens[row]}"
        lines.append(f"{log.request_id[row]},2,0,{arrival_us / 1e6!r},1,{tokens}")
    path.write_text("\n".join(lines))
