"""The noise path of a log on its way from the calibration into an episode."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pipeline.assembly import build_scenario
from pipeline.calibration.calibrate import Calibration, CalibrationRules, calibrate
from pipeline.calibration.describe import from_json, to_json
from pipeline.calibration.log import LoggedBatches, LoggedRun
from simulator.future import draw_future, spawn_streams
from simulator.noise import NO_PATH
from simulator.traffic import PoissonWorkload

SHARES = {"train": 0.5, "validation": 0.2, "test": 0.3}


@pytest.fixture(scope="module")
def long_run(make_run: Callable[..., LoggedRun], make_arrivals: Callable[..., Any]) -> LoggedRun:
    """Four noisy logs of 600 batches in one, so that 1,200 batches are in the training split."""
    runs = [make_run(make_arrivals(), noise_cv=0.3, seed=seed) for seed in range(4)]
    columns = zip(*(run.batches for run in runs), strict=True)
    joined = LoggedBatches(*(np.concatenate(column) for column in columns))
    order = np.argsort(joined.dispatch_s, kind="stable")
    return runs[0]._replace(batches=LoggedBatches(*(column[order] for column in joined)))


@pytest.fixture(scope="module")
def long_calibration(long_run: LoggedRun) -> Calibration:
    return calibrate(long_run, CalibrationRules(SHARES, 20), np.random.default_rng(0))


def test_the_path_holds_the_batches_of_the_training_split(long_calibration: Calibration) -> None:
    assert len(long_calibration.noise_path.z) == 1200


def test_a_short_log_has_spells_and_lognormal_noise(
    make_settings: Callable[..., Any], calibration: Calibration
) -> None:
    assert calibration.noise_path == NO_PATH
    assert not any(r.residuals for r in build_scenario(make_settings(), calibration).replicas)


def test_the_margins_are_the_measured_residuals_of_each_replica_and_class(
    make_settings: Callable[..., Any], long_run: LoggedRun, long_calibration: Calibration
) -> None:
    scenario = build_scenario(make_settings(), long_calibration)
    batches = long_run.batches
    rows = (batches.replica == 1) & (batches.request_class == 0) & (batches.dispatch_s < 50.0)
    expected_s = long_calibration.service[1][0].fit.expected_s(batches.total_size[rows])
    ratio = batches.service_s[rows] / expected_s
    np.testing.assert_allclose(scenario.replicas[1].residuals[0], np.sort(ratio / ratio.mean()))
    assert (scenario.noise_path, scenario.spell_share) == (long_calibration.noise_path, 0.0)


def test_an_episode_draws_its_noise_from_the_path(
    make_settings: Callable[..., Any], long_calibration: Calibration
) -> None:
    scenario = build_scenario(make_settings(), long_calibration)
    streams = spawn_streams(np.random.default_rng(2), 1)[0]
    future = draw_future(scenario, PoissonWorkload((20.0, 20.0)), 5.0, 0.0, streams)
    assert len(future.noise_z) > 100
    assert np.isin(future.noise_z, long_calibration.noise_path.z).all()


def test_spells_of_an_own_share_take_the_place_of_the_path(
    make_settings: Callable[..., Any], long_calibration: Calibration
) -> None:
    settings = make_settings(cluster={"spell_share": 0.25})
    scenario = build_scenario(settings, long_calibration)
    assert (scenario.spell_share, scenario.noise_path) == (0.25, NO_PATH)
    assert not any(replica.residuals for replica in scenario.replicas)


def test_json_keeps_the_path_and_the_residuals(long_calibration: Calibration) -> None:
    read = from_json(json.loads(json.dumps(to_json(long_calibration))))
    assert dataclasses.asdict(read.noise_path) == dataclasses.asdict(long_calibration.noise_path)
    told, kept = read.service[0][1].noise, long_calibration.service[0][1].noise
    assert told is not None
    assert kept is not None
    assert told.residuals == kept.residuals
