"""The CSV report of perf_analyzer."""

import pytest

from pipeline.sources.detect import fits
from tests.pipeline.readers.csv_traces import FIXTURES, rejects, source, values

KIND = "perf_analyzer"
COLUMNS = ("line", "batch_size", "latency_us", "queue_us", "rate_rps", "concurrency")


def test_the_batch_latency_is_the_sum_of_the_servers_compute_times(ingest, tmp_path):
    # Line 2: 10 + 1000 + 20 us; line 3: 10 + 900 + 20 us. The batch size is the option's.
    path = "perf_analyzer/by_concurrency.csv"
    options = {"batch_size": 8}
    ingested = ingest(FIXTURES, path, kind=KIND, out=tmp_path, options=options)
    assert values(ingested.tables["profiles"], *COLUMNS) == [
        (2, 8, 1030.0, 2500.0, 900.5, 4.0),
        (3, 8, 930.0, 50.0, 800.0, 1.0),
    ]
    assert rejects(ingested) == [
        (4, "Server Queue: must be microseconds of at least 0"),
        (5, "Server Compute Input, Infer, Output: must add up to microseconds above 0"),
    ]
    assert "the batch size, 8, is that of options.batch_size" in source(ingested)["notes"]


def test_a_report_by_request_rate_with_other_columns_is_read(ingest, tmp_path):
    tables = ingest(FIXTURES, "perf_analyzer/by_rate.csv", kind=KIND, out=tmp_path).tables
    # 10 + 700 + 15 us.
    assert values(tables["profiles"], *COLUMNS) == [(2, 1, 725.0, 40.0, 99.5, None)]


@pytest.mark.parametrize("batch_size", [0, 1.5, "8", True])
def test_a_batch_size_that_is_none_is_refused(batch_size, ingest, tmp_path):
    options = {"batch_size": batch_size}
    with pytest.raises(ValueError, match=r"sources\.log\.options\.batch_size"):
        ingest(FIXTURES, "perf_analyzer/by_rate.csv", kind=KIND, out=tmp_path, options=options)


def test_its_look_fits_this_format_alone():
    for name in ("by_concurrency.csv", "by_rate.csv"):
        assert list(fits(FIXTURES / "perf_analyzer" / name)) == [KIND]
