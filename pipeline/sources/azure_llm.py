"""Azure LLM inference traces of 2023 and 2024: a CSV file of arrivals and token counts.

github.com/Azure/AzurePublicDataset. Columns are found by name; others may stand beside them.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pipeline.settings import SourceSettings
from pipeline.sources.found import Found
from pipeline.store import WarehouseBuilder, file_digest
from simulator.checks import check

COLUMNS = {
    "TIMESTAMP": "timestamp_cell",
    "ContextTokens": "prompt_cell",
    "GeneratedTokens": "output_cell",
}


def read(builder: WarehouseBuilder, name: str, source: SourceSettings, file: Path) -> Found:
    """The rows of the trace are in the builder's `requests`; time 0 is the first valid row.

    Raises ValueError for a file without these columns or rows, or with another SHA-256 than asked.
    """
    shown = source.path
    check(file.is_file(), f"sources.{name}.path", shown, "must be a file")
    _check_zone(f"sources.{name}.zone", source.zone)
    if source.sha256 is not None:
        rule = f"sources.{name}.sha256 says {source.sha256}: another file, or a damaged one"
        check(file_digest(file) == source.sha256, f"{shown}: sha256", file_digest(file), rule)
    header = [cell.strip(' "') for cell in builder.load_text(file, header=True).split(",")]
    for column in COLUMNS:
        rule = f"the header must name {', '.join(COLUMNS)} once each"
        check(header.count(column) == 1, f"{shown}: header", ",".join(header), rule)
    parameters = {place: header.index(column) + 1 for column, place in COLUMNS.items()}
    counts = builder.admit(
        name,
        "azure_llm_requests",
        file,
        shown,
        {
            **parameters,
            "cells": len(header),
            "zone": source.zone,
            "request_class": source.request_class,
        },
    )
    check(counts.rows_read > 0, f"{shown}: rows", 0, "has a header only")
    origin_us = builder.staged_number("origin_us")
    origin = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=origin_us or 0)
    return Found([counts], str(source.license), "wall", source.zone, origin.isoformat(), None)


def _check_zone(key: str, zone: str) -> None:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        raise ValueError(f"{key} = {zone!r}: must be an IANA time zone") from None
