"""Profile of Nexus (uwsampl/nexus, model_db/profiles/): batch latency L(b) of one model on one GPU.

A text of sections: model id, GPU, then `Forward latency` with one row for each batch size in
microseconds, then pre- and postprocessing, which run outside the GPU's batch and are not read. How
many batches were measured is not stated. L(b) is not monotone in b.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.sources.drawing import text_rows
from pipeline.sources.intake import Intake
from pipeline.sources.reader import Found, Reader, Sample
from simulator.checks import check

SECTION = "Forward latency"
HEADER = ["batch", "latency(us)", "std(us)", "memory(B)"]


def looks_like(sample: Sample) -> str | None:
    """Why the sample is a profile of Nexus, or None."""
    lines = [line.strip() for line in sample.lines[:4]]
    if lines[2:] != [SECTION, ",".join(HEADER)]:
        return None
    return f"its third line is {SECTION!r} and its fourth {','.join(HEADER)}"


def read(intake: Intake) -> Found:
    """Each row of the section is in `profiles`; class = the model id, replica = the GPU."""
    for file in intake.files(".txt"):
        intake.documents(file, _rows(file, intake.shown))
        intake.admit("nexus_profile_profiles", file)
    return intake.found(
        clock="monotonic", zone="UTC", notes=("pre- and postprocessing times are not read",)
    )


def _rows(file: Path, shown: str) -> Iterator[tuple[int, dict[str, Any]]]:
    rows = text_rows(file)
    head = [cells for _, cells in (next(rows, (0, [])) for _ in range(4))]
    is_profile = [len(head[0]), len(head[1]), head[2]] == [1, 1, [SECTION]]
    rule = f"must be a model id, a GPU and {SECTION!r}"
    check(is_profile, f"{shown}: {file.name}: first lines", head[:3], rule)
    rule = f"must be {','.join(HEADER)}: units are not guessed"
    check(head[3] == HEADER, f"{shown}: {file.name}: columns", ",".join(head[3]), rule)
    for line, cells in rows:
        if len(cells) == 1:
            return  # the title of the next section
        yield line, {"model": head[0][0], "gpu": head[1][0], "cells": cells}


READER = Reader(title="Nexus profile", looks_like=looks_like, read=read)
