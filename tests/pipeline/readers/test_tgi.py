"""The router log of Text Generation Inference, line by line."""

import shutil

import pytest

from pipeline.sources.detect import fits
from tests.pipeline.readers.text_logs import (
    FIXTURES,
    by_arrival,
    expected,
    origin,
    rejects,
    rows,
    simulated_log,
    written,
)
from tests.pipeline.readers.writers import tgi

KIND = "tgi"
NOT_A_REQUEST = "not a request: neither Success nor a refusal"
UNIT = "must be a duration in s, ms, µs or ns"


@pytest.fixture(scope="module")
def text(ingest, tmp_path_factory):
    out = tmp_path_factory.mktemp("text")
    return ingest(FIXTURES, "tgi/router.log", kind=KIND, out=out)


def test_mixed_units_in_one_line_add_up_exactly(text):
    # Line 2: arrival 10:00:02.5 - 1.2077 s = 10:00:01.292300, which is time 0; dispatch is
    # 812 ns + 686203 ns = 687.015 us later; 1207012985 ns / 40233766 ns = 30 tokens.
    # Line 3: arrival 10:00:02.6 - 0.0112 s = 10:00:02.588800; 200 ns + 1000 ns = 1.2 us later.
    columns = ("line", "arrival_us", "dispatch_us", "departure_us", "output_tokens", "status")
    assert rows(text, *columns)[:2] == [
        (2, 0, 687, 1_207_700, 30, "completed"),
        (3, 1_296_500, 1_296_501, 1_307_700, 1, "completed"),
    ]
    assert origin(text) == "2024-05-01T10:00:01.292300+00:00"


def test_a_refusal_is_a_shed_request_at_the_time_of_its_line(text):
    columns = ("line", "arrival_us", "dispatch_us", "departure_us", "status")
    assert rows(text, *columns)[2:] == [(4, 1_407_700, None, None, "shed")]


def test_the_trace_id_is_the_request_id_where_there_is_one(text):
    ids = ["d6e2778955d17bf523e3dc568754ef3e"]
    assert [row[0] for row in rows(text, "request_id")] == [None, *ids, None]


def test_lines_without_a_readable_duration_are_rejects_with_the_field(text):
    assert rejects(text) == [
        (1, NOT_A_REQUEST),
        (5, "total_time: missing, a failed request has no arrival"),
        (6, f"total_time: {UNIT}"),
        (7, "queue_time: missing"),
        (8, "timestamp: must be a date and time"),
    ]


def test_the_json_log_says_the_same_as_the_text(ingest, tmp_path, text):
    json = ingest(FIXTURES, "tgi/router.jsonl", kind=KIND, out=tmp_path)
    columns = ("arrival_us", "dispatch_us", "departure_us", "output_tokens", "status")
    text_rows = rows(text, *columns)
    assert rows(json, *columns) == [text_rows[0], text_rows[2]]
    assert rows(json, "request_id") == [("d6e2",), (None,)]
    assert rejects(json) == [(1, NOT_A_REQUEST), (4, "malformed JSON")]


def test_every_unit_is_read(ingest, tmp_path):
    printed = {"1s": 10**9, "1.5ms": 1_500_000, "2µs": 2000, "999ns": 999, "0.000001s": 1000}
    lines = [
        f'2024-05-01T10:00:00.5Z  INFO generate{{total_time="2s" validation_time="0ns" '
        f'queue_time="{duration}"}}: text_generation_router::server: s.rs:1: Success'
        for duration in printed
    ]
    log = ingest(written(tmp_path, "r.log", *lines), "r.log", kind=KIND)
    assert rows(log, "dispatch_us") == [((ns + 500) // 1000,) for ns in printed.values()]


def test_a_line_that_is_no_utf8_keeps_its_bytes_in_the_reject(ingest, tmp_path):
    fields = 'total_time="2\xb5s" validation_time="0ns" queue_time="1ns"'
    line = f"2024-05-01T10:00:00Z  INFO generate{{{fields}}}: server: s.rs:1: Success\n"
    latin_1 = line.encode("latin-1")
    (tmp_path / "r.log").write_bytes(latin_1 + (FIXTURES / "tgi/router.log").read_bytes())
    log = ingest(tmp_path, "r.log", kind=KIND)
    assert rejects(log)[0] == (1, f"total_time: {UNIT}")
    assert "2\\xb5s" in log.tables["rejects"].sort("line")["raw"][0]


@pytest.mark.parametrize("name", ["router.log", "router.jsonl"])
def test_only_this_reader_knows_the_fixture(name):
    assert list(fits(FIXTURES / "tgi" / name)) == [KIND]


def test_what_is_written_is_read_again(ingest, tmp_path):
    log = simulated_log()
    tgi.write(log, tmp_path / "router.log")
    found = ingest(tmp_path, "router.log", kind=KIND)
    kept = [row for row, status in enumerate(log.status) if status != "failed"]
    columns = ("arrival_us", "dispatch_us", "departure_us", "output_tokens", "status")
    assert by_arrival(found, *columns) == expected(log, *columns, kept=kept)


def test_rotated_files_of_a_folder_are_one_source(ingest, tmp_path):
    (tmp_path / "logs").mkdir()
    shutil.copy(FIXTURES / "tgi/router.log", tmp_path / "logs/a.log")
    shutil.copy(FIXTURES / "tgi/router.jsonl", tmp_path / "logs/b.jsonl")
    log = ingest(tmp_path, "logs", kind=KIND)
    assert rows(log, "file", "line") == [(0, 2), (0, 3), (0, 4), (1, 2), (1, 3)]
