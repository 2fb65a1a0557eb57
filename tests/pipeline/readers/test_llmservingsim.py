"""Runs of vLLM that LLMServingSim recorded, line by line."""

import pytest

from pipeline.sources.detect import fits
from tests.pipeline.readers.json_logs import (
    close,
    expected,
    in_order,
    needs_traces,
    notes,
    simulated,
)
from tests.pipeline.readers.text_logs import FIXTURES, origin, rejects, rows
from tests.pipeline.readers.writers import llmservingsim

KIND, FOLDER = "llmservingsim", "llmservingsim/run"
INSTANTS = ("arrival_us", "dispatch_us", "first_token_us", "departure_us")


@pytest.fixture(scope="module")
def run(ingest, tmp_path_factory):
    return ingest(FIXTURES, FOLDER, kind=KIND, out=tmp_path_factory.mktemp("run"))


def test_stages_are_told_on_the_monotonic_clock_alone(run):
    # Line 2: 1000.100000567 s is 0.100001 s (to the nearest us) after 1000.0 s.
    assert rows(run, "line", *INSTANTS, "status") == [
        (1, 0, 500_000, 1_250_000, 3_000_000, "completed"),
        (2, 100_001, 200_000, 300_000, None, "failed"),
        (3, 200_000, None, None, None, "failed"),
    ]
    assert origin(run) == "1000.000000"
    assert run.tables["sources"]["clock"].item() == "monotonic"


def test_the_model_of_meta_json_is_the_class_and_its_set_points_are_noted(run):
    columns = ("request_id", "request_class", "prompt_tokens", "output_tokens")
    assert rows(run, *columns)[0] == ("bench-0", "acme/tiny-1b", 100, 20)
    assert "max_num_seqs 128" in notes(run)


def test_a_run_without_meta_json_has_no_class(ingest, tmp_path):
    log = ingest(FIXTURES, f"{FOLDER}/requests.jsonl", kind=KIND, out=tmp_path)
    assert rows(log, "request_class")[0] == (None,)


def test_a_broken_meta_json_is_refused(ingest, tmp_path):
    (tmp_path / "run").mkdir()
    content = (FIXTURES / FOLDER / "requests.jsonl").read_text()
    (tmp_path / "run/requests.jsonl").write_text(content)
    (tmp_path / "run/meta.json").write_text('{"model": 3}')
    with pytest.raises(ValueError, match=r"meta\.json: must be an object that names the model"):
        ingest(tmp_path, "run", kind=KIND)


def test_mixed_clocks_and_stages_out_of_order_are_rejects(run):
    assert rejects(run) == [
        (4, "queued_ts: must be seconds above 0"),
        (5, "first_token_ts: 0 (never reached), though last_token_ts was"),
        (6, "departure_us: before first_token_us"),
        (7, "dispatch_us: before arrival_us"),
        (8, "request_id: seen before"),
    ]


@pytest.mark.parametrize("name", [FOLDER, f"{FOLDER}/requests.jsonl"])
def test_only_this_reader_knows_the_fixture(name):
    assert list(fits(FIXTURES / name)) == [KIND]


def test_what_is_written_is_read_again_to_the_microsecond(ingest, tmp_path):
    log = simulated()
    llmservingsim.write(log, tmp_path / "requests.jsonl")
    columns = ("request_id", *INSTANTS, "prompt_tokens", "output_tokens", "status")
    kept = [row for row, status in enumerate(log.status) if status != "shed"]
    found = in_order(ingest(tmp_path, "requests.jsonl", kind=KIND), columns)
    close(found, expected(log, columns, kept), columns, within_us=0)


@needs_traces
@pytest.mark.parametrize(
    ("run_name", "queue_p50_s", "queue_max_s"),
    [
        # llmservingsim-vllm/PROVENANCE.md: queue p50 / max, to 0.1 s
        ("RTX4090/Llama-3.1-8B", 60.0, 137.7),
        ("RTXPRO6000/Llama-3.1-8B", 9.3, 20.2),
        ("RTXPRO6000/Qwen3-30B-A3B-Instruct-2507", 0.0, 10.3),
    ],
)
def test_the_public_runs_wait_as_long_as_their_provenance_says(
    ingest, tmp_path, run_name, queue_p50_s, queue_max_s
):
    path = f"llmservingsim-vllm/{run_name}"
    log = ingest(tmp_path, path, kind="auto", root="traces", out=tmp_path)
    requests = log.tables["requests"]
    assert requests.height == 300
    assert rejects(log) == []
    waiting_s = (requests["dispatch_us"] - requests["arrival_us"]) / 1e6
    assert waiting_s.median() == pytest.approx(queue_p50_s, abs=0.06)
    assert waiting_s.max() == pytest.approx(queue_max_s, abs=0.06)
