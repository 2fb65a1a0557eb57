"""Serving logs made in code, and their way through ingest."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

from pipeline.schema import TABLES
from pipeline.settings import IngestSettings, SourceSettings
from pipeline.sources import read_source
from pipeline.store import read_table, warehouse_builder

SYSTEM: dict[str, Any] = {
    "format": "batchwright-serving-log",
    "version": 1,
    "origin": "2026-01-01T00:00:00+00:00",
    "zone": "UTC",
    "clock": "monotonic",
    "license": "CC0-1.0",
    "request_classes": ["fast", "slow"],
    "replicas": 2,
    "queue_capacity": 100,
    "batch_sizes": [1, 2, 4],
    "max_batch_size": 4,
    "class_choice": "any",
}
Records = list[dict[str, Any]]


class MadeLog(NamedTuple):
    """A serving log as Python records, before it is written."""

    system: dict[str, Any]
    requests: Records
    batches: Records
    decisions: Records

    def write(self, folder: Path, form: str = "jsonl") -> Path:
        """The log as a folder, its record files as JSON lines or Parquet."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "system.json").write_text(json.dumps(self.system))
        for name in ("requests", "batches", "decisions"):
            records = getattr(self, name)
            if form == "parquet":
                frame = pl.DataFrame(records, infer_schema_length=None)
                frame.write_parquet(folder / f"{name}.parquet")
            else:
                lines = "".join(json.dumps(record) + "\n" for record in records)
                (folder / f"{name}.jsonl").write_text(lines)
        return folder


def made_log(count: int = 40, seed: int = 0) -> MadeLog:
    """A valid log: each request has its own batch, every tenth is shed."""
    generator = random.Random(seed)
    log = MadeLog(dict(SYSTEM), [], [], [])
    clock_us = 0
    for number in range(count):
        clock_us += generator.randrange(1, 2000)
        request_class = generator.choice(["fast", "slow"])
        dispatch_us = clock_us + generator.randrange(100)
        departure_us = dispatch_us + generator.randrange(1000, 5000)
        shed = number % 10 == 9
        served = {
            "dispatch_us": dispatch_us,
            "departure_us": departure_us,
            "batch_id": len(log.batches),
        }
        log.requests.append(
            {
                "request_id": number,
                "arrival_us": clock_us,
                "request_class": request_class,
                "size": 1.0,
                "status": "shed" if shed else "completed",
                **(dict.fromkeys(served) if shed else served),
            }
        )
        decision = {
            "decision_id": number,
            "clock_us": clock_us,
            "queue_length": [1, 0],
            "can_take": [True, False],
            "action": 0 if shed else 1 + number % 12,
            "propensity": 0.9,
            "batch_id": None if shed else len(log.batches),
        }
        if not shed:
            batch = {
                "batch_id": len(log.batches),
                "replica": number % 2,
                "request_class": request_class,
                "batch_size": 1,
            }
            times = {"dispatch_us": dispatch_us, "departure_us": departure_us}
            log.batches.append({**batch, **times})
        log.decisions.append(decision)
    return log


class Ingested(NamedTuple):
    """The canonical tables by name."""

    tables: dict[str, pl.DataFrame]

    def rejects(self, file: str) -> list[tuple[int, str]]:
        """(line, reason) of each reject of the file whose name starts so."""
        frame = self.tables["rejects"].filter(pl.col("file").str.contains(f"/{file}", literal=True))
        return list(frame.select("line", "reason").iter_rows())


def ingest_folder(
    project: Path,
    path: str,
    limit: float = 0.99,
    out: Path | None = None,
    seed: int = 0,
    **source: Any,
) -> Ingested:
    """The tables of one source, called `log`, that lies at `path` below `project`."""
    settings = SourceSettings(**{"kind": "serving_log", "path": path, **source})
    out = out or project / "data"
    with warehouse_builder(out) as builder:
        read_source(builder, "log", settings, project, IngestSettings(limit), seed)
    return Ingested({name: read_table(out, name) for name in TABLES})


@pytest.fixture(scope="session")
def make_log() -> Callable[..., MadeLog]:
    """Makes a valid log."""
    return made_log


@pytest.fixture(scope="session")
def ingest() -> Callable[..., Ingested]:
    """Takes one source through ingest."""
    return ingest_folder
