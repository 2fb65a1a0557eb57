"""Writes simulated requests as the trace log of KServe's model server."""

from pathlib import Path

from tests.pipeline.readers.text_logs import end_stamped
from tests.pipeline.readers.writers import SimulatedLog


def write(log: SimulatedLog, path: Path) -> None:
    """`path` holds a line for each completed request, in the order of their ends.

    The format carries id, arrival, departure and replica (as the process), no class.
    """
    lines = []
    for row, end, duration_us in end_stamped(log):
        if log.status[row] != "completed":
            continue
        stamp = end.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        process = log.replica[row].split(":")[0].split(".")[-1]
        lines.append(
            f"{stamp} {process} kserve.trace requestId: {log.request_id[row]}, preprocess_ms: 0, "
            f"explain_ms: 0, predict_ms: {duration_us / 1000}, postprocess_ms: 0\n"
        )
    path.write_text("".join(lines), encoding="utf-8")
