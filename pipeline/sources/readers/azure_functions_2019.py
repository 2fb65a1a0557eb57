"""Azure Functions 2019: calls of a function by the minute, from which requests are drawn.

github.com/Azure/AzurePublicDataset. Files of one day: invocations_per_function_md.anon.dNN.csv
(HashOwner, HashApp, HashFunction, Trigger, `1`..`1440`) and function_durations_percentiles (mean of
a function in ms). No arrival inside a minute is known, so `spread` is an assumption, drawn with the
run's seed and noted. Some functions come twice in a day, some have no duration, and a duration that
reads 0 although calls were counted was not measured.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipeline.randomness import stream
from pipeline.sources.drawing import SPREADS, spread_within, text_rows
from pipeline.sources.intake import Intake
from pipeline.sources.reader import Found, Reader, Sample
from simulator.checks import check, check_whole

FUNCTION = ["HashOwner", "HashApp", "HashFunction"]
MINUTE_US, MINUTES, DAY_US = 60_000_000, 1440, 86_400_000_000
CLASSES = ("trigger", "function", "app")
Durations = dict[tuple[str, ...], float | None]  # None: in the file, but not known


class Drawing(NamedTuple):
    """What the options ask for, and what was met meanwhile."""

    spread: str
    class_by: str
    first_minute: int  # of each day, from 1
    last_minute: int
    max_requests: int
    generator: np.random.Generator
    met: Counter[str]


def looks_like(sample: Sample) -> str | None:
    """Why the sample is a trace of Azure Functions of 2019, or None."""
    if sample.header[:6] == [*FUNCTION, "Trigger", "1", "2"]:
        return "its header names HashOwner, HashApp, HashFunction, Trigger and the minutes 1, 2, .."
    if any("invocations_per_function" in name for name in sample.names):
        return "it has files called invocations_per_function"
    return None


def read(intake: Intake) -> Found:
    """The drawn requests are in `requests`; time 0 is the beginning of day 1."""
    drawing = _drawing(intake)
    files = intake.files()
    days = {_day(file): file for file in files if "invocations" in file.name}
    invocations = [file for file in files if "invocations" in file.name]
    rule = "must have files called *invocations*, one a day"
    check(0 < len(days) == len(invocations), intake.shown, [f.name for f in files], rule)
    service = intake.option("service")
    check(service in ("none", "average"), intake.key("options.service"), service, "none or average")
    tables = {_day(file): file for file in files if "durations" in file.name}
    for day, file in sorted(days.items()):
        known: Durations = {}
        if service == "average":
            rule = f"needs the durations of day {day} beside the invocations"
            check(day in tables, intake.key("options.service"), service, rule)
            known = _durations(tables[day], drawing.met)
        intake.documents(file, _requests(file, day, known, drawing))
        intake.admit("azure_functions_2019_requests", file, origin_us=0, day=day)
    derived = ("arrival", "status") + (("service",) if service == "average" else ())
    return intake.found(
        clock="monotonic",
        zone=intake.settings.zone,
        derived=derived,
        notes=_notes(drawing, service),
    )


def _drawing(intake: Intake) -> Drawing:
    values = {key: intake.option(key) for key in ("spread", "class_by")}
    for key, choices in (("spread", SPREADS), ("class_by", CLASSES)):
        rule = f"must be one of {', '.join(choices)}"
        check(values[key] in choices, intake.key(f"options.{key}"), values[key], rule)
    minutes = intake.option("minutes")
    holds = isinstance(minutes, list | tuple) and len(minutes) == 2
    holds = holds and all(isinstance(m, int) and 1 <= m <= MINUTES for m in minutes)
    rule = "must be the first and the last minute of each day, in 1 .. 1440"
    check(holds and minutes[0] <= minutes[1], intake.key("options.minutes"), minutes, rule)
    most = intake.option("max_requests")
    check_whole(intake.key("options.max_requests"), most, 1)
    generator = stream(intake.seed, "azure_functions_2019", intake.name)
    return Drawing(
        values["spread"], values["class_by"], minutes[0], minutes[1], most, generator, Counter()
    )


def _day(file: Path) -> int:
    match = re.search(r"\.d(\d\d)\.csv", file.name)
    return int(match.group(1)) if match else 1


def _durations(file: Path, met: Counter[str]) -> Durations:
    """The mean duration of each function in us; None where the file contradicts itself."""
    rows = text_rows(file)
    _, header = next(rows, (0, []))
    rule = "must begin with HashOwner, HashApp, HashFunction, Average, Count"
    check(header[:5] == [*FUNCTION, "Average", "Count"], f"{file.name}: header", header[:5], rule)
    known: Durations = {}
    for line, cells in rows:
        try:
            average_ms, count = float(cells[3]), float(cells[4])
        except (IndexError, ValueError):
            raise ValueError(f"{file.name}: line {line}: Average or Count: not a number") from None
        rule = "must be finite and at least 0"
        check(0 <= average_ms < float("inf"), f"{file.name}: Average", average_ms, rule)
        key = tuple(cells[:3])
        unmeasured = average_ms == 0 and count > 0
        met["twice in the durations, read as unknown"] += key in known
        met["with mean duration 0 though called, read as unknown"] += unmeasured
        known[key] = None if key in known or unmeasured else average_ms * 1000
    return known


def _requests(
    file: Path, day: int, known: Durations, drawing: Drawing
) -> Iterator[tuple[int, dict[str, Any]]]:
    """A document for each drawn request, and one with the fault for each row that has one."""
    rows = text_rows(file)
    _, header = next(rows, (0, []))
    expected = [*FUNCTION, "Trigger", *(str(minute) for minute in range(1, MINUTES + 1))]
    rule = f"must be {', '.join(expected[:5])} .. {MINUTES}"
    check(header == expected, f"{file.name}: header", [*header[:6], len(header)], rule)
    seen: set[tuple[str, ...]] = set()
    number = 0
    for line, cells in rows:
        key, fault = tuple(cells[:3]), _fault(cells)
        if fault is None and key in seen:
            fault = "HashFunction: seen before in this day"
        seen.add(key)
        if fault is not None:
            number += 1
            yield number, {"row": line, "fault": fault, "function": "/".join(key)[:200]}
            continue
        drawing.met["without a duration"] += bool(known) and key not in known
        for document in _row_requests(cells, day, known.get(key), drawing):
            number += 1
            drawing.met["requests"] += 1
            rule = "is too few: narrow options.minutes, or raise it"
            most = drawing.max_requests
            check(drawing.met["requests"] <= most, "options.max_requests", most, rule)
            yield number, document


def _fault(cells: list[str]) -> str | None:
    if len(cells) != len(FUNCTION) + 1 + MINUTES:
        return "row: has not as many cells as the header"
    if not all(re.fullmatch("[0-9]{1,9}", cell) for cell in cells[4:]):
        return "1 .. 1440: must be whole numbers of at least 0"
    return None


def _row_requests(
    cells: list[str], day: int, duration_us: float | None, drawing: Drawing
) -> Iterator[dict[str, Any]]:
    start = drawing.first_minute - 1
    counts = np.array(cells[4 + start : 4 + drawing.last_minute], dtype=np.int64)
    rule = "is too few for one function; narrow options.minutes, or raise it"
    check(counts.sum() <= drawing.max_requests, "options.max_requests", drawing.max_requests, rule)
    inside_us = spread_within(counts, MINUTE_US, drawing.spread, drawing.generator)
    named = {"trigger": cells[3], "app": "/".join(cells[:2]), "function": "/".join(cells[:3])}
    named_class = {"class": named[drawing.class_by], "class_by": drawing.class_by}
    for arrival_us in ((day - 1) * DAY_US + start * MINUTE_US + inside_us).tolist():
        departure_us = None if duration_us is None else arrival_us + round(duration_us)
        yield {"arrival_us": arrival_us, "departure_us": departure_us, **named_class}


def _notes(drawing: Drawing, service: str) -> tuple[str, ...]:
    called = ", ".join(
        f"{count} functions {what}"
        for what, count in sorted(drawing.met.items())
        if what != "requests" and count
    )
    return (
        f"requests are drawn, {drawing.spread} inside each minute, with the run's seed: rows are "
        "requests, and functions where they are rejected",
        f"minutes {drawing.first_minute} to {drawing.last_minute} of each day",
        f"service: {service}" + (f" of a function on that day; {called}" if called else ""),
        "calls are counted after execution, failed ones are not told apart",
    )


READER = Reader(
    title="Azure Functions trace of 2019",
    looks_like=looks_like,
    read=read,
    options={
        "spread": "uniform",
        "class_by": "trigger",
        "service": "none",
        "minutes": [1, MINUTES],
        "max_requests": 5_000_000,
    },
)
