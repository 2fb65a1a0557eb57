"""How the tests of text logs read them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from tests.pipeline.readers.writers import MISSING, SimulatedLog

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def rows(ingested: Any, *columns: str) -> list[tuple]:
    """The requests in the order of the file's lines."""
    return ingested.tables["requests"].sort("file", "line").select(*columns).rows()


def origin(ingested: Any) -> str:
    """The instant of time 0."""
    return ingested.tables["sources"]["origin"].item()


def rejects(ingested: Any) -> list[tuple[int, str]]:
    """(line, reason) of each reject, all files together."""
    return ingested.tables["rejects"].sort("file", "line").select("line", "reason").rows()


def written(folder: Path, name: str, *lines: str) -> Path:
    """A file of these lines in the folder."""
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


def simulated_log(resolution_us: int = 1, count: int = 40) -> SimulatedLog:
    """Requests whose times are multiples of the resolution; every 7th is shed, every 9th failed."""
    generator = np.random.default_rng(3)
    steps = generator.integers(1, 900, size=(3, count)) * max(resolution_us, 37)
    arrival_us = np.cumsum(steps[0]) // resolution_us * resolution_us
    dispatch_us = arrival_us + steps[1] // resolution_us * resolution_us
    departure_us = dispatch_us + steps[2] // resolution_us * resolution_us
    number = np.arange(count)
    shed = number % 7 == 6
    return SimulatedLog(
        request_id=[f"id-{row:04d}" for row in range(count)],
        arrival_us=arrival_us,
        dispatch_us=np.where(shed, MISSING, dispatch_us),
        first_token_us=np.full(count, MISSING),
        departure_us=np.where(shed, MISSING, departure_us),
        request_class=[("fast", "slow")[row % 2] for row in range(count)],
        replica=[f"10.0.0.{1 + row % 3}:8000" for row in range(count)],
        size=np.ones(count),
        prompt_tokens=np.full(count, MISSING),
        output_tokens=np.where(shed, MISSING, generator.integers(1, 200, size=count)),
        status=[
            "shed" if row % 7 == 6 else "failed" if row % 9 == 8 else "completed"
            for row in range(count)
        ],
        batch_id=np.full(count, MISSING),
    )


def end_stamped(log: SimulatedLog) -> list[tuple[int, datetime, int]]:
    """(row, end, duration in us) by end; a shed request ends as it arrives."""
    rows = []
    for row, arrival_us in enumerate(log.arrival_us.tolist()):
        end_us = arrival_us if log.status[row] == "shed" else int(log.departure_us[row])
        end = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=log.origin_us + end_us)
        rows.append((row, end, end_us - arrival_us))
    return sorted(rows, key=lambda entry: (entry[1], entry[0]))


def expected(log: SimulatedLog, *columns: str, kept: list[int] | None = None) -> list[tuple]:
    """The requests as ingest gives them, by arrival, time 0 being the first one's arrival.

    `kept` are the rows that the format can carry; None: all.
    """
    kept = list(range(len(log.request_id))) if kept is None else kept
    start_us = min(int(log.arrival_us[row]) for row in kept)

    def value(column: str, row: int) -> Any:
        found = getattr(log, column)[row]
        if isinstance(found, str):
            return found
        if found == MISSING:
            return None
        return int(found) - (start_us if column.endswith("_us") else 0)

    return [tuple(value(column, row) for column in columns) for row in kept]


def by_arrival(ingested: Any, *columns: str) -> list[tuple]:
    """The requests in the order of their arrivals."""
    return ingested.tables["requests"].select(*columns).rows()
