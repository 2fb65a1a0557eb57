"""Loading times of ServerlessLLM (benchmarks/results/): a JSON list, one model load each.

model_name ends in the number of the copy that was loaded (`Qwen/Qwen3-32B_15`), which is cut off;
loading_time is in seconds. Which loader was used, and whether the model lay in memory, is in the
name of the file only. end_to_end_time and throughput are those of one request and are not read.
"""

from pipeline.sources.intake import Intake
from pipeline.sources.reader import Found, Reader, Sample
from simulator.checks import check

FIELDS = ("model_name", "loading_time")


def looks_like(sample: Sample) -> str | None:
    """Why the sample is a log of cold starts, or None."""
    is_list = sample.json_text and sample.head.lstrip("\ufeff \t\r\n").startswith("[")
    if not is_list or not all(f'"{field}"' in sample.head for field in FIELDS):
        return None
    return f"it is a JSON list whose objects have {' and '.join(FIELDS)}"


def read(intake: Intake) -> Found:
    """Each load is in `cold_starts`; class = model_name without the number of the copy."""
    for file in intake.files(".json"):
        loads = intake.json(file)
        rule = "must be a list of objects"
        check(isinstance(loads, list), f"{intake.shown}: {file.name}", type(loads).__name__, rule)
        objects = (
            (number, load if isinstance(load, dict) else {"element": load})
            for number, load in enumerate(loads, start=1)
        )
        intake.documents(file, objects)
        intake.admit("cold_start_log_cold_starts", file)
    return intake.found(
        clock="monotonic",
        zone="UTC",
        notes=("the loader, and whether the model was cached, is not in the rows",),
    )


READER = Reader(title="ServerlessLLM loading times", looks_like=looks_like, read=read)
