"""The Azure Functions trace of 2021."""

import csv
import hashlib
from pathlib import Path

import pytest

from pipeline.sources.detect import fits
from tests.pipeline.readers.csv_traces import (
    FIXTURES,
    TRACES,
    check_round_trip,
    needs_traces,
    rejects,
    simulated_trace,
    source,
    values,
)
from tests.pipeline.readers.writers import azure_functions_2021

KIND = "azure_functions_2021"
PATH = "azure_functions_2021/invocations.txt"


def named(letter: str, ids: str) -> str:
    return letter + hashlib.md5(ids.encode()).hexdigest()[:12]


@pytest.fixture(scope="module")
def by_function(ingest, tmp_path_factory):
    return ingest(FIXTURES, PATH, kind=KIND, out=tmp_path_factory.mktemp("out"))


def test_the_arrival_is_the_end_less_the_duration(by_function):
    # Line 2: 79491 - 78000; line 3: 57157860 - 57154000; line 9: 405.5 s - 405 s. Microseconds.
    columns = ("line", "arrival_us", "dispatch_us", "departure_us")
    assert values(by_function.tables["requests"], *columns) == [
        (2, 1_491, None, 79_491),
        (3, 3_860, None, 57_157_860),
        (4, 10_500_000, None, 10_500_000),  # a duration of 0 is kept
        (9, 500_000, None, 405_500_000),
    ]
    assert "arrival" in source(by_function)["derived"]


def test_one_function_id_in_two_apps_is_two_classes(by_function):
    classes = [name for (name,) in values(by_function.tables["requests"], "request_class")]
    ids = ("a1/f1", "a2/f1", "a1/f1", "a1/f2")
    assert classes == [named("f", of_function) for of_function in ids]


def test_classes_may_be_the_apps(ingest, tmp_path):
    tables = ingest(FIXTURES, PATH, kind=KIND, out=tmp_path, options={"class_by": "app"}).tables
    classes = [name for (name,) in values(tables["requests"], "request_class")]
    assert classes == [named("a", app) for app in ("a1", "a2", "a1", "a1")]


def test_rows_that_cannot_be_read_are_rejects_with_the_field(by_function):
    assert rejects(by_function) == [
        (5, "duration: the call began before the trace"),
        (6, "func: missing"),
        (7, "duration: must be seconds of at least 0"),
        (8, "end_timestamp: must be seconds of at least 0"),
    ]


def test_another_way_to_name_classes_is_refused(ingest, tmp_path):
    with pytest.raises(ValueError, match=r"sources\.log\.options\.class_by = 'owner'"):
        ingest(FIXTURES, PATH, kind=KIND, out=tmp_path, options={"class_by": "owner"})


def test_simulated_requests_come_back_from_this_format(ingest, tmp_path):
    log = simulated_trace(resolution_us=1)
    azure_functions_2021.write(log, tmp_path / "trace.csv")
    ingested = ingest(tmp_path, "trace.csv", limit=0.0, kind=KIND)
    check_round_trip(ingested.tables["requests"], log, ("arrival_us", "departure_us"))


def test_its_look_fits_this_format_alone():
    assert list(fits(FIXTURES / PATH)) == [KIND]


@needs_traces
def test_every_real_row_is_kept_with_its_times(ingest, tmp_path):
    path = "azure-functions/Azure2021_200.csv"
    ingested = ingest(tmp_path, path, limit=0.0, kind=KIND, root="traces")
    with (Path(str(TRACES)) / path).open(newline="") as file:
        rows = list(csv.DictReader(file))
    found = values(ingested.tables["requests"], "arrival_us", "departure_us")
    ends_us = [round(float(row["end_timestamp"]) * 1e6) for row in rows]
    assert len(found) == 199
    assert found == [
        (end_us - round(float(row["duration"]) * 1e6), end_us)
        for row, end_us in zip(rows, ends_us, strict=True)
    ]
    assert ingested.tables["requests"]["request_class"].n_unique() == 31
