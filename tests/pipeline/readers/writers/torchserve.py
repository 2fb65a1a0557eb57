"""Writes simulated requests as the access lines of TorchServe."""

from pathlib import Path

from tests.pipeline.readers.text_logs import end_stamped
from tests.pipeline.readers.writers import SimulatedLog

STATUS = {"completed": 200, "shed": 503, "failed": 500}


def write(log: SimulatedLog, path: Path) -> None:
    """`path` holds a line for each request, in the order of their ends, to the millisecond.

    The format carries arrival, departure, class, replica (the worker's thread) and status.
    """
    lines = []
    for row, end, duration_us in end_stamped(log):
        stamp = end.strftime("%Y-%m-%dT%H:%M:%S,%f")[:-3]
        request = f"POST /predictions/{log.request_class[row]} HTTP/1.1"
        lines.append(
            f"{stamp} [INFO ] W-{log.replica[row]} ACCESS_LOG - /127.0.0.1:5000 "
            f'"{request}" {STATUS[log.status[row]]} {duration_us // 1000}\n'
        )
    path.write_text("".join(lines), encoding="utf-8")
