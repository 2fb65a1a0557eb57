"""Writes simulated requests as the router of Text Generation Inference logs them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.pipeline.readers.writers import SimulatedLog

_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))


def write(log: SimulatedLog, path: Path) -> None:
    """`path` holds a line for each completed or shed request, in the order of the lines' times.

    The format carries arrival, dispatch, departure and output tokens; no class, no replica. It has
    no line for a failed request.
    """
    lines = []
    for row in range(len(log.request_id)):
        trace_id = f"trace_id={row:032x}"
        if log.status[row] == "shed":
            at_us = int(log.arrival_us[row])
            text = f" ERROR generate{{{trace_id}}}: text_generation_router::infer: x.rs:1: "
            lines.append((at_us, f"{_stamp(log, at_us)}{text}no permits available"))
        elif log.status[row] == "completed":
            at_us = int(log.departure_us[row])
            lines.append((at_us, f"{_stamp(log, at_us)}  INFO {_success(log, row, trace_id)}"))
    ordered = [text for _, text in sorted(lines)]
    path.write_text("\n".join(ordered) + "\n", encoding="utf-8")


def _success(log: SimulatedLog, row: int, trace_id: str) -> str:
    total_ns = 1000 * int(log.departure_us[row] - log.arrival_us[row])
    queue_ns = 1000 * int(log.dispatch_us[row] - log.arrival_us[row])
    inference_ns = total_ns - queue_ns
    tokens = int(log.output_tokens[row])
    each_ns = inference_ns // tokens if tokens > 0 else 0
    durations = {
        "total_time": total_ns,
        "validation_time": 0,
        "queue_time": queue_ns,
        "inference_time": inference_ns,
        "time_per_token": each_ns,
    }
    fields = " ".join(f'{name}="{rust_debug(ns)}"' for name, ns in durations.items())
    where = "text_generation_router::server: router/src/server.rs:402: Success"
    return f'HTTP request{{{trace_id}}}:generate{{{fields} seed="None"}}: {where}'


def rust_debug(duration_ns: int) -> str:
    """A duration as Rust's {:?} prints it: the largest unit that gives a whole part, no zeros."""
    unit_ns, unit = next((n, u) for n, u in _UNITS if duration_ns >= n or n == 1)
    whole, rest = divmod(duration_ns, unit_ns)
    digits = len(str(unit_ns)) - 1
    fraction = f"{rest:0{digits}d}".rstrip("0") if digits else ""
    return f"{whole}.{fraction}{unit}" if fraction else f"{whole}{unit}"


def _stamp(log: SimulatedLog, at_us: int) -> str:
    instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=log.origin_us + at_us)
    return instant.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
