"""Trace files of Triton Inference Server: a JSON array, each request spread over several records.

Triton user guide "Trace". Instants are nanoseconds of a monotonic clock; a record names the model
of an id, others hold its events, in any order. The trace has no batch size, replica or failure, and
holds one request in `rate` (1,000 by default). Steps of an ensemble are requests of their own.
"""

from typing import Any

from pipeline.sources.intake import Intake
from pipeline.sources.reader import Found, Reader, Sample
from simulator.checks import check

ENSEMBLES = ("steps", "whole")


def looks_like(sample: Sample) -> str | None:
    """Why the sample is such a trace: an array with timestamps in ns and model names."""
    array = sample.head.lstrip().startswith("[")
    if array and '"timestamps"' in sample.head and '"ns"' in sample.head:
        return "a JSON array of records with timestamps in ns (Triton)"
    return None


def read(intake: Intake) -> Found:
    """The requests of the trace: from REQUEST_START on, service being the compute."""
    ensembles = intake.option("ensembles")
    rule = "must be steps (the requests of the composing models) or whole (those of the ensemble)"
    check(ensembles in ENSEMBLES, intake.key("options.ensembles"), ensembles, rule)
    skipped = 0
    for file in intake.files():
        requests = merged(_document(intake, file))
        kept = _chosen(requests, ensembles == "whole")
        skipped += len(requests) - len(kept)
        intake.documents(file, ((request["line"], request) for request in kept))
        intake.admit("triton_trace_requests", file)
    other = "ensembles, given by their steps" if ensembles == "steps" else "steps of ensembles"
    return intake.found(
        clock="monotonic",
        zone=intake.settings.zone,
        derived=("status",),
        notes=(
            f"{skipped} requests are {other}: no rows",
            "Triton traces one request in `rate` (1,000 by default): the arrival rate is that of "
            "the trace, not of the server",
            "departure is the end of the compute; sending the response is not in it",
            "failures are not told (survivor bias)",
        ),
    )


def merged(records: list[Any]) -> list[dict[str, Any]]:
    """The records of each id as one object: line of its first record, model, stamps in ns.

    `twice` names an event that the id has twice. A record without an id stays alone.
    """
    requests: dict[Any, dict[str, Any]] = {}
    for line, record in enumerate(records, 1):
        named = isinstance(record, dict) and type(record.get("id")) in (int, str)
        key = record["id"] if named else ("line", line)
        request = requests.setdefault(key, {"line": line, "stamps": {}})
        if not named:
            continue
        for name in ("id", "model_name", "request_id", "parent_id"):
            if record.get(name) is not None:
                request[name] = record[name]
        _stamp(request, record.get("timestamps", []))
    return list(requests.values())


def _stamp(request: dict[str, Any], events: Any) -> None:
    for event in events if isinstance(events, list) else [events]:
        name = event.get("name") if isinstance(event, dict) else None
        if not isinstance(name, str):
            request["twice"] = "timestamps"
        elif name in request["stamps"]:
            request["twice"] = name
        else:
            request["stamps"][name] = event.get("ns")


def _chosen(requests: list[dict[str, Any]], whole: bool) -> list[dict[str, Any]]:
    if whole:
        return [request for request in requests if _parent(request) is None]
    parents = {_parent(request) for request in requests} - {None}
    return [request for request in requests if request.get("id") not in parents]


def _parent(request: dict[str, Any]) -> int | str | None:
    """The id of the ensemble that a request is a step of; 0 is none."""
    parent = request.get("parent_id")
    return parent if type(parent) in (int, str) and parent not in (0, "", "0") else None


def _document(intake: Intake, file: Any) -> list[Any]:
    try:
        document = intake.json(file)
    except ValueError as error:
        raise ValueError(
            f"{error}; a Triton trace with the tensors of a BYTES input is no valid JSON (issue "
            "4636), nor is one that the server has not closed: trace with level=TIMESTAMPS"
        ) from None
    check(isinstance(document, list), intake.shown, type(document).__name__, "must be an array")
    return list(document)


READER = Reader(
    title="Triton trace file",
    looks_like=looks_like,
    read=read,
    options={"ensembles": "steps"},
)
