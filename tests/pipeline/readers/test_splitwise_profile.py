"""The profile of Splitwise."""

import pytest

from pipeline.sources.detect import fits
from tests.pipeline.readers.csv_traces import FIXTURES, needs_traces, rejects, values

KIND = "splitwise_profile"
PATH = "splitwise_profile/perf_model.csv"
COLUMNS = ("request_class", "replica", "batch_size", "latency_us", "batches")
A100 = ("llama2-70b_p512_t128", "a100-80gb_tp2")
H100 = ("bloom-176b_p512_t128", "h100-80gb_tp8")


def test_a_run_is_the_time_of_the_prompt_phase_in_microseconds(ingest, tmp_path):
    ingested = ingest(FIXTURES, PATH, kind=KIND, out=tmp_path)
    assert values(ingested.tables["profiles"], *COLUMNS) == [
        (*A100, 1, 196_250.0, 1),
        (*A100, 1, 195_750.0, 1),
        (*H100, 64, 1_000_500.0, 1),
    ]
    assert rejects(ingested) == [
        (5, "batch_size: must be a whole number in 1 .. 1000000"),
        (6, "prompt_time: must be milliseconds above 0"),
    ]


def test_the_option_takes_the_time_of_a_token_instead(ingest, tmp_path):
    options = {"phase": "token"}
    tables = ingest(FIXTURES, PATH, kind=KIND, out=tmp_path, options=options).tables
    assert tables["profiles"]["latency_us"].to_list() == [54_500.0, 54_250.0, 50_000.0, 50_000.0]


def test_another_phase_is_refused(ingest, tmp_path):
    with pytest.raises(ValueError, match=r"options\.phase = 'decode': must be one of prompt"):
        ingest(FIXTURES, PATH, kind=KIND, out=tmp_path, options={"phase": "decode"})


def test_its_look_fits_this_format_alone():
    assert list(fits(FIXTURES / PATH)) == [KIND]


@needs_traces
def test_all_real_runs_are_read_in_228_settings(ingest, tmp_path):
    # 1,260 rows in 228 settings of model, hardware, lengths, batch size and parallelism.
    path = "splitwise-sim/perf_model.csv"
    profiles = ingest(tmp_path, path, limit=0.0, kind=KIND, root="traces").tables["profiles"]
    settings = profiles.select("request_class", "replica", "batch_size").n_unique()
    assert (len(profiles), settings) == (1_260, 228)
