"""Readers of logs and traces, one module a format: files in, rows of the canonical tables out."""

import json
import os
from pathlib import Path
from typing import Any

from pipeline.settings import AUTO, IngestSettings, SourceSettings
from pipeline.sources.detect import detect
from pipeline.sources.intake import Intake
from pipeline.sources.reader import find_reader
from pipeline.store import FileCounts, RequestRules, SourceBuilder, WarehouseBuilder, file_digest
from simulator.checks import check

NO_REQUEST = "not a request: "  # begins the reason against a line of another kind


def read_source(
    builder: WarehouseBuilder,
    name: str,
    source: SourceSettings,
    project: Path,
    ingest: IngestSettings,
    seed: int = 0,
) -> list[FileCounts]:
    """The source's rows are in the builder's tables; what became of each file is returned.

    `project` is the folder that paths with `root: project` start from; `seed` is of what readers
    draw. Raises ValueError where the files are missing, are not what the kind says, or have too
    many rejects.
    """
    path = source_path(name, source, project)
    _check_digest(name, source, path)
    kind = detect(path, f"sources.{name}.path") if source.kind == AUTO else source.kind
    reader = find_reader(kind)
    rules = RequestRules(
        round(ingest.max_response_s * 1e6),
        source.request_class,
        tuple(source.classes.items()),
        round((source.dequantize_s or 0.0) * 1e6),
        seed,
    )
    tables = builder.source(name, rules)
    intake = Intake(name, source, path, tables, reader.options, seed)
    found = reader.read(intake)
    counts = tables.settle()
    if found.origin is None:
        found = found._replace(origin=intake.origin(found.clock))
    check(bool(counts), f"sources.{name}.path", source.path, "holds nothing to read")
    read = sum(each.rows_read for each in counts)
    check(read > 0, f"{source.path}: rows", 0, "must be at least 1")
    for of_file in counts:
        _check_rejects(tables, of_file, ingest.max_reject_fraction)
    kept = sum(each.rows_kept for each in counts)
    check(kept > 0, f"{source.path}: rows kept", 0, f"must be at least 1 of {read} read")
    if source.dequantize_s is not None:
        rule = "is for arrivals alone: this source tells when service began"
        check(not tables.tells_service(), f"sources.{name}.dequantize_s", source.dequantize_s, rule)
    facts: dict[str, Any] = found._asdict()
    notes = list(found.notes)
    if source.dequantize_s is not None:
        notes.append(f"arrivals are spread uniformly over {source.dequantize_s:g} s, seed {seed}")
    facts |= {"kind": kind, "derived": json.dumps(found.derived), "notes": json.dumps(notes)}
    tables.write(builder.tables, facts)
    return counts


def source_path(name: str, source: SourceSettings, project: Path) -> Path:
    """Where the source lies; ValueError unless it exists, inside its root, links resolved."""
    key = f"sources.{name}.path"
    if source.root == "traces":
        folder = os.environ.get("TRACES_DIR", "")
        rule = f"not set; it must name the folder that holds {source.path} (sources.{name})"
        if not folder:
            raise ValueError(f"TRACES_DIR: {rule}")
        root, root_name = Path(folder).resolve(), "TRACES_DIR"
    else:
        root, root_name = project.resolve(), "the project"
    path = (root / source.path).resolve()
    check(path.is_relative_to(root), key, source.path, f"leads out of {root_name}")
    hint = "; `python -m pipeline.stages.fetch` downloads it" if source.fetch else ""
    check(path.exists(), key, source.path, f"no such file or folder in {root_name}{hint}")
    return path


def _check_digest(name: str, source: SourceSettings, path: Path) -> None:
    if source.sha256 is None:
        return
    check(path.is_file(), f"sources.{name}.sha256", source.sha256, "is for a file, not a folder")
    rule = f"sources.{name}.sha256 says {source.sha256}: another file, or a damaged one"
    digest = file_digest(path)
    check(digest == source.sha256, f"{source.path}: sha256", digest, rule)


def _check_rejects(tables: SourceBuilder, counts: FileCounts, max_reject_fraction: float) -> None:
    """Lines that are no requests belong into a server's log: the limit is on the others."""
    others = tables.rejects(counts.path, NO_REQUEST)
    rejected, read = counts.rows_rejected - others, counts.rows_read - others
    if rejected <= max_reject_fraction * read and (counts.rows_kept or not read):
        return
    reasons = "; ".join(tables.frequent_reasons(counts.path))
    share = rejected / read if read else 1.0
    raise ValueError(
        f"{counts.path}: {rejected} of {read} rows rejected ({share:.2%}), {others} more are no "
        f"requests; ingest.max_reject_fraction = {max_reject_fraction:g}; most frequent: {reasons}"
        if others
        else f"{counts.path}: {rejected} of {read} rows rejected ({share:.2%}), more than "
        f"ingest.max_reject_fraction = {max_reject_fraction:g}; most frequent: {reasons}"
    )
