"""Trace of the Vidur simulator (microsoft/vidur, data/processed_traces/): arrivals and tokens.

Its copies of other traces, such as both of Azure of 2023, are re-based to seconds from the first
request: the original has the date as well and is to be preferred.
"""

from pipeline.sources.csv_traces import admit_files, names_columns
from pipeline.sources.intake import Intake
from pipeline.sources.reader import Found, Reader, Sample

COLUMNS = ("arrived_at", "num_prefill_tokens", "num_decode_tokens")


def looks_like(sample: Sample) -> str | None:
    """Why the sample is a Vidur trace, or None."""
    return names_columns(sample, COLUMNS)


def read(intake: Intake) -> Found:
    """The rows of the trace are in `requests`; time 0 is the trace's."""
    admit_files(intake, "vidur_trace_requests", COLUMNS, origin_us=0)
    return intake.found(
        clock="monotonic",
        zone=intake.settings.zone,
        derived=("status",),
        notes=(
            "times count from the first request of another trace: hours of the day are lost",
            "requests that failed or were shed are not in this format",
        ),
    )


READER = Reader(title="Vidur trace", looks_like=looks_like, read=read)
