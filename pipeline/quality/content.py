"""What is in a source: classes, outcomes, rate over time, and which facts are told how often."""

import math
from collections import Counter
from typing import NamedTuple

import polars as pl

WINDOWS = 60  # of the rate over time, at most
CLASSES = 20  # that are told apart, the most frequent
OTHERS = "(others)"
NO_CLASS = "(none)"
_NICE_S = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300),
    *(600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400),
)
# A fact, and the columns that tell it.
TELLS = {
    "arrival": ("arrival_us",),
    "queue": ("dispatch_us",),
    "service": ("dispatch_us", "departure_us"),
    "response": ("departure_us",),
    "first_token": ("first_token_us",),
    "batch": ("batch_id",),
    "replica": ("replica",),
    "tokens": ("prompt_tokens", "output_tokens"),
    "size": ("size",),
    "request_class": ("request_class",),
    "status": ("status",),
}


class Fact(NamedTuple):
    """How often a fact is told."""

    origin: str  # measured, derived or absent
    coverage: float  # share of the completed requests that tell it


class Rate(NamedTuple):
    """Arrivals in windows of equal length."""

    start_us: int
    window_s: float
    requests: dict[str, list[int]]  # by class; the last window may be cut short

    def whole_windows(self) -> dict[str, list[int]]:
        """Without the last window, whose rate would look like a drop, unless it is the only one."""
        return {name: rows[:-1] or rows for name, rows in self.requests.items()}


class Batches(NamedTuple):
    """The batches that a source states."""

    batches: int
    smallest: int
    largest: int


class Content(NamedTuple):
    """What the rows of a source hold."""

    classes: dict[str, int]  # requests of each, most frequent first
    more_classes: int  # that are together in (others)
    status: dict[str, int]
    replicas: int
    sizes_differ: bool
    facts: dict[str, Fact]
    rate: Rate
    batches: Batches | None


def content_of(
    requests: pl.LazyFrame, batches: pl.LazyFrame, derived: list[str], span_us: tuple[int, int]
) -> Content:
    """What the canonical tables of one source hold; `span_us` are its first and last arrival."""
    first_us, last_us = span_us
    window_s = _window_s((last_us - first_us) / 1e6)
    width_us = round(window_s * 1e6)
    groups = (
        requests.group_by(
            ((pl.col("arrival_us") - first_us) // width_us).alias("window"),
            "request_class",
            "status",
        )
        .len("rows")
        .collect(engine="streaming")
        .with_columns(pl.col("request_class").fill_null(NO_CLASS))
    )
    by_class = _totals(groups, "request_class")
    shown = dict(list(by_class.items())[:CLASSES])
    if len(by_class) > CLASSES:
        shown[OTHERS] = sum(by_class.values()) - sum(shown.values())
    rate = _rate(groups, shown, (last_us - first_us) // width_us + 1)
    status = _totals(groups, "status")
    told, replicas = _told(requests, batches, status)
    size = pl.col("size")
    sizes_differ = requests.select((size.min() < size.max()).fill_null(False))
    return Content(
        shown,
        max(0, len(by_class) - CLASSES),
        status,
        replicas,
        bool(sizes_differ.collect(engine="streaming").item()) if told["size"] else False,
        {name: _fact(name, told[name], derived) for name in TELLS},
        Rate(first_us, window_s, rate),
        _batches(requests, batches, told["batch"] > 0),
    )


def _told(
    requests: pl.LazyFrame, batches: pl.LazyFrame, status: dict[str, int]
) -> tuple[dict[str, float], int]:
    """The share of completed requests (of all, if none was) that tell each fact; the replicas."""
    served = status.get("completed", 0) or sum(status.values())
    if served < sum(status.values()):
        requests = requests.filter(pl.col("status") == "completed")
    counts = requests.select(
        pl.col(columns[0]).count().alias(name)
        if len(columns) == 1
        else pl.all_horizontal(pl.col(*columns).is_not_null()).sum().alias(name)
        for name, columns in TELLS.items()
    )
    row = counts.collect(engine="streaming").row(0, named=True)
    told = {name: row[name] / served for name in TELLS}
    named_by = requests
    if row["replica"] == 0:  # a log may name the replica of each batch instead
        named_by, told["replica"] = batches, told["batch"]
    names = named_by.select(pl.col("replica").drop_nulls().n_unique())
    replicas = int(names.collect(engine="streaming").item()) if told["replica"] else 0
    return (told if replicas else {**told, "replica": 0.0}), replicas


def _fact(name: str, coverage: float, derived: list[str]) -> Fact:
    if coverage == 0.0:
        return Fact("absent", 0.0)
    return Fact("derived" if name in derived else "measured", coverage)


def _totals(groups: pl.DataFrame, column: str) -> dict[str, int]:
    totals = groups.group_by(column).agg(pl.col("rows").sum())
    return dict(totals.sort([pl.col("rows"), pl.col(column)], descending=[True, False]).iter_rows())


def _rate(groups: pl.DataFrame, shown: dict[str, int], windows: int) -> dict[str, list[int]]:
    rate = {name: [0] * windows for name in shown}
    counted: Counter[tuple[str, int]] = Counter()
    for window, name, rows in groups.select("window", "request_class", "rows").iter_rows():
        counted[name if name in shown else OTHERS, window] += rows
    for (name, window), rows in counted.items():
        rate[name][window] = rows
    return rate


def _window_s(span_s: float) -> float:
    """A round length of which at most `WINDOWS` cover the span."""
    least = max(span_s * (1 + 1e-9) / WINDOWS, _NICE_S[0])
    nice = [length for length in _NICE_S if length >= least and span_s // length < WINDOWS]
    return float(nice[0]) if nice else 86400.0 * math.ceil(span_s / WINDOWS / 86400.0 + 1e-9)


def _batches(requests: pl.LazyFrame, batches: pl.LazyFrame, named: bool) -> Batches | None:
    """The batches that the source has rows of, or that its requests name."""
    size = pl.col("batch_size")
    limits = (pl.len().alias("batches"), size.min().alias("low"), size.max().alias("high"))
    count, low, high = batches.select(limits).collect(engine="streaming").row(0)
    if count == 0 and named:
        members = requests.drop_nulls("batch_id").group_by("batch_id").len("batch_size")
        count, low, high = members.select(limits).collect(engine="streaming").row(0)
    return Batches(count, low, high) if count else None
