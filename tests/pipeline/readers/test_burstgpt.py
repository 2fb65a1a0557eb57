"""BurstGPT with its three headers."""

import pytest

from pipeline.sources.detect import fits
from tests.pipeline.readers.csv_traces import (
    FIXTURES,
    check_round_trip,
    needs_traces,
    rejects,
    simulated_trace,
    source,
    values,
)
from tests.pipeline.readers.writers import burstgpt

KIND = "burstgpt"
WHOLE = "must be a whole number of at least 0"


@pytest.fixture(scope="module")
def first(ingest, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    return ingest(FIXTURES, "burstgpt/BurstGPT_1.csv", kind=KIND, out=out)


@pytest.fixture(scope="module")
def third(ingest, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    return ingest(FIXTURES, "burstgpt/BurstGPT_3.csv", kind=KIND, out=out)


def test_seconds_become_microseconds_from_the_time_0_of_the_trace(first):
    columns = ("line", "arrival_us", "request_class", "prompt_tokens", "output_tokens")
    assert values(first.tables["requests"], *columns) == [
        (2, 5_000_000, "ChatGPT", 472, 18),
        (3, 45_000_000, "GPT-4", 1087, 0),
        (4, 45_000_000, "ChatGPT", 0, 0),
        (12, 54_000_000, "Chat,GPT", 1, 2),
    ]


def test_zero_response_tokens_are_a_failure_that_is_kept(first):
    statuses = [status for (status,) in values(first.tables["requests"], "status")]
    assert statuses == ["completed", "failed", "failed", "completed"]
    assert "status" in source(first)["derived"]


def test_rows_that_cannot_be_read_are_rejects_with_the_field(first):
    assert rejects(first) == [
        (5, "Timestamp: must be seconds of at least 0"),
        (6, "Model: missing"),
        (7, f"Request tokens: {WHOLE}"),  # 1.5
        (8, f"Response tokens: {WHOLE}"),  # -2
        (9, "row: has not as many cells as the header"),
        (10, "Timestamp: must be seconds of at least 0"),  # -1
        (11, "Timestamp: must be seconds of at least 0"),  # inf
    ]


def test_the_elapsed_time_of_the_third_trace_gives_the_departure(third):
    # 19440110 + 43 s, 19440161 + 2 s, and none.
    assert values(third.tables["requests"], "line", "departure_us") == [
        (2, 19_440_153_000_000),
        (3, 19_440_163_000_000),
        (4, None),
    ]
    assert rejects(third) == [
        (5, "Elapsed time: must be seconds of at least 0"),  # -4
        (6, "Elapsed time: must be seconds of at least 0"),  # None
    ]


def test_columns_may_come_in_another_order(ingest, tmp_path):
    ingested = ingest(FIXTURES, "burstgpt/other_order.csv", kind=KIND, out=tmp_path)
    columns = ("arrival_us", "request_class", "prompt_tokens", "output_tokens")
    assert values(ingested.tables["requests"], *columns) == [(7_000_000, "GPT-4", 10, 20)]


def test_simulated_requests_come_back_to_the_second(ingest, tmp_path):
    log = simulated_trace(resolution_us=1_000_000)
    burstgpt.write(log, tmp_path / "trace.csv")
    ingested = ingest(tmp_path, "trace.csv", limit=0.0, kind=KIND)
    columns = (
        "arrival_us",
        "departure_us",
        "request_class",
        "prompt_tokens",
        "output_tokens",
        "status",
    )
    check_round_trip(ingested.tables["requests"], log, columns)


def test_its_look_fits_this_format_alone():
    for name in ("BurstGPT_1.csv", "BurstGPT_3.csv", "other_order.csv"):
        assert list(fits(FIXTURES / "burstgpt" / name)) == [KIND]


@needs_traces
@pytest.mark.parametrize(("number", "rows"), [(1, 5), (3, 4)])
def test_the_real_head_rows_are_all_kept(number, rows, ingest, tmp_path):
    path = f"burstgpt-head/BurstGPT_{number}.head.csv"
    ingested = ingest(tmp_path, path, limit=0.0, kind=KIND, root="traces")
    assert source(ingested)["rows_kept"] == rows
