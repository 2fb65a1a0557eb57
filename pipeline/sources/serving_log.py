"""The Batchwright serving log, version 1: a folder of system.json and one to three record files."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.schema import RECORDS
from pipeline.settings import CLASS_NAME, SourceSettings, check_name
from pipeline.sources.found import Found
from pipeline.store import FileCounts, WarehouseBuilder
from simulator.checks import check

FORMAT, VERSION = "batchwright-serving-log", 1
FORMS = (".parquet", ".jsonl", ".jsonl.gz")


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


def read(builder: WarehouseBuilder, name: str, source: SourceSettings, folder: Path) -> Found:
    """The records of the log are in the builder's tables.

    `requests` must be there and have rows; `batches` and `decisions` may be absent. Raises
    ValueError for anything that is not a serving log.
    """
    check(folder.is_dir(), f"sources.{name}.path", source.path, "must be a folder")
    system = read_system(folder / "system.json", f"{source.path}/system.json")
    stated = source.license or system.license
    check(bool(stated), f"{source.path}/system.json: license", None, "must be given")
    files = []
    for record in RECORDS:
        path = _record_file(folder, record, source.path)
        if path is not None:
            shown = f"{source.path}/{path.name}"
            files.append(_read_file(builder, name, record, path, shown, system))
    return Found(files, str(stated), system.clock, system.zone, system.origin, system.text)


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
        raise ValueError(f"{shown}: has no requests.parquet and no requests.jsonl")
    return folder / present[0] if present else None


def _read_file(
    builder: WarehouseBuilder, name: str, record: str, path: Path, shown: str, system: System
) -> FileCounts:
    if path.suffix == ".parquet":
        builder.load_parquet(path)
    else:
        builder.load_text(path)
    parameters: dict[str, dict[str, Any]] = {
        "requests": {"request_classes": system.request_classes},
        "batches": {"request_classes": system.request_classes, "replicas": system.replicas},
        "decisions": {
            "classes": len(system.request_classes),
            "replicas": system.replicas,
            "actions": system.actions,
        },
    }
    counts = builder.admit(name, f"serving_log_{record}", path, shown, parameters[record])
    if record == "requests" and counts.rows_read == 0:
        raise ValueError(f"{shown}: has no rows")
    return counts
