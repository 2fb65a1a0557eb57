"""Azure LLM inference traces: code and conv of 2023 and 2024, and the multimodal one of 2025.

github.com/Azure/AzurePublicDataset. A row is a request that was answered: its arrival and its
tokens. There is no model, no response time and no failure in it, and NumImages (2025) is not a size
in tokens: ContextTokens are what the text has. Fractions of a second have seven digits (2023), six
or none (2024) or three (2025). The page of 2023 gives another date (11 November) than the rows.
"""

from pipeline.sources.csv_traces import admit_files, names_columns
from pipeline.sources.intake import Intake
from pipeline.sources.reader import Found, Reader, Sample

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
SURVIVORS = "requests that failed or were shed are not in this format"


def looks_like(sample: Sample) -> str | None:
    """Why the sample is an Azure LLM trace, or None."""
    return names_columns(sample, COLUMNS)


def read(intake: Intake) -> Found:
    """The rows of the trace are in `requests`; time 0 is the smallest arrival."""
    header = admit_files(intake, "azure_llm_requests", COLUMNS, zone=intake.settings.zone)
    notes = [SURVIVORS, "it says no response time: it can calibrate arrivals and sizes only"]
    if "NumImages" in header:
        notes.append("NumImages is not read: tokens of images are not stated")
    return intake.found(
        clock="wall", zone=intake.settings.zone, derived=("status",), notes=tuple(notes)
    )


READER = Reader(title="Azure LLM trace", looks_like=looks_like, read=read)
