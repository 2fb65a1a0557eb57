"""What a run leaves behind: records in memory while it lasts, then a serving log folder."""

import json
import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from simulator.workload import Arrivals

UNSET = -1  # an instant or a batch that a request does not have
_COMPRESSION_LEVEL = 22  # a log is written once and committed


class Batch(NamedTuple):
    """A dispatched batch; `departure_us` is UNSET while it is in service."""

    replica: int
    request_class: int
    batch_size: int
    dispatch_us: int
    departure_us: int


class Decision(NamedTuple):
    """What the gateway saw and did; `batch_id` is None for WAIT."""

    clock_us: int
    queue_length: tuple[int, ...]  # by class
    can_take: tuple[bool, ...]  # by replica
    action: int
    propensity: float
    batch_id: int | None


class Recording:
    """The requests, batches and decisions of one run, in microseconds from time 0 (`origin`).

    A request's number in `arrivals` is its request_id; batches are numbered as dispatched.
    """

    def __init__(self, arrivals: Arrivals) -> None:
        requests = len(arrivals.arrival_s)
        self.origin = datetime.now(UTC)
        self.request_class, self.size = arrivals.request_class, arrivals.size
        self.arrival_us = np.full(requests, UNSET, np.int64)
        self.dispatch_us = np.full(requests, UNSET, np.int64)
        self.departure_us = np.full(requests, UNSET, np.int64)
        self.batch_id = np.full(requests, UNSET, np.int64)
        self.shed = np.zeros(requests, bool)
        self.batches: list[Batch] = []
        self.decisions: list[Decision] = []
        self.decision_cost_us: list[float] = []
        self.lateness_s = np.zeros(requests)

    def arrives(self, request_id: int, clock_us: int, joined: bool) -> None:
        """The request reached the gateway, and was shed if it has not joined the queue."""
        self.arrival_us[request_id] = clock_us
        self.shed[request_id] = not joined

    def dispatches(
        self, replica: int, request_class: int, request_ids: list[int], clock_us: int
    ) -> None:
        """The next batch was sent to the replica."""
        self.dispatch_us[request_ids] = clock_us
        self.batch_id[request_ids] = len(self.batches)
        self.batches.append(Batch(replica, request_class, len(request_ids), clock_us, UNSET))

    def departs(self, batch_id: int, request_ids: list[int], clock_us: int) -> None:
        """The answer of the batch is back."""
        self.departure_us[request_ids] = clock_us
        self.batches[batch_id] = self.batches[batch_id]._replace(departure_us=clock_us)

    def counts(self) -> dict[str, int]:
        """How many requests arrived, and how many were completed, shed, and failed."""
        completed = int((self.departure_us != UNSET).sum())
        shed = int(self.shed.sum())
        arrived = int((self.arrival_us != UNSET).sum())
        return {
            "arrived": arrived,
            "completed": completed,
            "shed": shed,
            "failed": arrived - completed - shed,
        }

    def measured(self) -> dict[str, Any]:
        """Counts, and what the testbed itself cost: how late the load was, and each decision."""
        cost_us = np.array(self.decision_cost_us) if self.decision_cost_us else np.zeros(1)
        late_us = self.lateness_s * 1e6 if len(self.lateness_s) else np.zeros(1)
        return {
            **self.counts(),
            "batches": len(self.batches),
            "decisions": len(self.decisions),
            "load_lateness_us": _quantiles(late_us),
            "decision_cost_us": _quantiles(cost_us),
        }

    def requests_frame(self, class_names: tuple[str, ...]) -> pl.DataFrame:
        """The `requests` records in order of arrival."""
        answered = self.departure_us != UNSET
        status = np.where(answered, "completed", np.where(self.shed, "shed", "failed"))
        frame = pl.DataFrame(
            {
                "request_id": np.arange(len(answered)),
                "arrival_us": self.arrival_us,
                "request_class": np.array(class_names)[self.request_class],
                "size": self.size,
                "status": status,
                "dispatch_us": self.dispatch_us,
                "departure_us": self.departure_us,
                "batch_id": self.batch_id,
            }
        )
        optional = pl.col("dispatch_us", "departure_us", "batch_id")
        return frame.with_columns(pl.when(optional != UNSET).then(optional))

    def batches_frame(self, class_names: tuple[str, ...]) -> pl.DataFrame:
        """The `batches` records in order of dispatch."""
        columns = list(zip(*self.batches, strict=True)) or [()] * len(Batch._fields)
        replica, request_class, batch_size, dispatch_us, departure_us = columns
        return pl.DataFrame(
            {
                "batch_id": pl.Series(range(len(self.batches)), dtype=pl.Int64),
                "replica": pl.Series(replica, dtype=pl.Int32),
                "request_class": pl.Series(
                    [class_names[number] for number in request_class], dtype=pl.String
                ),
                "batch_size": pl.Series(batch_size, dtype=pl.Int32),
                "dispatch_us": pl.Series(dispatch_us, dtype=pl.Int64),
                "departure_us": pl.Series(departure_us, dtype=pl.Int64),
            }
        )

    def decisions_frame(self) -> pl.DataFrame:
        """The `decisions` records in order of their clocks."""
        columns = list(zip(*self.decisions, strict=True)) or [()] * len(Decision._fields)
        clock_us, queue_length, can_take, action, propensity, batch_id = columns
        return pl.DataFrame(
            {
                "decision_id": pl.Series(range(len(self.decisions)), dtype=pl.Int64),
                "clock_us": pl.Series(clock_us, dtype=pl.Int64),
                "queue_length": pl.Series(queue_length, dtype=pl.List(pl.Int32)),
                "can_take": pl.Series(can_take, dtype=pl.List(pl.Boolean)),
                "action": pl.Series(action, dtype=pl.Int32),
                "propensity": pl.Series(propensity, dtype=pl.Float64),
                "batch_id": pl.Series(batch_id, dtype=pl.Int64),
            }
        )


def _quantiles(values: np.ndarray) -> dict[str, float]:
    median, p95, largest = np.quantile(values, [0.5, 0.95, 1.0]).round(1).tolist()
    return {"median": median, "p95": p95, "max": largest}


def check_target(folder: Path, replace: bool) -> None:
    """Raises ValueError where a log may not be written to `folder`."""
    if not folder.exists():
        return
    if not (folder / "system.json").is_file():
        raise ValueError(f"out = {str(folder)!r}: exists and is not a serving log; choose another")
    if not replace:
        raise ValueError(f"out = {str(folder)!r}: has a log already; add --replace to replace it")


def write_serving_log(
    folder: Path, recording: Recording, system: dict[str, Any], card: str, replace: bool = False
) -> None:
    """The folder holds the serving log: written beside it, then renamed.

    An old log is moved aside first and deleted last.
    """
    check_target(folder, replace)
    folder.parent.mkdir(parents=True, exist_ok=True)
    class_names = tuple(system["request_classes"])
    frames = {
        "requests": recording.requests_frame(class_names),
        "batches": recording.batches_frame(class_names),
        "decisions": recording.decisions_frame(),
    }
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as beside:
        fresh = Path(beside) / "log"
        fresh.mkdir()
        (fresh / "system.json").write_text(json.dumps(system, indent=2) + "\n", encoding="utf-8")
        (fresh / "CARD.md").write_text(card, encoding="utf-8")
        for name, frame in frames.items():
            frame.write_parquet(
                fresh / f"{name}.parquet",
                compression="zstd",
                compression_level=_COMPRESSION_LEVEL,
                row_group_size=max(len(frame), 1),
            )
        if folder.exists():
            os.replace(folder, Path(beside) / "old")
        os.replace(fresh, folder)
