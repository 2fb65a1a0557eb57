"""The client log of AIBrix."""

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
from tests.pipeline.readers.writers import aibrix

KIND = "aibrix"
PATH = "aibrix/naive_qps0.5.csv"


@pytest.fixture(scope="module")
def log(ingest, tmp_path_factory):
    return ingest(FIXTURES, PATH, kind=KIND, out=tmp_path_factory.mktemp("out"))


def test_rows_that_are_not_sorted_count_from_the_earliest_launch(log):
    # Line 3 is earliest: first token 2.979821 s later, finish 723.004112 - 718.7618 = 4.242312 s.
    # Line 2: 728.767804 - 718.7618 = 10.006004 s; + 0.057529 s; 730.081814 - 718.7618 s.
    columns = ("line", "arrival_us", "first_token_us", "departure_us", "prompt_tokens")
    assert values(log.tables["requests"], *columns, "output_tokens") == [
        (2, 10_006_004, 10_063_533, 11_320_014, 21_073, 100),
        (3, 0, 2_979_821, 4_242_312, 21_073, 100),
    ]


def test_rows_that_cannot_be_read_are_rejects_with_the_field(log):
    assert rejects(log) == [
        (4, "prompt_tokens: must be a whole number of at least 0"),  # 21073.5
        (5, "launch_time: must be Unix seconds"),
        (6, "finish_time: before launch_time"),
        (7, "departure_us: before first_token_us"),
    ]


def test_simulated_requests_come_back_from_this_format(ingest, tmp_path):
    log = simulated_trace(resolution_us=1)
    aibrix.write(log, tmp_path / "log.csv")
    ingested = ingest(tmp_path, "log.csv", limit=0.0, kind=KIND)
    columns = ("arrival_us", "first_token_us", "departure_us", "prompt_tokens", "output_tokens")
    check_round_trip(ingested.tables["requests"], log, columns, int(log.arrival_us[0]))


def test_its_look_fits_this_format_alone():
    assert list(fits(FIXTURES / PATH)) == [KIND]


@needs_traces
def test_the_real_logs_of_one_rate_are_read_whole(ingest, tmp_path):
    # PROVENANCE.md counts the lines, the header among them: 405 and 370.
    for name, rows in (("naive", 404), ("aibrix_naive_prefix_routing", 369)):
        path = f"aibrix-routing/v0.3.0/{name}_qps4.1.csv"
        ingested = ingest(tmp_path, path, limit=0.0, kind=KIND, root="traces")
        assert source(ingested)["rows_kept"] == rows
