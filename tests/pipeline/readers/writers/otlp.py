"""Spans and attributes in the JSON encoding of OTLP."""

import json
from pathlib import Path
from typing import Any


def attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Attributes as OTLP writes them; integers are texts."""
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}


def span(
    number: int, name: str, start_us: int, end_us: int, values: dict[str, Any], code: int = 0
) -> dict[str, Any]:
    """A server's span; instants are texts of ns."""
    return {
        "traceId": f"{number:032x}",
        "spanId": f"{number:016x}",
        "name": name,
        "kind": 2,
        "startTimeUnixNano": f"{start_us}000",
        "endTimeUnixNano": f"{end_us}000",
        "attributes": attributes(values),
        "status": {"code": code} if code else {},
    }


def write_lines(path: Path, groups: list[tuple[dict[str, Any], list[dict[str, Any]]]]) -> None:
    """A line for each (attributes of the resource, spans), as the file exporter writes them."""
    lines = [
        json.dumps(
            {
                "resourceSpans": [
                    {
                        "resource": {"attributes": attributes(resource)},
                        "scopeSpans": [{"scope": {}, "spans": spans}],
                    }
                ]
            }
        )
        for resource, spans in groups
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
