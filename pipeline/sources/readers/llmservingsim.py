"""Runs of vLLM that LLMServingSim recorded: every stage of every request, JSON lines.

github.com/casys-kaist/LLMServingSim, `bench/examples/*/vllm/`, vLLM 0.19: requests.jsonl alone, or
its folder with meta.json. Stages are on the monotonic clock of the engine; arrival_time is on the
wall clock and is not used: time in the frontend, before the engine queues the request, is not seen.
"""

import json
from typing import Any

from pipeline.sources.intake import Intake
from pipeline.sources.json_documents import first_object
from pipeline.sources.reader import Found, Reader, Sample

FIELDS = ("queued_ts", "scheduled_ts", "first_token_ts", "last_token_ts")
META = "meta.json"
# What meta.json calls a fact of the system: the section, and the key in it.
_TOLD = {
    "replicas": ("engine_kwargs", "data_parallel_size"),
    "max_num_seqs": ("engine_kwargs", "max_num_seqs"),
    "max_batched_tokens": ("engine_kwargs", "max_num_batched_tokens"),
    "kv_capacity_tokens": ("kv_cache", "num_kv_tokens"),
}


def looks_like(sample: Sample) -> str | None:
    """Why the sample is such a run: the names in the folder, or the stages in the first line."""
    if "requests.jsonl" in sample.names and META in sample.names:
        return f"the folder holds requests.jsonl and {META}"
    first = first_object(sample)
    if all(field in first for field in (*FIELDS, "input_toks", "output_toks")):
        return f"its lines have {', '.join(FIELDS)}"
    return None


def read(intake: Intake) -> Found:
    """The requests of the run, timed from queued_ts on."""
    meta = _meta(intake)
    for file in intake.files("requests.jsonl"):
        intake.lines(file)
        intake.admit("llmservingsim_requests", file, model=meta.get("model"))
    system = _system(meta)
    told = ", ".join(f"{name} {value}" for name, value in system.items())
    return intake.found(
        clock="monotonic",
        zone=intake.settings.zone,
        derived=("status",),
        notes=(
            *([f"{META} states {told}"] if told else []),
            "arrival is when the engine queued the request; time in the frontend is not in it",
            "a stage of 0 was never reached: the request counts as failed",
        ),
        system=json.dumps(system) if system else None,
    )


def _system(meta: dict[str, Any]) -> dict[str, int]:
    """The facts of the system that meta.json states as whole numbers above 0."""
    facts = {}
    for name, (section, key) in _TOLD.items():
        told = meta.get(section)
        value = told.get(key) if isinstance(told, dict) else None
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            facts[name] = value
    return facts


def _meta(intake: Intake) -> dict[str, Any]:
    path = intake.path / META
    if not path.is_file():
        return {}
    meta = intake.json(path)
    if not isinstance(meta, dict) or not isinstance(meta.get("model", ""), str):
        raise ValueError(f"{intake.shown}: {META}: must be an object that names the model")
    return meta


READER = Reader(title="LLMServingSim vLLM run", looks_like=looks_like, read=read, options={})
