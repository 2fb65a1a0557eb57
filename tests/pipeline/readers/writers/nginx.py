"""Writes simulated requests as nginx does in the format `timed` of the reader."""

from pathlib import Path

from tests.pipeline.readers.text_logs import end_stamped
from tests.pipeline.readers.writers import SimulatedLog

STATUS = {"completed": 200, "shed": 503, "failed": 499}


def write(log: SimulatedLog, path: Path) -> None:
    """`path` holds a line for each request, in the order of their ends, to the millisecond.

    The format carries id, arrival, departure, class (as the path), replica and status.
    """
    lines = []
    for row, end, duration_us in end_stamped(log):
        local = end.strftime("%d/%b/%Y:%H:%M:%S +0000")
        msec = f"{end.timestamp():.3f}"
        took = f"{duration_us / 1e6:.3f}"
        request = f"POST /{log.request_class[row]} HTTP/1.1"
        lines.append(
            f'10.9.9.9 - - [{local}] "{request}" {STATUS[log.status[row]]} 0 "-" "curl" '
            f"{msec} {log.request_id[row]} {log.replica[row]} rt={took} "
            f'uct="0.000" uht="{took}" urt="{took}"\n'
        )
    path.write_text("".join(lines), encoding="utf-8")
