"""Mooncake traces (github.com/kvcache-ai/Mooncake, FAST 2025): arrivals and tokens, JSON lines.

`timestamp` is whole milliseconds from the start. The trace has no service times, replicas,
failures or classes, so it can drive a workload and calibrate arrivals and token counts alone.
"""

from pipeline.sources.intake import Intake
from pipeline.sources.json_documents import first_object
from pipeline.sources.reader import Found, Reader, Sample

FIELDS = ("timestamp", "input_length", "output_length", "hash_ids")


def looks_like(sample: Sample) -> str | None:
    """Why the sample is a Mooncake trace: its fields, and a whole number as timestamp."""
    first = first_object(sample)
    own = all(field in first for field in FIELDS) and "chat_id" not in first
    if own and type(first["timestamp"]) is int and isinstance(first["hash_ids"], list):
        return f"its lines have {', '.join(FIELDS)}, the timestamp a whole number (milliseconds)"
    return None


def read(intake: Intake) -> Found:
    """The requests of the trace; time 0 is its own."""
    for file in intake.files(".jsonl"):
        intake.lines(file)
        intake.admit("mooncake_requests", file, origin_us=0)
    return intake.found(
        clock="wall",
        zone=intake.settings.zone,
        derived=("status",),
        notes=(
            "times count from the start of the trace, whose date is not told",
            "failed and shed requests are not in this format (survivor bias)",
            "many arrivals of the conversation trace are rounded to multiples of 3 s",
        ),
    )


READER = Reader(title="Mooncake trace", looks_like=looks_like, read=read, options={})
