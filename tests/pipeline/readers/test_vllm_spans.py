"""Spans llm_request of vLLM, span by span."""

import pytest

from pipeline.sources.detect import fits
from tests.pipeline.readers.json_logs import (
    close,
    completed,
    expected,
    in_order,
    notes,
    simulated,
)
from tests.pipeline.readers.text_logs import FIXTURES, origin, rejects, rows, written
from tests.pipeline.readers.writers import vllm_spans

KIND = "vllm_spans"
SECONDS, NANOSECONDS = "vllm_spans/seconds.json", "vllm_spans/nanoseconds.jsonl"
INSTANTS = ("arrival_us", "dispatch_us", "first_token_us", "departure_us")
BOUND = "must be from 0 to gen_ai.latency.e2e"


@pytest.fixture(scope="module")
def log(ingest, tmp_path_factory):
    return ingest(FIXTURES, SECONDS, kind=KIND, out=tmp_path_factory.mktemp("seconds"))


def test_latencies_in_seconds_count_from_the_start_of_the_span(log):
    columns = ("request_id", *INSTANTS, "request_class", "replica", "prompt_tokens")
    assert rows(log, *columns) == [
        ("cmpl-1", 0, 250_000, 500_000, 1_750_000, "acme/a", "gpu-1", 42)
    ]
    # 1780000000000000500 ns is rounded to 1 us after the second
    assert origin(log) == "2026-05-28T20:26:40.000001+00:00"
    assert "1 spans are not called llm_request" in notes(log)


def test_broken_spans_are_rejects_by_their_number(log):
    unit = "neither s nor ns by the length of the span; set options.latency_unit"
    assert rejects(log) == [
        (2, f"gen_ai.latency.e2e: {unit}"),
        (3, f"gen_ai.latency.time_in_queue: {BOUND}"),
        (4, "gen_ai.latency.e2e: missing"),
        (5, "startTimeUnixNano: must be ns above 0"),
        (6, f"gen_ai.latency.time_in_queue: {BOUND}"),
    ]


@pytest.mark.parametrize("unit", [None, "ns"])
def test_latencies_in_nanoseconds_are_told_by_the_length_of_the_span(ingest, tmp_path, unit):
    options = {} if unit is None else {"latency_unit": unit}
    log = ingest(FIXTURES, NANOSECONDS, kind=KIND, out=tmp_path, options=options)
    assert rows(log, "line", *INSTANTS) == [
        (1, 0, 100_000, 300_000, 900_000),
        (3, 2_000_000, 2_000_000, 2_300_000, 3_000_000),
    ]
    assert rejects(log) == [(2, "malformed span")]


def test_the_wrong_unit_is_not_believed(ingest, tmp_path):
    options = {"latency_unit": "s"}
    with pytest.raises(ValueError, match=r"2 x gen_ai\.latency\.e2e: above 86400 s"):
        ingest(FIXTURES, NANOSECONDS, limit=0.5, kind=KIND, out=tmp_path, options=options)


def test_an_unknown_unit_is_refused(ingest, tmp_path):
    with pytest.raises(ValueError, match=r"options\.latency_unit = 'ms': must be s, ns or null"):
        ingest(FIXTURES, SECONDS, kind=KIND, out=tmp_path, options={"latency_unit": "ms"})


def test_an_instant_out_of_all_range_is_a_reject(ingest, tmp_path):
    first, _, last = (FIXTURES / NANOSECONDS).read_text().splitlines()
    stamps = ("9223372036854775807", "18446744073709551615", "-1", "x", "")
    bad = [last.replace("1780000012000000000", stamp) for stamp in stamps]
    log = ingest(written(tmp_path, "s.jsonl", first, *bad), "s.jsonl", kind=KIND)
    assert rows(log, "line") == [(1,)]
    rule = "startTimeUnixNano: must be ns above 0"
    assert rejects(log) == [(line, rule) for line in range(2, 7)]


@pytest.mark.parametrize("name", [SECONDS, NANOSECONDS])
def test_only_this_reader_knows_the_fixture(name):
    assert list(fits(FIXTURES / name)) == [KIND]


@pytest.mark.parametrize("unit_us", [1e6, 1e-3])
def test_what_is_written_is_read_again_to_the_microsecond(ingest, tmp_path, unit_us):
    made = simulated()
    vllm_spans.write(made, tmp_path / "spans.jsonl", unit_us)
    columns = ("request_id", *INSTANTS, "request_class", "replica", "prompt_tokens")
    columns += ("output_tokens", "status")
    found = in_order(ingest(tmp_path, "spans.jsonl", kind=KIND), columns)
    close(found, expected(made, columns, completed(made)), columns, within_us=0)
