"""RAGPulse traces, line by line."""

import pytest

from pipeline.sources.detect import fits
from tests.pipeline.readers.json_logs import completed, in_order, needs_traces, simulated
from tests.pipeline.readers.text_logs import FIXTURES, rejects
from tests.pipeline.readers.writers import ragpulse

KIND, FILE = "ragpulse", "ragpulse/trace.jsonl"


@pytest.fixture(scope="module")
def trace(ingest, tmp_path_factory):
    return ingest(FIXTURES, FILE, kind=KIND, out=tmp_path_factory.mktemp("ragpulse"))


def test_texts_of_seconds_become_microseconds_in_the_order_of_time(trace):
    columns = ("line", "request_id", "arrival_us", "prompt_tokens", "output_tokens", "status")
    assert trace.tables["requests"].select(columns).rows() == [
        (2, None, 81_000_000, 3167, 86, "completed"),
        (1, None, 82_000_000, 3112, 192, "completed"),
        (3, None, 82_000_000, 2890, 170, "completed"),
    ]


def test_numbers_units_and_half_tokens_are_rejects_and_the_empty_last_line_is_no_row(trace):
    rule = "timestamp: must be a text of seconds, at least 0"
    whole = "input_length: must be a whole number of at least 0"
    assert rejects(trace) == [(4, rule), (5, rule), (6, whole)]
    assert trace.tables["sources"]["rows_read"].item() == 6


def test_only_this_reader_knows_the_fixture():
    assert list(fits(FIXTURES / FILE)) == [KIND]


def test_what_is_written_is_read_again_within_a_second(ingest, tmp_path):
    log = simulated()
    ragpulse.write(log, tmp_path / "t.jsonl")
    columns = ("arrival_us", "prompt_tokens", "output_tokens")
    wanted = [
        (
            int(log.arrival_us[row]) // 1_000_000 * 1_000_000,
            int(log.prompt_tokens[row]),
            int(log.output_tokens[row]),
        )
        for row in completed(log)
    ]
    assert in_order(ingest(tmp_path, "t.jsonl", kind=KIND), columns) == wanted


@needs_traces
def test_the_public_trace_is_read_whole(ingest, tmp_path):
    # ragpulse/PROVENANCE.md: 7,106 records, 0..604,603 s, one out of order
    log = ingest(tmp_path, "ragpulse/0_trace.jsonl.gz", kind="auto", root="traces", out=tmp_path)
    requests = log.tables["requests"]
    assert requests.height == 7_106
    assert (requests["arrival_us"].min(), requests["arrival_us"].max()) == (0, 604_603_000_000)
    in_file = requests.sort("line")["arrival_us"]
    assert int((in_file.diff() < 0).sum()) == 1
    assert rejects(log) == []
