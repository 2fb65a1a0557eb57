"""Client log of the AIBrix benchmark (vllm-project/aibrix, test/regression): chat over 8 replicas.

Whole numbers are written as floats (`21073.0`); times are Unix seconds, ttft and generation_time
seconds; rows are grouped by user, not sorted. One file is one routing policy at one rate. There is
no replica, no queue time, no batch and no status.
"""

from pipeline.sources.csv_traces import admit_files, names_columns
from pipeline.sources.intake import Intake
from pipeline.sources.reader import Found, Reader, Sample

COLUMNS = ("prompt_tokens", "generation_tokens", "ttft", "launch_time", "finish_time")


def looks_like(sample: Sample) -> str | None:
    """Why the sample is a client log of AIBrix, or None."""
    return names_columns(sample, COLUMNS)


def read(intake: Intake) -> Found:
    """The rows of the log are in `requests`; first token = launch_time + ttft."""
    admit_files(intake, "aibrix_requests", COLUMNS)
    return intake.found(
        clock="wall",
        zone="UTC",
        derived=("status",),
        notes=(
            "the clock is the client's: response times include the network",
            "requests that failed or were shed are not in this format",
        ),
    )


READER = Reader(title="AIBrix client log", looks_like=looks_like, read=read)
