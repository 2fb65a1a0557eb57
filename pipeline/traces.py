"""Public traces of arrivals, read at run time from the folder that TRACES_DIR names.

They are not in the repository. A trace stands in a description as a workload of its own `kind`:
windows of a stretch of the file, each entered at a uniform instant.
"""

import math
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import polars as pl

from simulator.checks import check
from simulator.workload import Arrivals, TraceWorkload

_HOME = "https://github.com/Azure/AzurePublicDataset"
_INSTANT = r"^\s*(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(\.\d+)?(?:Z|\+00:00)?\s*$"


def missing_file(file: str, origin: str) -> str | None:
    """What has to be done before a trace can be read; None where its file is there."""
    folder = os.environ.get("TRACES_DIR", "")
    if not folder:
        told = f"not set; it must name the folder that holds {file}; get it from {origin}"
        return f"TRACES_DIR: {told}"
    if not (Path(folder) / file).is_file():
        return f"{file}: no such file in the folder that TRACES_DIR names; get it from {origin}"
    return None


@dataclass(frozen=True)
class Trace(ABC):
    """The stretch [from_s, to_s) of a trace of one request class, time 0 at its start.

    `rate_scale` above 1 compresses time, which raises the rate and keeps the shape.
    """

    file: str  # below the folder that TRACES_DIR names
    from_s: float
    to_s: float
    rate_scale: float = 1.0
    origin: ClassVar[str] = _HOME  # where a user gets it

    def __post_init__(self) -> None:
        steps = self.file.replace("\\", "/").split("/")
        relative = bool(self.file) and steps[0] != "" and ":" not in steps[0]
        rule = "must be a path below TRACES_DIR, without '..'"
        check(relative and ".." not in steps, "file", self.file, rule)
        check(math.isfinite(self.to_s), "to_s", self.to_s, "must be finite")
        rule = f"must be from 0 to below to_s, {self.to_s!r}"
        check(0 <= self.from_s < self.to_s, "from_s", self.from_s, rule)
        scale = self.rate_scale
        holds = math.isfinite(scale) and scale > 0
        check(holds, "rate_scale", scale, "must be positive and finite")

    def read(self) -> TraceWorkload:
        """Windows of the stretch; ValueError where the file is missing or is not such a trace."""
        missing = missing_file(self.file, self.origin)
        if missing:
            raise ValueError(missing)
        root = Path(os.environ["TRACES_DIR"]).resolve()
        path = (root / self.file).resolve()
        check(path.is_relative_to(root), "file", self.file, "leads out of TRACES_DIR")
        try:
            rows = pl.read_csv(path, infer_schema=False)
        except pl.exceptions.PolarsError as error:
            raise ValueError(f"{self.file}: is not CSV: {str(error).splitlines()[0]}") from None
        for name in self._columns():
            rule = f"the header must name {', '.join(self._columns())}"
            check(name in rows.columns, f"{self.file}: header", ",".join(rows.columns), rule)
        check(len(rows) > 0, f"{self.file}: rows", 0, "has a header only")
        everything = self._arrivals(rows.select(self._columns()))
        last_s = float(everything.arrival_s[-1]) if len(everything.arrival_s) else 0.0
        rule = f"must be at most {last_s:g}, the last arrival in {self.file}"
        check(self.to_s <= last_s, "to_s", self.to_s, rule)
        arrivals = everything.window(self.from_s, self.to_s)
        told = f"no request arrives before {self.to_s:g} s in {self.file}"
        check(len(arrivals.arrival_s) > 0, "from_s", self.from_s, told)
        return TraceWorkload(arrivals, self.to_s - self.from_s, self.rate_scale)

    @abstractmethod
    def _columns(self) -> tuple[str, ...]:
        """The columns that are needed; others may stand beside them."""

    @abstractmethod
    def _arrivals(self, rows: pl.DataFrame) -> Arrivals:
        """All requests of the trace from its texts, in the order of their arrival."""

    def _checked(self, parsed: pl.DataFrame, valid: pl.Expr, rule: str) -> pl.DataFrame:
        """The rows; ValueError with the line of the first that is not valid."""
        bad = parsed.with_row_index("row").filter(~valid.fill_null(False))
        if len(bad):
            told = f"{len(bad)} of {len(parsed)} rows are not valid"
            check(False, f"{self.file}: line {bad['row'][0] + 2}", told, rule)
        return parsed


def _whole(column: str) -> pl.Expr:
    return pl.col(column).str.strip_chars().cast(pl.Int64, strict=False)


@dataclass(frozen=True)
class AzureLlmTrace(Trace):
    """Azure LLM inference traces of 2023 and 2024: instants, prompt tokens and output tokens.

    Patel et al., Splitwise (ISCA 2024). Time 0 is the first row.
    """

    def _columns(self) -> tuple[str, ...]:
        return ("TIMESTAMP", "ContextTokens", "GeneratedTokens")

    def _arrivals(self, rows: pl.DataFrame) -> Arrivals:
        stamp = pl.col("TIMESTAMP").str
        second = stamp.extract(_INSTANT, 1).str.replace("T", " ")
        # The seventh digit of the fraction is beyond the resolution of datetimes: parsed apart.
        fraction = stamp.extract(_INSTANT, 2).fill_null("0").cast(pl.Float64, strict=False)
        parsed = rows.select(
            second.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False).dt.epoch("s").alias("s"),
            fraction.alias("fraction"),
            _whole("ContextTokens").alias("prompt"),
            _whole("GeneratedTokens").alias("output"),
        )
        valid = pl.col("s").is_not_null() & (pl.col("prompt") >= 1) & (pl.col("output") >= 1)
        parsed = self._checked(parsed, valid, "needs an instant in UTC and a token each way")
        # Whole seconds are subtracted first: a fraction added to 1.7e9 loses its last digits.
        whole_s = (parsed["s"] - parsed["s"].min()).to_numpy()
        instant_s = whole_s + parsed["fraction"].to_numpy()
        order = np.argsort(instant_s, kind="stable")
        instant_s = instant_s[order]
        return Arrivals(
            instant_s - instant_s[:1],
            np.zeros(len(order), np.int64),
            np.ones(len(order)),
            parsed["prompt"].to_numpy()[order],
            parsed["output"].to_numpy()[order],
        )


@dataclass(frozen=True)
class AzureFunctionsTrace(Trace):
    """Azure Functions invocations of two weeks in January 2021; the durations are not used.

    Zhang et al., Faster and Cheaper Serverless Computing on Harvested Resources (SOSP 2021). A
    call arrives `duration` before `end_timestamp`; time 0 is that of the trace.
    """

    origin: ClassVar[str] = (
        f"{_HOME} (AzureFunctionsInvocationTraceForTwoWeeksJan2021.rar, unpacked)"
    )

    def _columns(self) -> tuple[str, ...]:
        return ("end_timestamp", "duration")

    def _arrivals(self, rows: pl.DataFrame) -> Arrivals:
        parsed = rows.select(
            pl.col(name).str.strip_chars().cast(pl.Float64, strict=False)
            for name in self._columns()
        )
        valid = pl.col("end_timestamp").is_finite() & pl.col("duration").is_finite()
        rule = "needs an end and a duration of at least 0, in seconds"
        parsed = self._checked(parsed, valid & (pl.col("duration") >= 0), rule)
        start_s = np.sort((parsed["end_timestamp"] - parsed["duration"]).to_numpy())
        return Arrivals(start_s, np.zeros(len(start_s), np.int64), np.ones(len(start_s)))
