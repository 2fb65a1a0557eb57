"""What arrives in each split of an arena scenario: tuned on two, judged on the third."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pipeline.description import KINDS, workload_from
from pipeline.traces import Trace, missing_file
from simulator.checks import check
from simulator.workload import TraceWorkload, Workload

SPLITS = ("train", "validation", "test")


def split_workloads(
    given: Any, class_names: tuple[str, ...], horizon_s: float, key: str
) -> dict[str, Workload]:
    """The workload of each split for these classes; ValueError naming the field at fault.

    A section is that of a workload, or `same_as` another split, which must have one of its own:
    with nothing else it is the very workload, with other fields the section with these replaced. A
    stretch of a trace must be as long as an episode.
    """
    workloads = {
        split: workload_from(section, class_names, f"{key}.{split}")
        for split, section in _own_sections(given, key).items()
    }
    for split, workload in workloads.items():
        check(_has_traffic(workload), f"{key}.{split}", given[split], "nothing arrives")
    for split, workload in workloads.items():
        if isinstance(workload, TraceWorkload):
            needed_s = horizon_s * workload.rate_scale
            rule = f"an episode of {horizon_s:g} s needs {needed_s:g} s of the trace"
            span = f"{key}.{split}.to_s - from_s"
            check(needed_s <= workload.span_s, span, workload.span_s, rule)
    sources = {split: split if split in workloads else given[split]["same_as"] for split in SPLITS}
    return {split: workloads[source] for split, source in sources.items()}


def missing_trace(given: Any) -> str | None:
    """What has to be done before the traces of these splits can be read; None where they are there.

    Raises nothing: sections that are no traces, or wrong, are left to `split_workloads`.
    """
    sections = given.values() if isinstance(given, Mapping) else ()
    for section in sections:
        kind = section.get("kind") if isinstance(section, Mapping) else None
        schema = KINDS[Workload].get(kind) if isinstance(kind, str) else None
        if schema is not None and issubclass(schema, Trace):
            file = section.get("file")
            missing = missing_file(file, schema.origin) if isinstance(file, str) else None
            if missing:
                return missing
    return None


def _own_sections(given: Any, key: str) -> dict[str, Any]:
    """The sections that describe a workload, by split."""
    check(isinstance(given, Mapping), key, given, "must be a section with a key per split")
    for split in given:
        rule = f"no such split; it may be {', '.join(SPLITS)}"
        check(split in SPLITS, f"{key}.{split}", given[split], rule)
    for split in SPLITS:
        if split not in given:
            raise ValueError(f"{key}.{split}: must be given")
    own = {split: _without_source(given[split]) for split in SPLITS if not _leans(given[split])}
    sections = dict(own)
    for split in SPLITS:
        if split not in own:
            source = given[split]["same_as"]
            rule = f"must be another split, with a workload of its own: {', '.join(own) or 'none'}"
            check(source in tuple(own), f"{key}.{split}.same_as", source, rule)
            fields = _without_source(given[split])
            if fields:
                sections[split] = merged(own[source], fields)
    return sections


def merged(section: Any, fields: Any) -> Any:
    """The section with these fields in the place of its own, in sections within it too.

    Fields with a `kind` are another section as a whole: those of one kind mean nothing to another.
    """
    if not isinstance(section, Mapping) or not isinstance(fields, Mapping) or "kind" in fields:
        return fields
    replaced = {name: merged(section.get(name), value) for name, value in fields.items()}
    return {**section, **replaced}


def _leans(section: Any) -> bool:
    """Whether the section needs that of the split it names; one of a new kind does not."""
    return isinstance(section, Mapping) and "same_as" in section and "kind" not in section


def _without_source(section: Any) -> Any:
    if not isinstance(section, Mapping):
        return section  # which `workload_from` refuses
    return {name: value for name, value in section.items() if name != "same_as"}


def _has_traffic(workload: Workload) -> bool:
    """Whether any of its rates is above 0."""
    fields = ("rate_rps", "low_rps", "high_rps")
    return any(np.any(np.asarray(getattr(workload, field, 0.0)) > 0) for field in fields)
