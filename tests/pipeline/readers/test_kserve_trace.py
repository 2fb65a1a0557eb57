"""The trace log of KServe, line by line."""

from pipeline.sources.detect import fits
from tests.pipeline.readers.text_logs import (
    FIXTURES,
    by_arrival,
    expected,
    origin,
    rejects,
    rows,
    simulated_log,
)
from tests.pipeline.readers.writers import kserve_trace

KIND = "kserve_trace"


def test_arrival_is_the_end_less_all_stages(ingest, tmp_path):
    log = ingest(FIXTURES, "kserve_trace/server.log", kind=KIND, out=tmp_path)
    # Line 3: 00.700000 - (400.0 + 0.0019073486 + 0.000953674) ms = 00.299997 to the microsecond,
    # which is time 0; line 1: 00.500 - 100.0 ms = 00.400.
    assert origin(log) == "2024-03-01T12:00:00.299997+00:00"
    assert rows(log, "line", "request_id", "arrival_us", "departure_us", "replica") == [
        (1, "5b1e", 100_003, 200_003, "1"),
        (3, None, 0, 400_003, "7"),
    ]
    assert rejects(log) == [
        (2, "not a request: not a line of kserve.trace"),
        (4, "predict_ms: must be milliseconds"),
        (5, "time: must be a date and time"),
    ]


def test_only_this_reader_knows_the_fixture():
    assert list(fits(FIXTURES / "kserve_trace/server.log")) == [KIND]


def test_what_is_written_is_read_again(ingest, tmp_path):
    simulated = simulated_log(resolution_us=1000)
    kserve_trace.write(simulated, tmp_path / "server.log")
    found = ingest(tmp_path, "server.log", kind=KIND)
    kept = [row for row, status in enumerate(simulated.status) if status == "completed"]
    columns = ("request_id", "arrival_us", "departure_us", "status")
    assert by_arrival(found, *columns) == expected(simulated, *columns, kept=kept)
