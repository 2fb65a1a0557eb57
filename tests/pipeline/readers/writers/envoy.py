"""Writes simulated requests as Envoy's default access log."""

from datetime import timedelta
from pathlib import Path

from tests.pipeline.readers.text_logs import end_stamped
from tests.pipeline.readers.writers import SimulatedLog

OUTCOMES = {"completed": "200 -", "shed": "503 UO", "failed": "504 UT"}


def write(log: SimulatedLog, path: Path) -> None:
    """`path` holds a line for each request, in the order of their ends, to the millisecond.

    The format carries id, arrival, departure, class (as the path), replica and status.
    """
    lines = []
    for row, end, duration_us in end_stamped(log):
        start = end - timedelta(microseconds=duration_us)
        stamp = start.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
        request = f"POST /{log.request_class[row]} HTTP/1.1"
        lines.append(
            f'[{stamp}Z] "{request}" {OUTCOMES[log.status[row]]} 0 0 {duration_us // 1000} - '
            f'"-" "curl" "{log.request_id[row]}" "m" "{log.replica[row]}"\n'
        )
    path.write_text("".join(lines), encoding="utf-8")
