"""Mooncake traces, line by line."""

import pytest

from pipeline.sources.detect import fits
from tests.pipeline.readers.json_logs import (
    TRACES,
    completed,
    expected,
    in_order,
    needs_traces,
    simulated,
)
from tests.pipeline.readers.text_logs import FIXTURES, origin, rejects, rows, written
from tests.pipeline.readers.writers import mooncake

KIND, FILE = "mooncake", "mooncake/trace.jsonl"
WHOLE = "must be a whole number of at least 0"
UNIT = "timestamp: must be a whole number of milliseconds, at least 0"


@pytest.fixture(scope="module")
def trace(ingest, tmp_path_factory):
    return ingest(FIXTURES, FILE, kind=KIND, out=tmp_path_factory.mktemp("mooncake"))


def test_milliseconds_become_microseconds_whatever_the_order_of_the_keys(trace):
    columns = ("line", "request_id", "arrival_us", "prompt_tokens", "output_tokens", "status")
    assert rows(trace, *columns) == [
        (1, None, 0, 6758, 500, "completed"),
        (2, None, 0, 7322, 490, "completed"),
        (4, None, 3_000_000, 7236, 794, "completed"),
        (5, None, 3_000_000, 7236, 794, "completed"),
    ]


def test_time_0_is_that_of_the_trace_even_where_it_begins_later(ingest, tmp_path):
    line = '{"timestamp": 250, "input_length": 1, "output_length": 2, "hash_ids": []}'
    log = ingest(written(tmp_path, "t.jsonl", line), "t.jsonl", kind=KIND)
    assert rows(log, "arrival_us") == [(250_000,)]
    assert origin(log) == "the start of the trace"


def test_other_units_and_broken_lines_are_rejects_with_the_field(trace):
    assert rejects(trace) == [
        (6, UNIT),
        (7, f"input_length: {WHOLE}"),
        (8, "output_length: missing"),
        (9, UNIT),
        (10, "malformed JSON"),
    ]


def test_a_stamp_that_is_no_instant_is_a_reject(ingest, tmp_path):
    stamps = ["1", "1e300", "-5", "true", "null", "[1]", "9" * 20, "9223372036854775807", "NaN"]
    lines = [
        f'{{"timestamp": {stamp}, "input_length": 1, "output_length": 1, "hash_ids": []}}'
        for stamp in stamps
    ]
    log = ingest(written(tmp_path, "t.jsonl", *lines), "t.jsonl", kind=KIND)
    assert rows(log, "line") == [(1,)]
    assert [line for line, _ in rejects(log)] == list(range(2, 10))


def test_only_this_reader_knows_the_fixture():
    assert list(fits(FIXTURES / FILE)) == [KIND]


def test_what_is_written_is_read_again_within_a_millisecond(ingest, tmp_path):
    log = simulated()
    mooncake.write(log, tmp_path / "t.jsonl")
    columns = ("arrival_us", "prompt_tokens", "output_tokens", "status")
    wanted = [
        ((int(log.arrival_us[row]) // 1000) * 1000, *rest)
        for row, (_, *rest) in zip(
            completed(log), expected(log, columns, completed(log)), strict=True
        )
    ]
    assert in_order(ingest(tmp_path, "t.jsonl", kind=KIND), columns) == wanted


@needs_traces
def test_the_public_conversation_trace_is_read_whole(ingest, tmp_path):
    # mooncake/PROVENANCE.md: 12,031 rows, 1,180 distinct timestamps, 0..3,536,999 ms
    path = "mooncake/conversation_trace.jsonl.gz"
    log = ingest(tmp_path, path, kind="auto", root="traces", out=tmp_path)
    requests = log.tables["requests"]
    assert TRACES
    assert requests.height == 12_031
    assert requests["arrival_us"].n_unique() == 1_180
    assert requests["arrival_us"].max() == 3_536_999_000
    assert rejects(log) == []
