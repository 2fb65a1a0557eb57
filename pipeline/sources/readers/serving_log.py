"""The Batchwright serving log, version 1: a folder of system.json and one to three record files."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.settings import CLASS_NAME, check_name
from pipeline.sources.intake import Found, Intake
from pipeline.sources.reader import Reader, Sample
from simulator.checks import check

FORMAT, VERSION = "batchwright-serving-log", 1
RECORDS = ("requests", "batches", "decisions")
FORMS = (
    *(".parquet", ".jsonl", ".jsonl.gz", ".jsonl.zst"),
    *(".csv", ".csv.gz", ".csv.zst"),  # not of decisions, which hold lists
)
CELLS = {  # of a CSV file: what must be there, and what may be
    "requests": (
        ("request_id", "arrival_us", "request_class", "size", "status"),
        (
            *("dispatch_us", "departure_us", "batch_id"),
            *("prompt_tokens", "output_tokens", "first_token_us"),
        ),
    ),
    "batches": (
        ("batch_id", "replica", "request_class", "batch_size", "dispatch_us", "departure_us"),
        (),
    ),
}
_SYSTEM = "system.json"


class System(NamedTuple):
    """What the reader needs of system.json; `text` is all of it."""

    license: str | None
    clock: str
    zone: str
    origin: str
    request_classes: list[str]
    replicas: int
    actions: int  # WAIT included
    text: str


def looks_like(sample: Sample) -> str | None:
    """A folder with the two files that a serving log cannot lack."""
    records = any(f"requests{form}" in sample.names for form in FORMS)
    return "a folder with system.json and requests" if _SYSTEM in sample.names and records else None


def read(intake: Intake) -> Found:
    """The records of the log are in the canonical tables.

    `requests` must be there and have rows; `batches` and `decisions` may be absent. Raises
    ValueError for anything that is not a serving log.
    """
    folder, shown = intake.path, intake.shown
    check(folder.is_dir(), intake.key("path"), shown, "must be a folder")
    for name, given in (
        ("classes", intake.settings.classes),
        ("request_class", intake.settings.request_class),
    ):
        check(not given, intake.key(name), given, "a serving log names its classes in system.json")
    system = read_system(folder / _SYSTEM, f"{shown}/{_SYSTEM}")
    stated = intake.settings.license or system.license
    check(bool(stated), f"{shown}/{_SYSTEM}: license", None, "must be given")
    for record in RECORDS:
        path = _record_file(folder, record, shown)
        if path is not None:
            _read_file(intake, record, path, system)
    return intake.found(
        clock=system.clock,
        zone=system.zone,
        origin=system.origin,
        system=system.text,
        license=system.license,
    )


def read_system(path: Path, shown: str) -> System:
    """What system.json says; ValueError with the key where it is not as the format asks."""
    check(path.is_file(), shown, None, "a serving log needs this file")
    try:
        system = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{shown}: not JSON: {error}") from None
    check(isinstance(system, dict), shown, type(system).__name__, "must be an object")
    required = (_Key(shown, key, system.get(key)) for key in _KINDS)
    values = {entry.name: entry.checked() for entry in required}
    check(values["format"] == FORMAT, f"{shown}: format", values["format"], f"must be {FORMAT}")
    check(values["version"] == VERSION, f"{shown}: version", values["version"], "must be 1")
    classes = values["request_classes"]
    for request_class in classes:
        check_name(f"{shown}: request_classes", request_class, CLASS_NAME)
    distinct = len(classes) > 0 and len(set(classes)) == len(classes)
    check(distinct, f"{shown}: request_classes", classes, "needs at least one, none twice")
    check(values["replicas"] >= 1, f"{shown}: replicas", values["replicas"], "must be at least 1")
    _check_origin(f"{shown}: origin", values["origin"])
    choice = values["class_choice"]
    slots = {"any": len(classes), "head_of_line": 1}
    check(choice in slots, f"{shown}: class_choice", choice, f"must be one of {', '.join(slots)}")
    return System(
        license=system.get("license"),
        clock=values["clock"],
        zone=values["zone"],
        origin=values["origin"],
        request_classes=classes,
        replicas=values["replicas"],
        actions=1 + values["replicas"] * slots[choice] * len(values["batch_sizes"]),
        text=json.dumps(system),
    )


_KINDS: dict[str, type] = {
    "format": str,
    "version": int,
    "origin": str,
    "zone": str,
    "clock": str,
    "request_classes": list,
    "replicas": int,
    "batch_sizes": list,
    "class_choice": str,
}


class _Key(NamedTuple):
    file: str
    name: str
    value: Any

    def checked(self) -> Any:
        kind = _KINDS[self.name]
        holds = isinstance(self.value, kind) and not isinstance(self.value, bool)
        check(holds, f"{self.file}: {self.name}", self.value, f"must be of type {kind.__name__}")
        return self.value


def _check_origin(key: str, origin: str) -> None:
    try:
        offset = datetime.fromisoformat(origin).utcoffset()
    except ValueError:
        offset = None
    check(offset == timedelta(0), key, origin, "must be an ISO 8601 instant in UTC")


def _record_file(folder: Path, record: str, shown: str) -> Path | None:
    present = [f"{record}{form}" for form in FORMS if (folder / f"{record}{form}").is_file()]
    check(len(present) <= 1, f"{shown}", present, "must have one form of a record file, not more")
    if not present and record == "requests":
        raise ValueError(f"{shown}: has no requests.parquet, requests.jsonl or requests.csv")
    return folder / present[0] if present else None


def _read_file(intake: Intake, record: str, path: Path, system: System) -> None:
    kind = "serving_log"
    if path.suffix == ".parquet":
        intake.parquet(path)
    elif ".csv" in path.suffixes:
        rule = "holds lists, which CSV cannot: give it as JSON lines or Parquet"
        check(record in CELLS, intake.shown_file(path), record, rule)
        intake.csv(path, *CELLS[record])
        kind = "serving_log_csv"
    else:
        intake.lines(path)
    parameters: dict[str, dict[str, Any]] = {
        "requests": {"request_classes": system.request_classes},
        "batches": {"request_classes": system.request_classes, "replicas": system.replicas},
        "decisions": {
            "classes": len(system.request_classes),
            "replicas": system.replicas,
            "actions": system.actions,
        },
    }
    counts = intake.admit(f"{kind}_{record}", path, origin_us=0, **parameters[record])
    if record == "requests" and counts.rows_read == 0:
        raise ValueError(f"{counts.path}: has no rows")


READER = Reader(title="Batchwright serving log", looks_like=looks_like, read=read)
