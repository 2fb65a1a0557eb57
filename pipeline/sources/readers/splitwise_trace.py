"""Trace of the Splitwise simulator (Mutinifni/splitwise-sim, traces/): arrivals and tokens.

Seconds from the simulator's time 0. A row with a batch_size other than 1 stands for several
requests whose tokens are not known one by one, and is rejected. request_type and application_id are
not read.
"""

from pipeline.sources.csv_traces import admit_files, names_columns
from pipeline.sources.intake import Intake
from pipeline.sources.reader import Found, Reader, Sample

COLUMNS = ("request_id", "arrival_timestamp", "batch_size", "prompt_size", "token_size")


def looks_like(sample: Sample) -> str | None:
    """Why the sample is a Splitwise trace, or None."""
    return names_columns(sample, COLUMNS)


def read(intake: Intake) -> Found:
    """The rows of the trace are in `requests`; time 0 is the simulator's."""
    admit_files(intake, "splitwise_trace_requests", COLUMNS, origin_us=0)
    return intake.found(
        clock="monotonic",
        zone=intake.settings.zone,
        derived=("status",),
        notes=("an input of a simulator: nothing in it was measured",),
    )


READER = Reader(title="Splitwise trace", looks_like=looks_like, read=read)
