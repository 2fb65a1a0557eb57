"""Log of KServe's model server, its lines of the logger kserve.trace (0.10 and later).

A line tells the end of a request and how long its four stages took. It tells no queue, no model, no
batch and no failure: a request that raised an error has no line. A batcher or a transformer in
front of the model is inside predict_ms or not in the log at all.
kserve/kserve, python/kserve/kserve/model.py and logging.py; reference/traces.md section 2.
"""

from pipeline.sources.intake import Intake
from pipeline.sources.reader import Found, Reader, Sample


def looks_like(sample: Sample) -> str | None:
    """Why the sample is a KServe trace log, in words, or None."""
    if any(" kserve.trace " in line and " predict_ms: " in line for line in sample.lines):
        return "it has lines of the logger kserve.trace with predict_ms"
    return None


def read(intake: Intake) -> Found:
    """The requests of the log: its lines of kserve.trace."""
    for file in intake.files():
        intake.lines(file)
        intake.admit("kserve_trace_requests", file, zone=intake.settings.zone)
    return intake.found(
        clock="wall",
        zone=intake.settings.zone,
        derived=("arrival", "status"),
        notes=(
            "the time of a line is the end of the request: arrival is the end less all stages",
            "the replica is the process of the model server",
            "failed requests are not in this log",
            "times state no zone: they are taken to be in the source's `zone`",
        ),
    )


READER = Reader(title="KServe trace log", looks_like=looks_like, read=read)
