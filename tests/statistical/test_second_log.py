"""What a calibration from the sample makes of a second log, of another load and mix."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from pipeline.assembly import build_scenario
from pipeline.calibration.calibrate import Calibration, CalibrationRules, calibrate
from pipeline.calibration.fidelity import (
    FidelityRules,
    Gate,
    describe_fidelity,
    fidelity_of_log,
    replay_batches,
    replayed_policy,
)
from pipeline.calibration.log import LoggedRun, read_logged_run
from pipeline.settings import IngestSettings, Settings, SourceSettings
from pipeline.sources import read_source
from pipeline.stage import compose_config, settings_of
from pipeline.store import warehouse_builder

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SHARES = {"train": 0.5, "validation": 0.2, "test": 0.3}
REPLAYS = 96


@pytest.fixture(scope="module")
def settings() -> Settings:
    """Those of the repository."""
    return settings_of(compose_config())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LoggedRun]:
    """Both logs."""
    out = tmp_path_factory.mktemp("logs")
    with warehouse_builder(out) as builder:
        for name in ("sample", "sample_second"):
            source = SourceSettings("serving_log", f"data/{name}")
            read_source(builder, name, source, ROOT, IngestSettings(0.0))
    return {name: read_logged_run(out / "tables", name) for name in ("sample", "sample_second")}


def fitted(run: LoggedRun) -> Calibration:
    return calibrate(run, CalibrationRules(SHARES, 20), np.random.default_rng(3))


def errors(
    settings: Settings, run: LoggedRun, calibration: Calibration, bands: tuple[float, ...]
) -> dict[tuple[str, str, str], float]:
    """The error of each statistic of the response times, by class and band; all are printed."""
    scenario = build_scenario(settings, calibration, as_logged=True)
    generator = np.random.default_rng(4)
    replay = replay_batches(run, scenario, REPLAYS, generator)
    gate = Gate(dataclasses.asdict(settings.calibration.tolerance), 500)
    policy = replayed_policy(run.system, calibration)
    found = fidelity_of_log(replay, policy, gate, FidelityRules(bands), generator)
    print("\n" + "\n".join(describe_fidelity(found)))
    return {
        (row.request_class, row.band, row.statistic): row.error
        for row in found.rows
        if row.metric == "response_s"
    }


def test_the_sample_is_retold_within_ten_percent_below_load_nine_tenths(settings, runs) -> None:
    run = runs["sample"]
    found = errors(settings, run, fitted(run), (0.9,))
    for request_class in ("fast", "slow"):
        for statistic in ("p50", "p95", "p99"):
            assert abs(found[request_class, "all", statistic]) <= 0.10, (request_class, statistic)


def test_the_second_log_is_retold_by_the_fit_of_the_first_in_its_middle(settings, runs) -> None:
    # Its slow spells came twice as often, so that the tail is beyond what the first log knows.
    found = errors(settings, runs["sample_second"], fitted(runs["sample"]), (0.9,))
    for request_class in ("fast", "slow"):
        assert abs(found[request_class, "all", "p50"]) <= 0.10


def test_the_second_log_is_retold_by_its_own_first_half(settings, runs) -> None:
    run = runs["sample_second"]
    found = errors(settings, run, fitted(run), (0.9,))
    for request_class in ("fast", "slow"):
        assert abs(found[request_class, "all", "p50"]) <= 0.10
