"""Spans of the OpenTelemetry GenAI conventions, span by span."""

import gzip

import pytest

from pipeline.sources.detect import fits
from tests.pipeline.readers.json_logs import (
    expected,
    in_order,
    needs_traces,
    notes,
    simulated,
)
from tests.pipeline.readers.text_logs import FIXTURES, origin, rejects, rows, written
from tests.pipeline.readers.writers import genai_spans

KIND = "genai_spans"
OTLP, COLLECTOR, FLAT = (
    f"genai_spans/{name}" for name in ("otlp.json", "collector.jsonl", "flat.json")
)
INSTANTS = ("arrival_us", "dispatch_us", "first_token_us", "departure_us")
WHOLE = "must be a whole number of at least 0"


@pytest.fixture(scope="module")
def log(ingest, tmp_path_factory):
    return ingest(FIXTURES, OTLP, kind=KIND, out=tmp_path_factory.mktemp("otlp"))


def test_new_and_old_names_give_the_same_columns(log):
    columns = ("request_class", "replica", "prompt_tokens", "output_tokens", "status")
    assert rows(log, *INSTANTS, *columns)[:2] == [
        (0, None, 500_000, 2_500_000, "gpt-4o", "api.local:443", 10, 20, "completed"),
        (1_000_000, None, None, 3_000_000, "llama", "10.0.0.2", 5, 6, "completed"),
    ]


def test_refusals_and_errors_are_kept_with_their_status(log):
    assert rows(log, *INSTANTS, "prompt_tokens", "status")[2:] == [
        (2_000_000, None, None, 2_001_000, None, "shed"),
        (3_000_000, None, None, 33_000_000, None, "failed"),
    ]


def test_spans_that_are_no_requests_are_counted_not_rejected(log):
    counted = "1 execute_tool, 1 invoke_agent, 1 without gen_ai attributes of a request"
    assert counted in notes(log)
    assert rejects(log) == [
        (5, "endTimeUnixNano: must be ns above 0"),
        (6, f"gen_ai.usage.input_tokens: {WHOLE}"),
        (7, "departure_us: before arrival_us"),
    ]


def test_request_ids_are_those_of_spans_or_of_responses(ingest, tmp_path, log):
    assert rows(log, "request_id")[0] == (f"{1:032x}/{1:016x}",)
    options = {"request_id": "response"}
    by_response = ingest(FIXTURES, OTLP, kind=KIND, out=tmp_path, options=options)
    assert rows(by_response, "request_id") == [("chatcmpl-a",), (None,), (None,)]
    assert rejects(by_response)[0] == (2, "gen_ai.response.id: missing")


def test_json_lines_of_a_collector_are_read_and_a_cut_line_is_a_reject(ingest, tmp_path):
    log = ingest(FIXTURES, COLLECTOR, kind=KIND, out=tmp_path)
    assert rows(log, "line", "arrival_us", "departure_us") == [
        (1, 0, 2_500_000),
        (2, 1_000_000, 2_000_000),
    ]
    assert rejects(log) == [(3, "malformed span")]


def test_a_packed_file_is_read_if_whole_and_refused_if_cut(ingest, tmp_path):
    text = (FIXTURES / COLLECTOR).read_bytes()
    dressed = b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n\r\n") + b"\n" + b'{"\xff'
    (tmp_path / "s.jsonl.gz").write_bytes(gzip.compress(dressed))
    log = ingest(tmp_path, "s.jsonl.gz", kind=KIND)
    assert rows(log, "line") == [(1,), (2,)]
    assert rejects(log) == [(3, "malformed span"), (4, "malformed span")]
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(dressed)[:-9])
    with pytest.raises(ValueError, match=r"cut\.jsonl\.gz: not a whole packed file"):
        ingest(tmp_path, "cut.jsonl.gz", kind=KIND)


def test_what_is_no_span_is_a_reject_of_its_own(ingest, tmp_path):
    first = (FIXTURES / COLLECTOR).read_text().splitlines()[0]
    strange = ('{"attributes": 5}', "{}", '{"resourceSpans": [7, {"scopeSpans": [8]}]}', "[[]]")
    log = ingest(written(tmp_path, "s.jsonl", first, *strange), "s.jsonl", kind=KIND)
    assert rows(log, "line") == [(1,)]
    # 7 and 8 are two; the empty array holds none
    missing = "traceId: missing"
    assert rejects(log) == [
        (2, missing),
        (3, missing),
        (4, "malformed span"),
        (5, "malformed span"),
    ]


def test_the_flat_form_is_in_the_zone_of_the_configuration(ingest, tmp_path):
    log = ingest(FIXTURES, FLAT, kind=KIND, out=tmp_path, zone="Europe/Berlin")
    assert rows(log, "request_id", "arrival_us", "departure_us") == [("t-1/a", 0, 2_500_000)]
    assert origin(log) == "2026-02-25T09:00:00+00:00"  # an hour before 10:00 in winter
    assert rejects(log) == [(2, "endTimeUnixNano: must be ns above 0")]


def test_an_unknown_identifier_is_refused(ingest, tmp_path):
    with pytest.raises(ValueError, match=r"options\.request_id = 'x': must be one of span, resp"):
        ingest(FIXTURES, OTLP, kind=KIND, out=tmp_path, options={"request_id": "x"})


@pytest.mark.parametrize("name", [OTLP, COLLECTOR, FLAT])
def test_only_this_reader_knows_the_fixture(name):
    assert list(fits(FIXTURES / name)) == [KIND]


def test_what_is_written_is_read_again_to_the_microsecond(ingest, tmp_path):
    made = simulated()
    genai_spans.write(made, tmp_path / "spans.jsonl")
    columns = ("request_id", "arrival_us", "first_token_us", "request_class", "replica")
    columns += ("prompt_tokens", "output_tokens", "status")
    options = {"request_id": "response"}
    log = ingest(tmp_path, "spans.jsonl", kind=KIND, options=options)
    every = list(range(len(made.request_id)))
    assert in_order(log, columns) == expected(made, columns, every)
    start_us = int(made.arrival_us.min())
    departures = [
        int(made.departure_us[row] if status == "completed" else made.arrival_us[row] + 1000)
        for row, status in enumerate(made.status)
    ]
    found = in_order(log, ("departure_us",))
    assert found == [(instant - start_us,) for instant in departures]


@needs_traces
@pytest.mark.parametrize(("name", "spans"), [("simple_chain", 3), ("parallel_requests", 5)])
def test_the_public_span_files_are_read_whole(ingest, tmp_path, name, spans):
    path = f"otel-genai-spans/{name}.json"
    log = ingest(tmp_path, path, kind="auto", root="traces", out=tmp_path)
    assert log.tables["requests"].height == spans
    assert origin(log) == "2026-02-25T10:00:00+00:00"
    assert rejects(log) == []
