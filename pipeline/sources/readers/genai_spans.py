"""Spans of the OpenTelemetry GenAI conventions: OTLP JSON, a document or one a line, or flat.

opentelemetry.io semantic conventions "Generative AI", names of 2024 (gen_ai.system, prompt_tokens)
and of today. A span is the client's view of one request: arrival, first chunk, departure, tokens,
server; it has no queue and no batch. Tools, agents and other spans are no requests, and counted.
"""

from collections.abc import Iterator
from typing import Any

from pipeline.sources.intake import Intake
from pipeline.sources.json_documents import json_values
from pipeline.sources.otlp import has_spans, spans
from pipeline.sources.reader import Found, Reader, Sample
from simulator.checks import check

IDENTIFIERS = ("span", "response")
NO_INFERENCE = ("execute_tool", "invoke_agent", "create_agent", "invoke_workflow", "plan")
MODEL = ("gen_ai.request.model", "gen_ai.response.model")


def looks_like(sample: Sample) -> str | None:
    """Why the sample holds such spans: gen_ai attributes, and none of vLLM's latencies."""
    if has_spans(sample, '"gen_ai.') and '"gen_ai.latency.' not in sample.head:
        return "OpenTelemetry spans with gen_ai attributes"
    return None


def read(intake: Intake) -> Found:
    """The inference spans as requests."""
    identifier = intake.option("request_id")
    rule = f"must be one of {', '.join(IDENTIFIERS)}"
    check(identifier in IDENTIFIERS, intake.key("options.request_id"), identifier, rule)
    others: dict[str, int] = {}
    for file in intake.files():
        intake.documents(file, _requests(json_values(intake, file), others))
        parameters = {"by_response": identifier == "response", "zone": intake.settings.zone}
        intake.admit("genai_spans_requests", file, **parameters)
    skipped = ", ".join(f"{count} {kind}" for kind, count in sorted(others.items()))
    return intake.found(
        clock="wall",
        zone=intake.settings.zone,
        notes=(
            f"spans that are no requests: {skipped or 'none'}",
            "measured by the client: network, queue and service are not told apart",
            "traces may be sampled: the rate of spans is a lower bound of the arrival rate",
        ),
    )


def _requests(values: Iterator[Any], others: dict[str, int]) -> Iterator[tuple[int, Any]]:
    number = 0
    for value in values:
        for span in spans(value):
            kind = _other(span)
            if kind is not None:
                others[kind] = others.get(kind, 0) + 1
                continue
            number += 1
            yield number, span


def _other(span: Any) -> str | None:
    """What the span is instead of a request, or None."""
    given = span.get("attributes") if isinstance(span, dict) else None
    if not isinstance(given, dict):
        return None
    operation = given.get("gen_ai.operation.name")
    if operation in NO_INFERENCE:
        return str(operation)
    asks = operation is not None or any(key in given for key in MODEL)
    return None if asks else "without gen_ai attributes of a request"


READER = Reader(
    title="OpenTelemetry GenAI spans",
    looks_like=looks_like,
    read=read,
    options={"request_id": "span"},
)
