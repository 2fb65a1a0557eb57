"""Two sources that were read before, joined by request id: a gateway's log and an engine's.

A gateway sees when a request arrives, what became of it and when the answer was sent; the engine
behind it sees when service began, first tokens, batches and tokens. Their clocks differ: the offset
is estimated (see clock_offset) and reported, never assumed. Both logs are held in memory.
"""

from datetime import datetime
from typing import Any

import polars as pl

from pipeline.quality.resolution import time_step_us
from pipeline.sources.clock_offset import Offset, estimate_offset, in_words
from pipeline.sources.intake import Intake
from pipeline.sources.join import Match, check_pattern, joined_rows, match, pairs_of
from pipeline.sources.reader import Found, Reader, Sample
from pipeline.store import scan_table
from simulator.checks import check, checked_number

MOST_VIOLATING = 0.05  # share of pairs that may fit no common offset
_REPEATED = "request_id: seen before"


def looks_like(sample: Sample) -> str | None:
    """None: what is joined is two sources, no file."""
    return None


def read(intake: Intake) -> Found:
    """The gateway's requests with what the engine says of them are in `requests`."""
    logs = {role: _log(intake, role) for role in ("gateway", "engine")}
    pattern = intake.option("engine_id")
    if pattern is not None:
        check_pattern(intake.key("options.engine_id"), pattern)
    matched = match(logs["gateway"], logs["engine"], pattern)
    if matched.pairs.is_empty():
        raise ValueError(f"{intake.key('options')}: {_no_match(logs)}")
    offset = estimate_offset(pairs_of(matched), _tolerance_us(intake, logs))
    check(
        offset.violating_share <= MOST_VIOLATING,
        intake.key("options"),
        f"{offset.violating_share:.2%} of the pairs do not nest",
        f"must be at most {MOST_VIOLATING:.0%}: ids of other requests, a clock that was set, or "
        "one that rounds (options.tolerance_s)",
    )
    intake.frame(joined_rows(matched, offset))
    gateway = intake.option("gateway")
    table = intake.tables / "requests" / f"{gateway}.parquet"
    intake.admit("joined_requests", table, origin_us=0)
    facts = _facts(intake, "gateway")
    return intake.found(
        clock=facts["clock"],
        zone=facts["zone"],
        origin=facts["origin"],
        derived=("queue", "service"),
        notes=_notes(intake, matched, offset),
        license=_license(intake),
    )


def _log(intake: Intake, role: str) -> pl.DataFrame:
    """The requests of the gateway or the engine; ValueError unless that source was read before."""
    name = intake.option(role)
    key = intake.key(f"options.{role}")
    read_before = sorted(file.stem for file in (intake.tables / "requests").glob("*.parquet"))
    rule = f"must be a source that run.sources names before {intake.name}"
    check(name in read_before, key, name, f"{rule}; these are {', '.join(read_before) or 'none'}")
    return scan_table(intake.tables.parent, "requests", name).collect()


def _facts(intake: Intake, role: str) -> dict[str, Any]:
    table = scan_table(intake.tables.parent, "sources", intake.option(role))
    return table.collect().row(0, named=True)


def _license(intake: Intake) -> str | None:
    stated = {_facts(intake, role)["license"] for role in ("gateway", "engine")} - {None}
    return " and ".join(sorted(stated)) or None


def _tolerance_us(intake: Intake, logs: dict[str, pl.DataFrame]) -> float:
    """What is set, or the sum of the steps that the clocks of the two logs show."""
    given = intake.option("tolerance_s")
    if given is not None:
        return checked_number(intake.key("options.tolerance_s"), given) * 1e6
    steps_us = (time_step_us(log["arrival_us"].to_numpy()) for log in logs.values())
    return float(sum(step_us or 0 for step_us in steps_us))


def _no_match(logs: dict[str, pl.DataFrame]) -> str:
    shown = {role: log["request_id"].drop_nulls().head(1).to_list() for role, log in logs.items()}
    if not all(shown.values()):
        without = " and ".join(role for role, ids in shown.items() if not ids)
        return f"the log of the {without} has no request_id"
    return (
        f"no request_id is in both logs, such as {shown['gateway'][0]!r} of the gateway and "
        f"{shown['engine'][0]!r} of the engine; engine_id can cut the one out of the other"
    )


def _notes(intake: Intake, matched: Match, offset: Offset) -> tuple[str, ...]:
    requests, pairs = len(matched.requests), len(matched.pairs)
    later = matched.attempts - pairs
    repeated = (
        scan_table(intake.tables.parent, "rejects", intake.option("engine"))
        .filter(pl.col("reason") == _REPEATED)
        .select(pl.len())
        .collect()
        .item()
    )
    return (
        f"matched: {pairs:,} of {requests:,} requests of the gateway ({pairs / requests:.2%}), "
        f"{matched.attempts:,} of {matched.engine_rows:,} rows of the engine "
        f"({matched.attempts / matched.engine_rows:.2%})",
        in_words(offset) + _of_wall_clocks(intake, offset),
        f"retries: {later:,} rows of the engine are of a request with a later or successful one, "
        f"which is taken; {repeated:,} more with an id seen before were rejected when it was read",
        "times in the engine are known within the uncertainty of the offset, and queue and service "
        "times with them; service ends with the gateway's answer, network included",
    )


def _of_wall_clocks(intake: Intake, offset: Offset) -> str:
    """How far the engine's clock is ahead, where both logs state instants of wall clocks."""
    facts = [_facts(intake, role) for role in ("gateway", "engine")]
    try:
        gateway, engine = (datetime.fromisoformat(each["origin"]) for each in facts)
    except ValueError:
        return ""
    if {each["clock"] for each in facts} != {"wall"} or not (gateway.tzinfo and engine.tzinfo):
        return ""
    ahead_s = (engine - gateway).total_seconds() - offset.offset_us / 1e6
    return f"; so the engine's wall clock is {ahead_s:+.6f} s ahead of the gateway's"


READER = Reader(
    title="Two sources joined",
    looks_like=looks_like,
    read=read,
    options={"gateway": None, "engine": None, "engine_id": None, "tolerance_s": None},
)
