"""The quality of one source, from its canonical tables."""

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from pipeline.quality.content import Content, content_of
from pipeline.quality.order import Order, distinct_before_spread, order_of
from pipeline.quality.uses import Others, Use, uses_of
from pipeline.store import scan_table

REASONS = 20  # of rejects that are told apart, the most frequent
_SPREAD = re.compile(r"arrivals are spread uniformly over (\S+) s")


class Reason(NamedTuple):
    """Why rows of a file were rejected."""

    file: str
    reason: str
    rows: int
    first_line: int


class Spread(NamedTuple):
    """What de-quantization did; the rest of the report is of what it left."""

    width_s: float
    distinct_before: int
    ties_before: int


class SourceQuality(NamedTuple):
    """What there is to know of a source before it is trusted."""

    source: str
    kind: str
    license: str | None
    clock: str
    zone: str
    origin: str
    notes: list[str]
    files: list[dict[str, Any]]  # with rows read, kept and rejected of each
    rows_read: int
    rows_kept: int
    rows_rejected: int
    rejects: list[Reason]
    order: Order | None  # None: the source has no requests
    content: Content | None
    spread: Spread | None
    survivors: str  # whether failures are in it
    uses: dict[str, Use]


def source_quality(data: Path, source: str) -> SourceQuality:
    """The quality of the source whose tables are below `data`. Reads them in blocks and streams.

    Raises FileNotFoundError where the source was not ingested.
    """
    facts = scan_table(data, "sources", source).collect().row(0, named=True)
    derived, notes = json.loads(facts["derived"]), json.loads(facts["notes"])
    requests = scan_table(data, "requests", source)
    order = order_of(requests)
    content = None
    if order is not None:
        batches = scan_table(data, "batches", source)
        content = content_of(requests, batches, derived, (order.first_us, order.last_us))
    return SourceQuality(
        **{name: facts[name] for name in ("source", "kind", "license", "clock", "zone", "origin")},
        notes=notes,
        files=json.loads(facts["files"]),
        rows_read=facts["rows_read"],
        rows_kept=facts["rows_kept"],
        rows_rejected=facts["rows_rejected"],
        rejects=_reasons(scan_table(data, "rejects", source)),
        order=order,
        content=content,
        spread=_spread(requests, order, notes, facts["origin"]),
        survivors=_survivors(content, derived),
        uses=uses_of(order, content, _others(data, source)),
    )


def _reasons(rejects: pl.LazyFrame) -> list[Reason]:
    found = rejects.group_by("file", "reason").agg(
        pl.len().alias("rows"), pl.col("line").min().alias("first_line")
    )
    order = [pl.col("rows"), pl.col("file"), pl.col("first_line"), pl.col("reason")]
    sorted_rows = found.sort(order, descending=[True, False, False, False]).head(REASONS)
    return [Reason(**row) for row in sorted_rows.collect(engine="streaming").to_dicts()]


def _others(data: Path, source: str) -> Others:
    sizes = scan_table(data, "profiles", source).select(pl.col("batch_size").unique().sort())
    starts = scan_table(data, "cold_starts", source).select((pl.col("cold_start_us") > 0).sum())
    decisions = scan_table(data, "decisions", source).select(pl.len())
    return Others(
        tuple(sizes.collect()["batch_size"].to_list()),
        int(starts.collect(engine="streaming").item()),
        int(decisions.collect(engine="streaming").item()),
    )


def _spread(
    requests: pl.LazyFrame, order: Order | None, notes: list[str], origin: str
) -> Spread | None:
    """The ties that the log had before its arrivals were spread; None where they were not."""
    found = next((match for note in notes if (match := _SPREAD.match(note))), None)
    if found is None or order is None:
        return None
    width_us = round(float(found.group(1)) * 1e6)
    distinct = distinct_before_spread(requests, width_us, _instant_us(origin))
    return Spread(width_us / 1e6, distinct, order.rows - distinct)


def _instant_us(origin: str) -> int:
    """Time 0 on the source's clock, us; 0 where it is no instant."""
    try:
        return round(float(origin) * 1e6)
    except ValueError:
        pass
    try:
        instant = datetime.fromisoformat(origin)
    except ValueError:
        return 0
    return round(instant.timestamp()) * 1_000_000 + instant.microsecond if instant.tzinfo else 0


def _survivors(content: Content | None, derived: list[str]) -> str:
    """Whether the log has failures, without which its response times are of survivors."""
    if content is None:
        return "the source holds no requests"
    rows = sum(content.status.values())
    bad = rows - content.status.get("completed", 0)
    if bad:
        parts = [
            f"{content.status[name]:,} {name}"
            for name in ("shed", "failed")
            if name in content.status
        ]
        return f"failures are in the log: {' and '.join(parts)} ({bad / rows:.2%})"
    told = ", as far as the format tells" if "status" in derived else ""
    cause = f"none in {rows:,} requests{told}"
    return f"failures are absent ({cause}): response times and counts are of survivors"
