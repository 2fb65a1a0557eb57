"""BurstGPT: requests to ChatGPT and GPT-4 of a university over months, at a resolution of 1 s.

github.com/HPMLL/BurstGPT. Timestamp counts seconds from midnight before the trace began, in UTC+8
without daylight saving (issue 9 there); the date is not stated. BurstGPT_3 has two more columns in
the middle: Session ID, which calls of the API leave blank, and Elapsed time, seconds from the
submission to the last token. Zero response tokens mean a failure. Total tokens and Log Type are not
read.
"""

from pipeline.sources.csv_traces import admit_files, names_columns
from pipeline.sources.intake import Intake
from pipeline.sources.reader import Found, Reader, Sample

COLUMNS = ("Timestamp", "Model", "Request tokens", "Response tokens")


def looks_like(sample: Sample) -> str | None:
    """Why the sample is a BurstGPT trace, or None."""
    return names_columns(sample, COLUMNS)


def read(intake: Intake) -> Found:
    """The rows of the trace are in `requests`; time 0 is that of the trace, a midnight."""
    header = admit_files(intake, "burstgpt_requests", COLUMNS, ("Elapsed time",), origin_us=0)
    notes = [
        "time 0 is a midnight in UTC+8, by the authors; the date is not stated",
        "times are whole seconds: requests of one second are in order, but not simultaneous",
        "zero response tokens are read as failed (files called without_fails have none)",
    ]
    if "Elapsed time" not in header:
        notes.append("it says no response time: it can calibrate arrivals and sizes only")
    return intake.found(
        clock="monotonic", zone=intake.settings.zone, derived=("status",), notes=tuple(notes)
    )


READER = Reader(title="BurstGPT trace", looks_like=looks_like, read=read)
