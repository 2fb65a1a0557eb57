"""Router log of Text Generation Inference (versions 0.9 to 3), as text or with --json-output.

A line "Success" tells how long a request took, waited for validation and in the queue, and was in
inference; the number of tokens follows from time_per_token. It tells no model, no prompt length, no
batch, and no duration of a request that failed.
huggingface/text-generation-inference, router/src/server.rs; reference/traces.md section 2.
"""

import re

from pipeline.sources.intake import Intake
from pipeline.sources.reader import Found, Reader, Sample

_LOOKS = re.compile(r'total_time="[^"]*".*queue_time="[^"]*"|text_generation_router')


def looks_like(sample: Sample) -> str | None:
    """Why the sample is a TGI log, in words, or None."""
    if any(_LOOKS.search(line) for line in sample.lines):
        return "its lines name text_generation_router, or a total_time and a queue_time as text"
    return None


def read(intake: Intake) -> Found:
    """The requests of the log: one for each "Success", and one for each refusal."""
    for file in intake.files():
        intake.lines(file)
        intake.admit("tgi_requests", file)
    return intake.found(
        clock="wall",
        zone="UTC",
        derived=("arrival", "tokens"),
        notes=(
            "arrival is the time of the line less total_time; queue is validation and queue time",
            "output tokens are inference_time / time_per_token; prompt tokens are not in the log",
            "failed requests have no duration in this log and are rejects; refusals are shed",
        ),
    )


READER = Reader(title="TGI router log", looks_like=looks_like, read=read, options={})
