"""How the tests of CSV traces read them, and simulated requests with what such traces can carry."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pipeline.readers.writers import MISSING, SimulatedLog

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
TRACES = os.environ.get("TRACES_DIR")
needs_traces = pytest.mark.skipif(
    not TRACES, reason="TRACES_DIR is not set: it must name the folder of the public traces"
)


def values(frame: Any, *columns: str) -> list[tuple]:
    """The rows in the order of the lines of their files."""
    return frame.sort("file", "line").select(*columns).rows()


def rejects(ingested: Any) -> list[tuple[int, str]]:
    """(line, reason) of each reject, all files together."""
    return values(ingested.tables["rejects"], "line", "reason")


def source(ingested: Any) -> dict[str, Any]:
    """The row of `sources`."""
    return ingested.tables["sources"].row(0, named=True)


def simulated_trace(resolution_us: int, count: int = 50, seed: int = 5) -> SimulatedLog:
    """Requests whose times are multiples of the resolution; every tenth fails."""
    generator = np.random.default_rng(seed)
    steps = generator.integers(0, 2_000, size=(3, count)) * resolution_us
    arrival_us = np.cumsum(steps[0])
    first_token_us = arrival_us + steps[1]
    failed = np.arange(count) % 10 == 9
    return SimulatedLog(
        request_id=[str(row) for row in range(count)],
        arrival_us=arrival_us,
        dispatch_us=np.full(count, MISSING),
        first_token_us=first_token_us,
        departure_us=first_token_us + steps[2],
        request_class=[("GPT-4", "ChatGPT")[row % 2] for row in range(count)],
        replica=[""] * count,
        size=np.ones(count),
        prompt_tokens=generator.integers(1, 9_000, size=count),
        output_tokens=np.where(failed, 0, generator.integers(1, 900, size=count)),
        status=["failed" if fails else "completed" for fails in failed],
        batch_id=np.full(count, MISSING),
    )


def check_round_trip(
    requests: Any, log: SimulatedLog, columns: tuple[str, ...], origin_us: int = 0
) -> None:
    """Raises AssertionError unless ingest returned the columns, times from the origin."""
    rows = len(log.arrival_us)
    expected = {
        name: [
            value - origin_us if name.endswith("_us") else value
            for value in np.asarray(getattr(log, name)).tolist()
        ]
        for name in columns
    }
    found = requests.sort("line")
    assert len(found) == rows
    for name in columns:
        assert found[name].to_list() == expected[name], name


Ingest = Callable[..., Any]
