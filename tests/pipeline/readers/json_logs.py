"""What the tests of JSON logs share: the public traces, and a round trip through a writer."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.pipeline.readers.writers import MISSING, SimulatedLog

TRACES = os.environ.get("TRACES_DIR", "")
needs_traces = pytest.mark.skipif(not TRACES, reason="TRACES_DIR is not set")
Write = Callable[[SimulatedLog, Path], None]


def simulated(count: int = 30, seed: int = 1) -> SimulatedLog:
    """Requests with every field; each seventh is shed, each eleventh failed."""
    random = np.random.default_rng(seed)
    arrival_us = np.cumsum(random.integers(1, 400_000, count))
    dispatch_us = arrival_us + random.integers(0, 100_000, count)
    first_token_us = dispatch_us + random.integers(1, 50_000, count)
    departure_us = first_token_us + random.integers(1, 900_000, count)
    status = [
        "shed" if row % 7 == 6 else "failed" if row % 11 == 10 else "completed"
        for row in range(count)
    ]
    served = np.array([value == "completed" for value in status])
    instants = [
        np.where(served, values, MISSING) for values in (dispatch_us, first_token_us, departure_us)
    ]
    return SimulatedLog(
        request_id=[f"request-{row}" for row in range(count)],
        arrival_us=arrival_us,
        dispatch_us=instants[0],
        first_token_us=instants[1],
        departure_us=instants[2],
        request_class=[str(name) for name in random.choice(["fast", "slow"], count)],
        replica=[str(name) for name in random.choice(["r0", "r1"], count)],
        size=np.ones(count),
        prompt_tokens=random.integers(1, 4000, count),
        output_tokens=np.where(served, random.integers(1, 900, count), 0),
        status=status,
        batch_id=np.full(count, MISSING),
    )


def expected(log: SimulatedLog, columns: tuple[str, ...], kept: list[int]) -> list[tuple]:
    """The values of the kept rows; instants count from the first kept arrival."""
    start_us = int(min(log.arrival_us[row] for row in kept))
    return [tuple(_value(log, name, row, start_us) for name in columns) for row in kept]


def _value(log: SimulatedLog, name: str, row: int, start_us: int) -> Any:
    value = getattr(log, name)[row]
    if isinstance(value, str):
        return value
    if value == MISSING:
        return None
    return int(value) - (start_us if name.endswith("_us") else 0)


def completed(log: SimulatedLog) -> list[int]:
    """The rows of the completed requests."""
    return [row for row, status in enumerate(log.status) if status == "completed"]


def in_order(ingested: Any, columns: tuple[str, ...]) -> list[tuple]:
    """The requests in the order of their arrival."""
    frame: pl.DataFrame = ingested.tables["requests"]
    return frame.sort("arrival_us", "line").select(columns).rows()


def close(
    found: list[tuple], wanted: list[tuple], columns: tuple[str, ...], within_us: int
) -> None:
    """Fails unless instants agree within the resolution, and all else exactly."""
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        for name, value, truth in zip(columns, one, other, strict=True):
            if name.endswith("_us") and truth is not None:
                assert value is not None
                assert abs(value - truth) <= within_us, (name, value, truth)
            else:
                assert value == truth, (name, value, truth)


def notes(ingested: Any) -> str:
    """What the source says that it cannot tell."""
    return str(ingested.tables["sources"]["notes"].item())
