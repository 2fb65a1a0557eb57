"""Traces of the Splitwise simulator."""

from pipeline.sources.detect import fits
from tests.pipeline.readers.csv_traces import (
    FIXTURES,
    check_round_trip,
    needs_traces,
    rejects,
    simulated_trace,
    values,
)
from tests.pipeline.readers.writers import splitwise_trace

KIND = "splitwise_trace"
PATH = "splitwise_trace/trace.csv"
COLUMNS = ("request_id", "arrival_us", "prompt_tokens", "output_tokens")


def test_rows_are_read_by_name_or_rejected_with_the_field(ingest, tmp_path):
    ingested = ingest(FIXTURES, PATH, kind=KIND, out=tmp_path)
    assert values(ingested.tables["requests"], *COLUMNS) == [
        ("0", 1_000_000, 4096, 32),
        ("1", 3_250_000, 2048, 8),
    ]
    assert rejects(ingested) == [
        (4, "request_id: seen before"),
        (5, "batch_size: must be 1; the tokens of several requests are not stated"),
        (6, "arrival_timestamp: must be seconds of at least 0"),
    ]


def test_simulated_requests_come_back_from_this_format(ingest, tmp_path):
    log = simulated_trace(resolution_us=1)
    splitwise_trace.write(log, tmp_path / "trace.csv")
    ingested = ingest(tmp_path, "trace.csv", limit=0.0, kind=KIND)
    check_round_trip(ingested.tables["requests"], log, COLUMNS)


def test_its_look_fits_this_format_alone():
    assert list(fits(FIXTURES / PATH)) == [KIND]


@needs_traces
def test_the_real_trace_is_read_whole(ingest, tmp_path):
    path = "splitwise-sim/test_trace.csv"
    ingested = ingest(tmp_path, path, limit=0.0, kind=KIND, root="traces")
    assert values(ingested.tables["requests"], *COLUMNS) == [
        ("0", 1_000_000, 4096, 32),
        ("1", 3_000_000, 2048, 8),
        ("2", 4_000_000, 2048, 16),
    ]
