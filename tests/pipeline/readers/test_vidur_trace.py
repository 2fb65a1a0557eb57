"""Traces of the Vidur simulator; its copies of Azure's are compared in test_azure_llm.py."""

from pipeline.sources.detect import fits
from tests.pipeline.readers.csv_traces import (
    FIXTURES,
    check_round_trip,
    rejects,
    simulated_trace,
    values,
)
from tests.pipeline.readers.writers import vidur_trace

KIND = "vidur_trace"
PATH = "vidur_trace/trace.csv"
COLUMNS = ("arrival_us", "prompt_tokens", "output_tokens")
WHOLE = "must be a whole number of at least 0"


def test_floats_in_any_form_are_rounded_to_microseconds_or_rejected(ingest, tmp_path):
    # 5.2e-05 s = 52 us; 0.6660000000000001 s = 666,000 us.
    ingested = ingest(FIXTURES, PATH, kind=KIND, out=tmp_path)
    assert values(ingested.tables["requests"], *COLUMNS) == [
        (0, 4808, 10),
        (52, 3180, 8),
        (666_000, 110, 27),
    ]
    assert rejects(ingested) == [
        (5, "arrived_at: must be seconds of at least 0"),
        (6, f"num_decode_tokens: {WHOLE}"),  # 1.5
        (7, f"num_prefill_tokens: {WHOLE}"),  # nan
    ]


def test_simulated_requests_come_back_from_this_format(ingest, tmp_path):
    log = simulated_trace(resolution_us=1)
    vidur_trace.write(log, tmp_path / "trace.csv")
    ingested = ingest(tmp_path, "trace.csv", limit=0.0, kind=KIND)
    check_round_trip(ingested.tables["requests"], log, COLUMNS)


def test_its_look_fits_this_format_alone():
    assert list(fits(FIXTURES / PATH)) == [KIND]
