"""Statistics of Triton Inference Server (`v2/models/stats`): batch latency by batch size.

Triton "Statistics Extension": batch_stats has, for each batch size, how often it ran and the
cumulative ns of its compute. One snapshot counts from the start of the server; of several (one a
line, or an array) the last minus the first counts, a restart in between included. Means only: noise
and arrivals are not told. A file is one server.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from pipeline.sources.intake import Intake
from pipeline.sources.json_documents import json_values
from pipeline.sources.reader import Found, Reader, Sample
from simulator.checks import check

STAGES = ("compute_input", "compute_infer", "compute_output")
QUEUE = 0  # in place of a batch size: the queue of the model


class Key(NamedTuple):
    """What is counted."""

    model: str
    version: str
    batch_size: int  # or QUEUE


class Counters(NamedTuple):
    """How often it happened, and how long that took in all."""

    times: int
    ns: int


def looks_like(sample: Sample) -> str | None:
    """Why the sample is such statistics: model_stats and batch_stats."""
    if sample.json_text and '"model_stats"' in sample.head and '"batch_stats"' in sample.head:
        return "JSON with model_stats and batch_stats (Triton)"
    return None


def read(intake: Intake) -> Found:
    """A profile row for each model and batch size that ran."""
    files = list(intake.files())
    idle = 0
    for file in files:
        shown = f"{intake.shown}/{file.name}" if len(files) > 1 else intake.shown
        profiles = differences(shown, _snapshots(json_values(intake, file)))
        ran = [profile for profile in profiles if profile["runs"] > 0]
        idle += len(profiles) - len(ran)
        intake.documents(file, enumerate(ran, 1))
        replica = file.name.partition(".")[0] if len(files) > 1 else None
        intake.admit("triton_stats_profiles", file, replica=replica)
    return intake.found(
        clock="monotonic",
        zone=intake.settings.zone,
        notes=(
            "means by batch size: noise, arrivals and tails are not told",
            "the waiting of a model is the mean over all its batch sizes",
            f"{idle} batch sizes did not run between the first and the last snapshot: no rows",
        ),
    )


def _snapshots(values: Iterator[Any]) -> list[Any]:
    return [entry for value in values for entry in (value if isinstance(value, list) else [value])]


def differences(shown: str, snapshots: list[Any]) -> list[dict[str, Any]]:
    """For each (model, version, batch size): how often it ran, and the ns of it and of the queue.

    Last minus first snapshot; of one snapshot, all since the start of the server. A counter below
    the one before it was reset to 0 in between; a batch size that is new counts from 0. Raises
    ValueError for a snapshot that is not as the statistics extension says.
    """
    before: dict[Key, Counters] = {}
    totals: dict[Key, Counters] = {}
    for number, snapshot in enumerate(snapshots, 1):
        for key, counters in _counters(snapshot, f"{shown}: snapshot {number}"):
            base = before.get(key, counters if number == 1 < len(snapshots) else Counters(0, 0))
            if counters.times < base.times or counters.ns < base.ns:
                base = Counters(0, 0)
            held = totals.get(key, Counters(0, 0))
            totals[key] = Counters(
                held.times + counters.times - base.times, held.ns + counters.ns - base.ns
            )
            before[key] = counters
    return [
        {
            "model": key.model,
            "batch_size": key.batch_size,
            "runs": ran.times,
            "busy_ns": ran.ns,
            "waits": totals[key._replace(batch_size=QUEUE)].times,
            "waiting_ns": totals[key._replace(batch_size=QUEUE)].ns,
        }
        for key, ran in totals.items()
        if key.batch_size != QUEUE
    ]


def _counters(snapshot: Any, shown: str) -> Iterator[tuple[Key, Counters]]:
    """The cumulative counters of each model's queue and batch sizes in a snapshot."""
    for model in _list(snapshot, "model_stats", shown):
        name, version = model.get("name"), str(model.get("version", ""))
        check(isinstance(name, str), f"{shown}: name", name, "must be a text")
        place = f"{shown}: {name}"
        queue = _stage(model.get("inference_stats"), "queue", f"{place}: inference_stats")
        yield Key(str(name), version, QUEUE), queue
        for entry in _list(model, "batch_stats", place):
            size = _whole(entry.get("batch_size"), f"{place}: batch_size")
            check(size > 0, f"{place}: batch_size", size, "must be at least 1")
            stages = [_stage(entry, stage, f"{place}: batch_stats") for stage in STAGES]
            runs = stages[1].times
            yield Key(str(name), version, size), Counters(runs, sum(s.ns for s in stages))


def _list(value: Any, key: str, shown: str) -> list[dict[str, Any]]:
    entries = value.get(key) if isinstance(value, dict) else None
    holds = isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)
    check(holds, f"{shown}: {key}", entries, "must be a list of objects")
    return list(entries or [])


def _stage(value: Any, stage: str, shown: str) -> Counters:
    entry: Any = value.get(stage) if isinstance(value, dict) else None
    check(isinstance(entry, dict), f"{shown}: {stage}", entry, "must have a count and ns")
    return Counters(*(_whole(entry.get(key), f"{shown}: {stage}.{key}") for key in ("count", "ns")))


def _whole(value: Any, shown: str) -> int:
    # gRPC's JSON has 64-bit integers as texts
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    whole = text.isascii() and text.isdigit() and len(text) <= 18
    check(whole, shown, value, "must be a whole number of at least 0, of at most 18 digits")
    return int(text)


READER = Reader(title="Triton statistics", looks_like=looks_like, read=read, options={})
