"""Writes simulated requests as the Azure Functions trace of 2021 has them: by end and duration."""

from pathlib import Path

from tests.pipeline.readers.writers import SimulatedLog


def write(log: SimulatedLog, path: Path) -> None:
    """A CSV file whose app is the request class, of one function `run`."""
    lines = ["app,func,end_timestamp,duration"]
    for row, arrival_us in enumerate(log.arrival_us.tolist()):
        end_us = int(log.departure_us[row])
        lines.append(
            f"{log.request_class[row]},run,{end_us / 1e6!r},{(end_us - arrival_us) / 1e6:.6f}"
        )
    path.write_text("\n".join(lines))
