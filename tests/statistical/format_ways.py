"""The formats that simulated logs are written in, and the way of a log through each."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.settings import IngestSettings, SourceSettings
from pipeline.sources import read_source
from pipeline.store import warehouse_builder
from tests.pipeline.readers.writers import (
    SimulatedLog,
    aibrix,
    azure_functions_2021,
    azure_llm,
    burstgpt,
    envoy,
    genai_spans,
    kserve_trace,
    litellm,
    llmservingsim,
    mooncake,
    nginx,
    ragpulse,
    ray_serve,
    tgi,
    torchserve,
    triton_trace,
    vllm_metrics,
    vllm_spans,
)
from tests.statistical import format_traces as traces
from tests.statistical.format_logs import ONE_CLASS, ONE_SERVER, UNLIKE, write_serving_log

Write = Callable[[SimulatedLog, Path], None]


class Way(NamedTuple):
    """How a log gets into a file of a format and out of it."""

    kind: str
    write: Write
    suffix: str = ".log"
    classes: tuple[tuple[str, str], ...] = ()  # as the format calls it, as the log was made with
    options: tuple[tuple[str, Any], ...] = ()


def ingested(project: Path, way: Way, logs: list[SimulatedLog]) -> Path:
    """The folder of the canonical tables; the logs are its sources `log_0`, `log_1`, ..

    Every row is kept.
    """
    folder = project / "logs"
    folder.mkdir(parents=True)
    settings = IngestSettings(max_reject_fraction=0.0)
    with warehouse_builder(project / "data") as builder:
        for number, log in enumerate(logs):
            name = f"log_{number}"
            path = folder / f"{name}{way.suffix}"
            way.write(log, path)
            shown = str(path.relative_to(project))
            source = SourceSettings(
                way.kind, shown, classes=dict(way.classes), options=dict(way.options)
            )
            counts = read_source(builder, name, source, project, settings)
            if sum(of_file.rows_rejected for of_file in counts) > 0:
                raise RuntimeError(f"{way.kind}: rejects rows of its own writer")
    return project / "data" / "tables"


ROUTES = (("/fast", "fast"), ("/slow", "slow"))  # a class is a path there
RECEIVED = (("arrival", "received"),)  # `created` is in whole seconds

WHOLE = {
    "serving_log as JSON lines": (Way("serving_log", write_serving_log, ""), UNLIKE),
    "serving_log as Parquet": (
        Way("serving_log", partial(write_serving_log, form="parquet"), ""),
        UNLIKE,
    ),
    "serving_log as CSV": (Way("serving_log", partial(write_serving_log, form="csv"), ""), UNLIKE),
    "vllm_spans": (Way("vllm_spans", vllm_spans.write, ".jsonl"), UNLIKE),
    "vllm_metrics": (
        Way("vllm_metrics", vllm_metrics.write, ".jsonl", options=RECEIVED),
        ONE_SERVER,
    ),
    "triton_trace": (Way("triton_trace", triton_trace.write, ".json"), ONE_SERVER),
    "tgi": (Way("tgi", tgi.write), ONE_CLASS),
}
END_TO_END = {
    "envoy": (Way("envoy", envoy.write, classes=ROUTES), UNLIKE),
    "nginx": (Way("nginx", nginx.write, classes=ROUTES, options=(("format", "timed"),)), UNLIKE),
    "ray_serve": (Way("ray_serve", ray_serve.write), UNLIKE),
    "torchserve": (Way("torchserve", torchserve.write), UNLIKE),
    "litellm": (Way("litellm", litellm.write, ".jsonl"), UNLIKE),
    "genai_spans": (Way("genai_spans", genai_spans.write, ".jsonl"), UNLIKE),
    "kserve_trace": (Way("kserve_trace", kserve_trace.write), ONE_CLASS),
    "aibrix": (Way("aibrix", aibrix.write, ".csv"), ONE_CLASS),
}
TOKENS = {
    "llmservingsim": Way("llmservingsim", llmservingsim.write, ".jsonl"),
    "vllm_spans": Way("vllm_spans", vllm_spans.write, ".jsonl"),
    "vllm_metrics": Way("vllm_metrics", vllm_metrics.write, ".jsonl", options=RECEIVED),
}
ARRIVALS = {
    "azure_llm of 2023": Way("azure_llm", azure_llm.write, ".csv"),
    "azure_llm of 2024": Way("azure_llm", traces.write_azure_2024, ".csv"),
    "azure_llm of 2025": Way("azure_llm", traces.write_azure_2025, ".csv"),
    "azure_functions_2021": Way(
        "azure_functions_2021", azure_functions_2021.write, ".txt", options=(("class_by", "app"),)
    ),
    "mooncake": Way("mooncake", mooncake.write, ".jsonl"),
    "ragpulse": Way("ragpulse", ragpulse.write, ".jsonl"),
    "burstgpt of 1": Way("burstgpt", traces.write_burstgpt_1, ".csv"),
    "burstgpt of 3": Way("burstgpt", burstgpt.write, ".csv"),
}
