"""Detail logs of BurstGPT's replay client: one JSON object of entries, in order of completion.

github.com/HPMLL/BurstGPT `example/`; keys are event ids. Times are seconds of perf_counter, a
monotonic clock; the record is stamped at completion, so arrival = record_time - total_chunk_time.
`out_len` is a length in characters: there are no output tokens. The client sees neither the queue
nor the batch.
"""

from collections.abc import Iterator
from typing import Any

from pipeline.sources.intake import Intake
from pipeline.sources.reader import Found, Reader, Sample

FIELDS = ("first_chunk_time", "total_chunk_time", "record_time")


def looks_like(sample: Sample) -> str | None:
    """Why the sample is such a log: its first entry has the three times."""
    start = sample.head[:2000]
    if sample.head.startswith("{") and all(f'"{field}"' in start for field in FIELDS):
        return f"an object of entries with {', '.join(FIELDS)}"
    return None


def read(intake: Intake) -> Found:
    """The requests of the log, in the order in which they began."""
    for file in intake.files():
        document = intake.json(file)
        if not isinstance(document, dict):
            raise ValueError(f"{intake.shown}: must be an object of entries by event id")
        intake.documents(file, _entries(document))
        intake.admit("burstgpt_replay_requests", file)
    return intake.found(
        clock="monotonic",
        zone=intake.settings.zone,
        derived=("arrival", "status"),
        notes=(
            "out_len is in characters: output tokens are absent",
            "measured by the client: queue and service are not told apart",
            "requests that failed are not in this format (survivor bias)",
        ),
    )


def _entries(document: dict[str, Any]) -> Iterator[tuple[int, Any]]:
    for number, (key, entry) in enumerate(document.items(), 1):
        yield number, {**entry, "key": key} if isinstance(entry, dict) else entry


READER = Reader(title="BurstGPT replay log", looks_like=looks_like, read=read, options={})
