"""OpenTelemetry spans out of JSON: OTLP as the protocol and the collector's file exporter write it.

Also the flat form of hand-made span files: {"spans": [...]} with start_time and end_time as texts.
OTLP JSON (opentelemetry-proto, "JSON Protobuf Encoding"): resourceSpans, in them scopeSpans (before
2022 instrumentationLibrarySpans), in them spans; 64-bit integers and instants are texts.
"""

from collections.abc import Iterator
from typing import Any

from pipeline.sources.reader import Sample

_SCOPES = (("scopeSpans", "scope"), ("instrumentationLibrarySpans", "instrumentationLibrary"))


def spans(value: Any) -> Iterator[Any]:
    """Each span of an OTLP or flat document, with its attributes as a flat object.

    Keys: trace_id, span_id, name, start_ns and end_ns (flat form: start_time, end_time),
    attributes, resource, status_code; null where the span lacks it. What is no span comes as it is.
    """
    if isinstance(value, list):
        for entry in value:
            yield from spans(entry)
    elif isinstance(value, dict) and isinstance(value.get("resourceSpans"), list):
        for group in value["resourceSpans"]:
            yield from _of_resource(group)
    elif isinstance(value, dict) and isinstance(value.get("spans"), list):
        yield from (_flat(span) for span in value["spans"])
    else:
        yield value


def has_spans(sample: Sample, mark: str) -> bool:
    """Whether the sample is OTLP JSON or the flat form, and `mark` stands in it."""
    form = '"resourceSpans"' in sample.head or (
        '"spans"' in sample.head and '"start_time"' in sample.head
    )
    return sample.json_text and form and mark in sample.head


def _of_resource(group: Any) -> Iterator[Any]:
    if not isinstance(group, dict):
        yield group
        return
    resource = group.get("resource")
    facts = attributes(resource.get("attributes")) if isinstance(resource, dict) else {}
    for key, _ in _SCOPES:
        for scope in _listed(group.get(key)):
            for span in _listed(scope.get("spans") if isinstance(scope, dict) else scope):
                yield _from_otlp(span, facts)


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _from_otlp(span: Any, resource: dict[str, Any]) -> Any:
    if not isinstance(span, dict):
        return span
    status = span.get("status")
    return {
        "trace_id": span.get("traceId"),
        "span_id": span.get("spanId"),
        "name": span.get("name"),
        "start_ns": _whole(span.get("startTimeUnixNano")),
        "end_ns": _whole(span.get("endTimeUnixNano")),
        "attributes": attributes(span.get("attributes")),
        "resource": resource,
        "status_code": status.get("code") if isinstance(status, dict) else None,
    }


def _flat(span: Any) -> Any:
    if not isinstance(span, dict):
        return span
    status = span.get("status")
    given = {"attributes": span.get("attributes"), "resource": span.get("resource_attributes")}
    return {
        **{key: span.get(key) for key in ("trace_id", "span_id", "name", "start_time", "end_time")},
        **{key: value if isinstance(value, dict) else {} for key, value in given.items()},
        "status_code": status.get("code") if isinstance(status, dict) else None,
    }


def attributes(entries: Any) -> dict[str, Any]:
    """The attributes of OTLP, a list of {key, value: {intValue: "3"}}, as a plain object."""
    return {
        entry["key"]: _value(entry.get("value"))
        for entry in _listed(entries)
        if isinstance(entry, dict) and isinstance(entry.get("key"), str)
    }


def _value(value: Any) -> Any:
    if not isinstance(value, dict):
        return None
    for key, content in value.items():
        if key == "intValue":
            return _whole(content)
        if key == "arrayValue":
            listed = content.get("values") if isinstance(content, dict) else None
            return [_value(entry) for entry in _listed(listed)]
        if key == "kvlistValue":
            return attributes(content.get("values") if isinstance(content, dict) else None)
        return content  # stringValue, doubleValue, boolValue, bytesValue
    return None


def _whole(value: Any) -> Any:
    """The number of a text of digits; anything else as it is, for the staging query to judge."""
    digits = isinstance(value, str) and value.removeprefix("-").isascii()
    if digits and value.removeprefix("-").isdigit() and len(value) < 21:
        return int(value)
    return value
