"""Responses of a vLLM server that runs with --enable-per-request-metrics, one a line.

docs.vllm.ai "Per-Request Metrics": metrics.{queue_time_ms, time_to_first_token_ms,
generation_time_ms}. Time to first token counts from the schedule, not from arrival. Each line is a
response, or an object of your own that holds it as `response`. A response says when it was created
in whole seconds only; a finer instant of arrival is read from the field that `arrival` names.
"""

from pipeline.sources.intake import Intake
from pipeline.sources.json_documents import first_object
from pipeline.sources.reader import Found, Reader, Sample
from simulator.checks import check

METRICS = ("queue_time_ms", "time_to_first_token_ms", "generation_time_ms")


def looks_like(sample: Sample) -> str | None:
    """Why the sample is such a log: the metrics in the response of its first line."""
    first = first_object(sample)
    inner = first.get("response")
    response = inner if isinstance(inner, dict) else first
    metrics = response.get("metrics")
    if isinstance(metrics, dict) and "usage" in response and all(key in metrics for key in METRICS):
        return f"responses with usage and metrics {', '.join(METRICS)}"
    return None


def read(intake: Intake) -> Found:
    """The requests of the log; dispatch is the schedule."""
    arrival = intake.option("arrival")
    named = isinstance(arrival, str) and arrival != ""
    check(named, intake.key("options.arrival"), arrival, "must name a field")
    for file in intake.files():
        intake.lines(file)
        pointer = "/" + arrival.replace("~", "~0").replace("/", "~1")
        parameters = {"arrival": arrival, "pointer": pointer, "zone": intake.settings.zone}
        intake.admit("vllm_metrics_requests", file, **parameters)
    coarse = "arrival is `created`, in whole seconds: when the server began the response"
    return intake.found(
        clock="wall",
        zone=intake.settings.zone,
        notes=(
            coarse if arrival == "created" else f"arrival is the field {arrival!r} of the log",
            "stages are durations of the engine, laid end to end from arrival on; time between "
            "arrival and the engine's queue is not seen",
        ),
    )


READER = Reader(
    title="vLLM per-request metrics",
    looks_like=looks_like,
    read=read,
    options={"arrival": "created"},
)
