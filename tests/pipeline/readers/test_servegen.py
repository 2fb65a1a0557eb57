"""ServeGen, from whose rates and length histograms requests are drawn."""

import csv
import gzip
import json
from pathlib import Path

import pytest

from pipeline.sources.detect import fits
from tests.pipeline.readers.csv_traces import (
    FIXTURES,
    TRACES,
    needs_traces,
    rejects,
    source,
    values,
)

KIND = "servegen"


@pytest.fixture(scope="module")
def drawn(ingest, tmp_path_factory):
    return ingest(FIXTURES, KIND, kind=KIND, out=tmp_path_factory.mktemp("out"))


@pytest.fixture
def read_client(ingest, tmp_path):
    """Takes one client with these windows and this dataset through ingest."""

    def read(windows: str, dataset: object, **options):
        (tmp_path / "chunk-1-trace.csv").write_text(windows)
        (tmp_path / "chunk-1-dataset.json").write_text(json.dumps(dataset))
        return ingest(tmp_path, "chunk-1-trace.csv", kind=KIND, options=options)

    return read


def test_each_window_has_as_many_requests_as_its_rate_states(drawn):
    # chunk-0: 0.05 * 600 = 30 from 600 s, 0.01 * 600 = 6 from 1200 s, 0.005 * 600 = 3 from 21600 s;
    # chunk-3: 0.02 * 600 = 12 from 0 s.
    counts: dict[tuple[str, int], int] = {}
    for client, arrival_us in values(drawn.tables["requests"], "request_class", "arrival_us"):
        window = (client, arrival_us // 600_000_000 * 600)
        counts[window] = counts.get(window, 0) + 1
    expected = {("chunk-0", 600): 30, ("chunk-0", 1200): 6, ("chunk-0", 21_600): 3}
    assert counts == {**expected, ("chunk-3", 0): 12}


def test_lengths_are_drawn_from_the_histograms_of_their_6_h(drawn):
    requests = drawn.tables["requests"]
    early = requests.filter(requests["arrival_us"] < 21_600_000_000)
    of_chunk_0 = early.filter(early["request_class"] == "chunk-0")
    assert set(of_chunk_0["prompt_tokens"]) == {572}
    assert set(of_chunk_0["output_tokens"]) == {10, 20}
    multimodal = early.filter(early["request_class"] == "chunk-3")
    assert set(multimodal["prompt_tokens"]) == {90}  # text_tokens
    late = requests.filter(requests["arrival_us"] >= 21_600_000_000)
    assert late["prompt_tokens"].to_list() == [None] * 3  # "{}": none are stated
    assert late["output_tokens"].to_list() == [7] * 3


def test_windows_that_cannot_be_read_are_rejects_and_idle_ones_are_not(drawn):
    assert [reason for _, reason in rejects(drawn)] == [
        "family: must be Gamma or Weibull where the rate is above 0",
        "row: all cells but the fourth must be numbers",
        "shape, scale: must be at least 0.01, and above 0",
        "row: must have six cells",
        "rate: 0, though a family is named",
    ]
    assert "from 4 windows of 600 s" in source(drawn)["notes"]
    assert "1 of them idle" in source(drawn)["notes"]


def test_a_seed_gives_the_same_requests_and_another_seed_others(drawn, ingest, tmp_path):
    again = ingest(FIXTURES, KIND, kind=KIND, out=tmp_path / "again")
    assert again.tables["requests"].equals(drawn.tables["requests"])
    other = ingest(FIXTURES, KIND, kind=KIND, out=tmp_path / "other", seed=1)
    arrivals_us = drawn.tables["requests"]["arrival_us"].to_list()
    assert other.tables["requests"]["arrival_us"].to_list() != arrivals_us


def test_a_histogram_is_a_literal_and_never_run(read_client):
    dataset = {"0": {"input_tokens": "__import__('os').getcwd()", "output_tokens": "{1: 1.0}"}}
    with pytest.raises(ValueError, match="0: prompt: must be a text that holds"):
        read_client("0,0.05,1,Gamma,1,20\n", dataset)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ("{10: 0.5}", "probabilities must add up to 1"),
        ("{-1: 1.0}", "lengths must be at least 0"),
        ("{1: -0.5, 2: 1.5}", "must be at least 0"),
        ("{1: nan}", "must be a text that holds"),
    ],
)
def test_a_histogram_that_is_no_distribution_is_refused(lengths, message, read_client):
    with pytest.raises(ValueError, match=message):
        read_client("0,0.05,1,Gamma,1,20\n", {"0": {"output_tokens": lengths}})


def test_a_window_of_time_is_drawn_alone_and_too_many_requests_are_refused(read_client):
    windows = "0,0.05,1,Gamma,1,20\n600,0.1,1,Gamma,1,10\n"
    assert source(read_client(windows, {}, from_s=600.0))["rows_kept"] == 60
    with pytest.raises(ValueError, match=r"options\.max_requests = 89: is too few; narrow"):
        read_client(windows, {}, max_requests=89)


def test_a_trace_without_its_dataset_is_refused(ingest, tmp_path):
    (tmp_path / "chunk-1-trace.csv").write_text("0,0.05,1,Gamma,1,20\n")
    with pytest.raises(ValueError, match=r"chunk-1-dataset\.json: must lie beside"):
        ingest(tmp_path, "chunk-1-trace.csv", kind=KIND)


def test_its_look_fits_this_format_alone():
    assert list(fits(FIXTURES / KIND)) == [KIND]
    assert list(fits(FIXTURES / KIND / "chunk-3-trace.csv")) == [KIND]


@needs_traces
def test_a_real_client_gives_600_times_the_sum_of_its_rates(ingest, tmp_path):
    path = "servegen/reason/deepseek-r1/chunk-12-trace.csv"
    ingested = ingest(tmp_path, path, limit=0.0, kind=KIND, root="traces")
    with (Path(str(TRACES)) / path).open(newline="") as file:
        rates_rps = [float(row[1]) for row in csv.reader(file)]
    assert source(ingested)["rows_kept"] == round(600 * sum(rates_rps)) == 61_182
    assert "of 144 in the files, 117 of them idle" in source(ingested)["notes"]
    beside = Path(str(TRACES)) / path.replace("trace.csv", "dataset.json.gz")
    with gzip.open(beside, "rt") as file:
        assert len(json.load(file)) == 4
