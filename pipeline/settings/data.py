"""Settings of what is read, how it is split over time, and how the simulator is calibrated."""

import math
import re
from dataclasses import dataclass

from pipeline.settings.checks import (
    CLASS_NAME,
    check_choice,
    check_name,
    check_positive,
    check_share,
)
from simulator.checks import check

SOURCE_KINDS = ("serving_log", "azure_llm")


@dataclass(frozen=True)
class SourceSettings:
    """Where a log or trace lies, and what it does not say of itself."""

    kind: str  # one of SOURCE_KINDS
    path: str  # the log's folder or the trace's file, relative to the root
    root: str = "project"  # project, or traces: the folder that TRACES_DIR names
    license: str | None = None  # null: as the log states; a trace needs it here
    zone: str = "UTC"  # IANA name, of times that state no offset
    request_class: str | None = None  # azure_llm: the class of every row; null: none
    sha256: str | None = None  # azure_llm: what the file must be; null: anything

    def __post_init__(self) -> None:
        check_choice(self, "kind", SOURCE_KINDS)
        check_choice(self, "root", ("project", "traces"))
        steps = self.path.replace("\\", "/").split("/")
        relative = bool(self.path) and steps[0] != "" and ":" not in steps[0]
        check(relative, "path", self.path, "must be relative to the root")
        check(".." not in steps, "path", self.path, "must stay inside the root, without '..'")
        if self.request_class is not None:
            check_name("request_class", self.request_class, CLASS_NAME)
        if self.sha256 is not None:
            hexadecimal = re.fullmatch("[0-9a-f]{64}", self.sha256) is not None
            check(hexadecimal, "sha256", self.sha256, "must be 64 lower-case hexadecimal digits")
        if self.kind == "azure_llm":
            check(bool(self.license), "license", self.license, "a trace must be given its license")
        else:
            for key in ("request_class", "sha256"):
                value = getattr(self, key)
                check(value is None, key, value, "is for azure_llm; a serving_log needs null")


@dataclass(frozen=True)
class IngestSettings:
    """When ingest gives up on a file."""

    max_reject_fraction: float = 0.01  # of the rows of each file

    def __post_init__(self) -> None:
        check_share(self, "max_reject_fraction")


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
    """Largest relative error of a response-time percentile of the simulator against the log."""

    p50: float = 0.15
    p95: float = 0.25
    p99: float = 0.35

    def __post_init__(self) -> None:
        check_positive(self, "p50", "p95", "p99")


@dataclass(frozen=True)
class CalibrationSettings:
    """How service times are fitted, and when the simulator counts as faithful."""

    source: str = "sample"  # a serving_log
    min_batches: int = 20  # of each request class
    replay_seeds: int = 8
    tolerance: ToleranceSettings = ToleranceSettings()

    def __post_init__(self) -> None:
        check_positive(self, "min_batches", "replay_seeds")
