"""Responses of vLLM with per-request metrics, line by line."""

import pytest

from pipeline.sources.detect import fits
from tests.pipeline.readers.json_logs import close, expected, in_order, notes, simulated
from tests.pipeline.readers.text_logs import FIXTURES, origin, rejects, rows
from tests.pipeline.readers.writers import vllm_metrics

KIND, FILE = "vllm_metrics", "vllm_metrics/responses.jsonl"
INSTANTS = ("arrival_us", "dispatch_us", "first_token_us", "departure_us")
CLOCK = "must be Unix seconds after the year 2000, or a date and time"


@pytest.fixture(scope="module")
def log(ingest, tmp_path_factory):
    return ingest(FIXTURES, FILE, kind=KIND, out=tmp_path_factory.mktemp("metrics"))


def test_time_to_first_token_counts_from_the_schedule(log):
    # 12.3 ms in the queue, then 85.2 ms to the first token, then 1240.5 ms to the last.
    columns = ("line", "request_id", *INSTANTS, "status")
    assert rows(log, *columns) == [
        (1, "chatcmpl-1", 0, 12_300, 97_500, 1_338_000, "completed"),
        (2, "chatcmpl-2", 1_000_000, 1_000_000, 1_010_000, 1_010_000, "completed"),
    ]
    # 1,780,000,000 s after 1970
    assert origin(log) == "2026-05-28T20:26:40+00:00"
    assert "whole seconds" in notes(log)


def test_model_and_usage_are_class_and_tokens(log):
    columns = ("request_class", "prompt_tokens", "output_tokens")
    assert rows(log, *columns) == [("acme/a", 42, 128), ("acme/b", 5, 1)]


def test_uptimes_negative_times_and_milliseconds_are_rejects(log):
    bound = "must be from 0 to 86400000"
    assert rejects(log) == [
        (3, "created: missing"),
        (4, "metrics: missing"),
        (5, f"queue_time_ms: {bound}"),
        (6, f"generation_time_ms: {bound}"),
        (7, f"created: {CLOCK}"),
        (8, "created: missing"),
    ]


def test_an_own_instant_of_arrival_dates_errors_too(ingest, tmp_path):
    log = ingest(FIXTURES, FILE, kind=KIND, out=tmp_path, options={"arrival": "received"})
    # Line 2 came at 40.5 s, line 3 at 42.25 s, line 8 at 47 s.
    assert rows(log, "line", *INSTANTS, "status") == [
        (2, 0, 0, 10_000, 10_000, "completed"),
        (3, 1_750_000, None, None, None, "shed"),
        (8, 6_500_000, None, None, None, "failed"),
    ]
    assert [line for line, _ in rejects(log)] == [1, 4, 5, 6, 7]
    assert rejects(log)[0] == (1, "received: missing")


@pytest.mark.parametrize("value", ["", 3, None])
def test_an_arrival_that_names_no_field_is_refused(ingest, tmp_path, value):
    with pytest.raises(ValueError, match=r"sources\.log\.options\.arrival = .*: must name a field"):
        ingest(FIXTURES, FILE, kind=KIND, out=tmp_path, options={"arrival": value})


def test_only_this_reader_knows_the_fixture():
    assert list(fits(FIXTURES / FILE)) == [KIND]


def test_what_is_written_is_read_again_to_the_microsecond(ingest, tmp_path):
    made = simulated()
    vllm_metrics.write(made, tmp_path / "log.jsonl")
    log = ingest(tmp_path, "log.jsonl", kind=KIND, options={"arrival": "received"})
    columns = (*INSTANTS, "status")
    every = list(range(len(made.request_id)))
    close(in_order(log, columns), expected(made, columns, every), columns, within_us=1)
    columns = ("request_id", "request_class", "prompt_tokens", "output_tokens")
    served = log.tables["requests"].filter(status="completed").sort("arrival_us").select(columns)
    kept = [row for row in every if made.status[row] == "completed"]
    assert served.rows() == expected(made, columns, kept)
