"""Writes simulated requests as the access lines of Ray Serve's replicas."""

import json
from pathlib import Path

from tests.pipeline.readers.text_logs import end_stamped
from tests.pipeline.readers.writers import SimulatedLog

STATUS = {"completed": 200, "shed": 503, "failed": 500}


def write(log: SimulatedLog, path: Path) -> None:
    """`path` holds a line for each request, in the order of their ends, to the millisecond.

    JSON if the name ends in .jsonl, else text. The format carries id, arrival, departure, class
    (as the deployment), replica and status.
    """
    lines = []
    for row, end, duration_us in end_stamped(log):
        stamp = end.strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
        message = f"POST / {STATUS[log.status[row]]} {duration_us / 1000:.1f}ms"
        deployment, replica = log.request_class[row], log.replica[row]
        if path.suffix == ".jsonl":
            record = {
                "asctime": stamp,
                "levelname": "INFO",
                "message": message,
                "component_name": "replica",
                "component_id": replica,
                "deployment": deployment,
                "replica": replica,
                "request_id": log.request_id[row],
                "route": "/",
            }
            lines.append(json.dumps(record) + "\n")
        else:
            where = f"{deployment} {replica} {log.request_id[row]}"
            lines.append(f"INFO {stamp} {where} -- {message}\n")
    path.write_text("".join(lines), encoding="utf-8")
