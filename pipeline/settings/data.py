"""Settings of what is read, how it is split over time, and how the simulator is calibrated."""

import math
import re
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pipeline.settings.checks import (
    CLASS_NAME,
    check_choice,
    check_name,
    check_positive,
    check_share,
)
from simulator.checks import check

READERS_FOLDER = Path(__file__).resolve().parents[1] / "sources" / "readers"
# A kind is the name of its reader's file.
SOURCE_KINDS = tuple(
    sorted(file.stem for file in READERS_FOLDER.glob("*.py") if file.stem != "__init__")
)
AUTO = "auto"  # the reader is found by a look at the file
SHA256 = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class FetchSettings:
    """A public file that the fetch stage may download, and how it is known to be the right one."""

    url: str
    bytes: int | None = None
    sha256: str | None = None

    def __post_init__(self) -> None:
        check(self.url.startswith("https://"), "url", self.url, "must begin with https://")
        check_positive(self, "bytes")
        _check_sha256(self.sha256)


@dataclass(frozen=True)
class SourceSettings:
    """Where a log or trace lies, and what it does not say of itself."""

    kind: str  # one of SOURCE_KINDS, or auto
    path: str  # the log's folder or file, relative to the root
    root: str = "project"  # project, or traces: the folder that TRACES_DIR names
    license: str | None = None  # null: as the log states, or none
    zone: str = "UTC"  # IANA name, of times that state no offset
    request_class: str | None = None  # of every request; null: as the log says
    classes: dict[str, str] = field(default_factory=dict)  # a name in the log is this class
    sha256: str | None = None  # what the file must be; null: anything
    dequantize_s: float | None = None  # arrivals are spread over so much; null: left as they are
    options: dict[str, Any] = field(default_factory=dict)  # of the reader
    fetch: dict[str, FetchSettings] = field(default_factory=dict)  # by file name

    def __post_init__(self) -> None:
        check_choice(self, "kind", (*SOURCE_KINDS, AUTO))
        check_choice(self, "root", ("project", "traces"))
        steps = self.path.replace("\\", "/").split("/")
        relative = bool(self.path) and steps[0] != "" and ":" not in steps[0]
        check(relative, "path", self.path, "must be relative to the root")
        check(".." not in steps, "path", self.path, "must stay inside the root, without '..'")
        try:
            ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError):
            check(False, "zone", self.zone, "must be an IANA time zone")
        for key, name in (("request_class", self.request_class), *self.classes.items()):
            if name is not None:
                check_name(key, name, CLASS_NAME)
        _check_sha256(self.sha256)
        step_s = self.dequantize_s
        check(step_s is None or step_s >= 1e-6, "dequantize_s", step_s, "must be at least 1e-6")
        for name in self.fetch:
            plain = re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]*", name) is not None
            check(plain, "fetch", name, "must be the plain name of a file")


def _check_sha256(value: str | None) -> None:
    holds = value is None or SHA256.fullmatch(value) is not None
    check(holds, "sha256", value, "must be 64 lower-case hexadecimal digits")


@dataclass(frozen=True)
class IngestSettings:
    """When ingest gives up on a file."""

    max_reject_fraction: float = 0.01  # of the rows of each file
    max_response_s: float = 86_400.0  # a longer one is a broken record: it is rejected

    def __post_init__(self) -> None:
        check_share(self, "max_reject_fraction")
        check_positive(self, "max_response_s")


@dataclass(frozen=True)
class SplitSettings:
    """Shares of the logged time, in this order; never shuffled."""

    train: float = 0.5
    validation: float = 0.2
    test: float = 0.3

    def __post_init__(self) -> None:
        check_positive(self, "train", "validation", "test")
        total = self.train + self.validation + self.test
        check(math.isclose(total, 1.0), "train + validation + test", total, "must be 1")


@dataclass(frozen=True)
class ToleranceSettings:
    """Largest relative error of the simulator against the log, of response and token times."""

    mean: float = 0.2
    p50: float = 0.15
    p95: float = 0.25
    p99: float = 0.35
    throughput: float = 0.1  # departures per second

    def __post_init__(self) -> None:
        check_positive(self, "mean", "p50", "p95", "p99", "throughput")


@dataclass(frozen=True)
class EngineSettings:
    """What is known of the engines behind the log; null: as the log shows.

    A limit that the log never reached cannot be seen in it: state it where you know it.
    """

    replicas: int | None = None  # how many, if the log does not name them
    max_num_seqs: int | None = None  # sequences that run at once on each
    kv_capacity_tokens: int | None = None  # of the memory of each
    max_batched_tokens: int | None = None  # of an iteration
    routing: str | None = None  # shortest_queue or round_robin; null: what retells the log better

    def __post_init__(self) -> None:
        check_positive(self, "replicas", "max_num_seqs", "kv_capacity_tokens", "max_batched_tokens")
        check_choice(self, "routing", (None, "shortest_queue", "round_robin"))


@dataclass(frozen=True)
class CalibrationSettings:
    """How service times are fitted, and when the simulator counts as faithful."""

    source: str = "sample"  # any source with departures
    min_batches: int = 20  # of each request class
    replay_seeds: int = 32  # replays of the log, each with other noise
    bands: tuple[float, ...] = (0.7, 1.0)  # edges between load bands, of offered load
    min_requests: int = 500  # of a class in a load band, below which the band cannot stop the run
    tolerance: ToleranceSettings = ToleranceSettings()
    on_failure: str = "stop"  # or warn: go on with a simulator that misses the log
    engine: EngineSettings = EngineSettings()
    service: str | None = None  # whole_batch: though the log tells of tokens; null: as it tells

    def __post_init__(self) -> None:
        check_positive(self, "min_batches", "replay_seeds", "min_requests")
        check_choice(self, "on_failure", ("stop", "warn"))
        check_choice(self, "service", (None, "whole_batch"))
        edges = (0.0, *self.bands)
        ascend = all(low < high < math.inf for low, high in pairwise(edges))
        check(ascend, "bands", self.bands, "must be above 0 and ascend")
