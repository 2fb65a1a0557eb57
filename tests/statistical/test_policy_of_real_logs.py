"""Batches and policies of real logs: the testbed's in the repository, and public runs of vLLM."""

import json
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest

from pipeline.calibration.batch_reconstruction import CONTINUOUS, WHOLE, rebuild_batches
from pipeline.calibration.logged_policy import (
    DispatchDecisions,
    DispatchLog,
    check_propensities,
    declared_policy,
    rebuilt_decisions,
    recognize_policy,
    recorded_decisions,
)
from pipeline.calibration.logged_policy.declared import legal_counts
from pipeline.files import plain

pytestmark = pytest.mark.slow

SAMPLE = Path(__file__).parents[2] / "data" / "sample"
MENU = (1, 2, 4, 8, 16)


class Sample(NamedTuple):
    """A log, its own decisions and their declared propensities."""

    log: DispatchLog
    decisions: DispatchDecisions
    propensity: np.ndarray


@pytest.fixture(scope="module")
def sample() -> Sample:
    """The committed log of the testbed."""
    requests, batches, decisions = (
        pl.read_parquet(SAMPLE / f"{name}.parquet") for name in ("requests", "batches", "decisions")
    )
    names = json.loads((SAMPLE / "system.json").read_text())["request_classes"]
    number = {name: place for place, name in enumerate(names)}
    requests = requests.filter(pl.col("dispatch_us").is_not_null()).sort("arrival_us")
    log = DispatchLog(
        requests["arrival_us"].to_numpy() / 1e6,
        requests["request_class"].replace_strict(number, return_dtype=pl.Int64).to_numpy(),
        batches["replica"].to_numpy().astype(int),
        batches["request_class"].replace_strict(number, return_dtype=pl.Int64).to_numpy(),
        batches["batch_size"].to_numpy().astype(int),
        batches["dispatch_us"].to_numpy() / 1e6,
        batches["departure_us"].to_numpy() / 1e6,
        2,
        2,
    )
    recorded = recorded_decisions(
        log,
        decisions["clock_us"].to_numpy() / 1e6,
        np.array(decisions["queue_length"].to_list()),
        np.array(decisions["can_take"].to_list()),
        decisions["batch_id"].fill_null(-1).to_numpy(),
    )
    return Sample(log, recorded, decisions["propensity"].to_numpy())


def test_the_declared_policy_of_the_sample_is_recognized_when_it_is_hidden(
    sample: Sample,
) -> None:
    by_decisions = recognize_policy(sample.log, sample.decisions, MENU)
    decisions, contradictions = rebuilt_decisions(sample.log)
    by_batches = recognize_policy(sample.log, decisions, (), contradictions)
    for found in (by_decisions, by_batches):
        assert found.rule == "batch_timeout"
        assert found.parameters["max_batch_size"] == 8
        assert found.parameters["batch_timeout_s"] == pytest.approx(0.030, abs=0.001)
    assert by_decisions.epsilon == pytest.approx(0.1, abs=0.01)
    assert by_decisions.log_likelihood > by_decisions.estimated_log_likelihood
    assert json.dumps(plain(by_decisions._asdict()), allow_nan=False)


def test_the_sample_bears_out_what_it_declares(sample: Sample) -> None:
    system = json.loads((SAMPLE / "system.json").read_text())
    found = declared_policy(sample.log, sample.decisions, MENU, system["policy"])
    assert found.explained > 0.99
    # A one-hot rule with epsilon: 1 - epsilon + epsilon / A, with some 10 legal actions.
    assert found.agreement == pytest.approx(0.9 + 0.1 / 10, abs=0.01)
    legal = legal_counts(sample.log, sample.decisions, MENU)
    checked = check_propensities(sample.propensity, legal)
    assert checked.holds
    assert checked.mean_inverse == pytest.approx(checked.mean_legal, rel=0.05)


def test_batches_of_the_sample_are_rebuilt_from_its_requests() -> None:
    requests = pl.read_parquet(SAMPLE / "requests.parquet")
    batches = pl.read_parquet(SAMPLE / "batches.parquet")
    replica = requests.join(batches.select("batch_id", "replica"), on="batch_id", how="left")
    found = rebuild_batches(
        replica["replica"].to_numpy(),
        np.zeros(len(requests), int),
        requests["dispatch_us"].to_numpy() / 1e6,
        requests["departure_us"].to_numpy() / 1e6,
    )
    assert found.kind == WHOLE
    np.testing.assert_array_equal(found.batch, requests["batch_id"].to_numpy())


@pytest.mark.skipif("TRACES_DIR" not in os.environ, reason="needs the public traces")
def test_real_vllm_runs_look_continuous() -> None:
    folder = Path(os.environ["TRACES_DIR"]) / "llmservingsim-vllm"
    runs = sorted(folder.rglob("requests.jsonl"))
    assert runs, f"no run under {folder}"
    for path in runs:
        rows = pl.read_ndjson(path)
        start_s, end_s = rows["scheduled_ts"].to_numpy(), rows["last_token_ts"].to_numpy()
        zero = np.zeros(len(rows), int)
        found = rebuild_batches(zero, zero, start_s - start_s.min(), end_s - start_s.min())
        assert found.kind == CONTINUOUS, path
