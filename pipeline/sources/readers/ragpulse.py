"""RAGPulse traces (github.com/flashserve/RAGPulse): arrivals and tokens, JSON lines.

`timestamp` is a text of seconds from the start. The trace has no service times, replicas, failures
or classes, so it can drive a workload and calibrate arrivals and token counts alone.
"""

from pipeline.sources.intake import Intake
from pipeline.sources.json_documents import first_object
from pipeline.sources.reader import Found, Reader, Sample

FIELDS = ("timestamp", "input_length", "output_length", "hash_ids", "session_id")


def looks_like(sample: Sample) -> str | None:
    """Why the sample is a RAGPulse trace: its fields, and a text as timestamp."""
    first = first_object(sample)
    if all(field in first for field in FIELDS) and isinstance(first["timestamp"], str):
        return f"its lines have {', '.join(FIELDS)}, the timestamp a text (seconds)"
    return None


def read(intake: Intake) -> Found:
    """The requests of the trace; time 0 is its own."""
    for file in intake.files(".jsonl"):
        intake.lines(file)
        intake.admit("ragpulse_requests", file, origin_us=0)
    return intake.found(
        clock="wall",
        zone=intake.settings.zone,
        derived=("status",),
        notes=(
            "times are whole seconds from the start of the trace, whose date is not told",
            "failed and shed requests are not in this format (survivor bias)",
        ),
    )


READER = Reader(title="RAGPulse trace", looks_like=looks_like, read=read, options={})
