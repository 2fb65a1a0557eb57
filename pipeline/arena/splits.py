"""What arrives in each split of an arena scenario: tuned on two, judged on the third."""

from collections.abc import Mapping
from typing import Any

from pipeline.description import KINDS, workload_from
from pipeline.traces import Trace, missing_file
from simulator.checks import check
from simulator.workload import TraceWorkload, Workload

SPLITS = ("train", "validation", "test")


def split_workloads(
    given: Any, class_names: tuple[str, ...], horizon_s: float, key: str
) -> dict[str, Workload]:
    """The workload of each split for these classes; ValueError naming the field at fault.

    A section is that of a workload, or `same_as` another split, which must have one of its own. A
    stretch of a trace must be as long as an episode.
    """
    workloads = {
        split: workload_from(section, class_names, f"{key}.{split}")
        for split, section in _own_sections(given, key).items()
    }
    for split, workload in workloads.items():
        if isinstance(workload, TraceWorkload):
            needed_s = horizon_s * workload.rate_scale
            rule = f"an episode of {horizon_s:g} s needs {needed_s:g} s of the trace"
            span = f"{key}.{split}.to_s - from_s"
            check(needed_s <= workload.span_s, span, workload.span_s, rule)
    sources = (given[split]["same_as"] if _is_same(given[split]) else split for split in SPLITS)
    return {split: workloads[source] for split, source in zip(SPLITS, sources, strict=True)}


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
    own = [split for split in SPLITS if not _is_same(given[split])]
    for split in SPLITS:
        if split not in own:
            source = given[split]["same_as"]
            rule = f"must be another split, with a workload of its own: {', '.join(own) or 'none'}"
            check(source in own, f"{key}.{split}.same_as", source, rule)
            check(len(given[split]) == 1, f"{key}.{split}", given[split], "same_as stands alone")
    return {split: given[split] for split in own}


def _is_same(section: Any) -> bool:
    """Whether the section says no more than which split it equals."""
    return isinstance(section, Mapping) and "same_as" in section
