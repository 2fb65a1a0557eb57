"""Access log of TorchServe (access_log.log, or its lines in ts_log.log and on the console).

An access line tells the end, the duration in ms, the model, the status and, where the thread is
named, the worker. The duration holds queue, batch delay and service together. Lines of ts_metrics
and model_metrics are no requests: QueueTime has no request id, and one PredictionTime stands for a
whole batch. pytorch.org/serve, "Logging in TorchServe"; reference/traces.md section 2.
"""

import re

from pipeline.sources.intake import Intake
from pipeline.sources.reader import Found, Reader, Sample

_LOOKS = re.compile(
    r'^(?:[\w.-]+ +\| +)?\S{10}[ T]\S+(?: \[[A-Z]+ *\] \S+ ACCESS_LOG)? - /\S* "[A-Z]+ \S+[^"]*" '
    r"\d+ \d+$"
)


def looks_like(sample: Sample) -> str | None:
    """Why the sample is a TorchServe access log, in words, or None."""
    if any(_LOOKS.match(line) for line in sample.lines):
        return 'it has TorchServe\'s access lines: time - /peer "request" status milliseconds'
    return None


def read(intake: Intake) -> Found:
    """The requests of the log: its access lines that ask for a prediction."""
    for file in intake.files():
        intake.lines(file)
        intake.admit("torchserve_requests", file, zone=intake.settings.zone)
    return intake.found(
        clock="wall",
        zone=intake.settings.zone,
        derived=("arrival", "status"),
        notes=(
            "the time of a line is the end of the request: arrival is the end less the duration",
            "the duration holds queue, batch delay and service: queue and service are one",
            "times state no zone: they are taken to be in the source's `zone`",
            "429 and 503 are shed; other codes from 400 on are failed",
        ),
    )


READER = Reader(title="TorchServe access log", looks_like=looks_like, read=read, options={})
