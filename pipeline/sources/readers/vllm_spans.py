"""Spans `llm_request` of vLLM (--otlp-traces-endpoint) as OTLP JSON, a document or one a line.

Attributes gen_ai.latency.{time_in_queue, time_to_first_token, e2e}. vLLM itself writes seconds; an
agent's page tells of nanoseconds for V1. The unit is the option `latency_unit` (s or ns), or, where
that is null, the one in which e2e agrees with the span's own length; a span that does not tell is
rejected. Failed requests have no span, and the batch is not told.
"""

from collections.abc import Iterator
from typing import Any

from pipeline.sources.intake import Intake
from pipeline.sources.json_documents import json_values
from pipeline.sources.otlp import has_spans, spans
from pipeline.sources.reader import Found, Reader, Sample
from simulator.checks import check

SPAN = "llm_request"


def looks_like(sample: Sample) -> str | None:
    """Why the sample holds such spans: OTLP with gen_ai.latency attributes."""
    if has_spans(sample, '"gen_ai.latency.'):
        return f"OTLP spans with gen_ai.latency attributes ({SPAN} of vLLM)"
    return None


def read(intake: Intake) -> Found:
    """The requests of the spans; other spans are no records, and counted in a note."""
    unit = intake.option("latency_unit")
    rule = "must be s, ns or null (told by the span's own length)"
    check(unit in ("s", "ns", None), intake.key("options.latency_unit"), unit, rule)
    others = [0]
    for file in intake.files():
        intake.documents(file, _requests(json_values(intake, file), others))
        intake.admit("vllm_spans_requests", file, unit=unit, zone=intake.settings.zone)
    return intake.found(
        clock="wall",
        zone=intake.settings.zone,
        derived=("status",),
        notes=(
            f"{others[0]} spans are not called {SPAN}: no requests",
            "requests that failed or were aborted have no span (survivor bias)",
            "traces may be sampled: the rate of spans is a lower bound of the arrival rate",
            "time in the frontend, before the engine queues a request, counts as service",
        ),
    )


def _requests(values: Iterator[Any], others: list[int]) -> Iterator[tuple[int, Any]]:
    number = 0
    for value in values:
        for span in spans(value):
            if isinstance(span, dict) and span.get("name") not in (SPAN, None):
                others[0] += 1
                continue
            number += 1
            yield number, span


READER = Reader(
    title="vLLM OpenTelemetry spans",
    looks_like=looks_like,
    read=read,
    options={"latency_unit": None},
)
