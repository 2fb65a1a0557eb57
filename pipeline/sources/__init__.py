"""Readers of logs and traces, one module a kind: files in, rows of the canonical tables out."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.settings import SourceSettings
from pipeline.sources import azure_llm, serving_log
from pipeline.sources.found import Found
from pipeline.store import FileCounts, WarehouseBuilder
from simulator.checks import check

READERS: dict[str, Callable[[WarehouseBuilder, str, SourceSettings, Path], Found]] = {
    "serving_log": serving_log.read,
    "azure_llm": azure_llm.read,
}


def read_source(
    builder: WarehouseBuilder,
    name: str,
    source: SourceSettings,
    project: Path,
    max_reject_fraction: float,
) -> list[FileCounts]:
    """The source's rows are in the builder's tables; what became of each file is returned.

    `project` is the folder that paths with `root: project` start from. Raises ValueError where the
    files are missing, are not what the kind says, or have too many rejects.
    """
    found = READERS[source.kind](builder, name, source, source_path(name, source, project))
    for counts in found.files:
        _check_rejects(builder, name, counts, max_reject_fraction)
    builder.add_source(
        {
            "source": name,
            "kind": source.kind,
            "files": json.dumps([counts._asdict() for counts in found.files]),
            "rows_read": sum(counts.rows_read for counts in found.files),
            "rows_kept": sum(counts.rows_kept for counts in found.files),
            "rows_rejected": sum(counts.rows_rejected for counts in found.files),
            **found.facts(),
        }
    )
    return found.files


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
    check(path.exists(), key, source.path, f"no such file or folder in {root_name}")
    return path


def _check_rejects(
    builder: WarehouseBuilder, name: str, counts: FileCounts, max_reject_fraction: float
) -> None:
    if counts.rows_rejected <= max_reject_fraction * counts.rows_read:
        return
    reasons = "; ".join(builder.frequent_reasons(name, counts.path))
    share: Any = counts.rows_rejected / counts.rows_read
    raise ValueError(
        f"{counts.path}: {counts.rows_rejected} of {counts.rows_read} rows rejected ({share:.2%}), "
        f"more than ingest.max_reject_fraction = {max_reject_fraction:g}; most frequent: {reasons}"
    )
