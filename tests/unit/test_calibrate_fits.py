"""Which batches each fit rests on, and the calibration as JSON."""

import json
from collections.abc import Callable

import numpy as np
import pytest

from pipeline.calibration.calibrate import Calibration, CalibrationRules, calibrate
from pipeline.calibration.describe import describe_calibration, from_json, to_json
from pipeline.calibration.log import LoggedBatches, LoggedRun

SHARES = {"train": 0.5, "validation": 0.2, "test": 0.3}


def changed(run: LoggedRun, **columns: np.ndarray) -> LoggedRun:
    return run._replace(batches=run.batches._replace(**columns))


def chosen(run: LoggedRun, rows: np.ndarray) -> LoggedRun:
    return run._replace(batches=LoggedBatches(*(column[rows] for column in run.batches)))


def test_each_replica_and_class_has_a_fit_of_its_own(calibration: Calibration) -> None:
    # The log's replica k takes (10 + 2 k) ms + (2 + c) ms * b for class c.
    for replica, cells in enumerate(calibration.service):
        for request_class, cell in enumerate(cells):
            assert cell.fit.alpha_s == pytest.approx(0.010 + 0.002 * replica)
            assert cell.fit.beta_s == pytest.approx(0.002 + 0.001 * request_class)
            assert cell.fit.noise_cv == pytest.approx(0.0, abs=1e-9)
            assert (cell.fit.batches, cell.held_out_batches, cell.pooled) == (75, 75, False)
            assert cell.held_out_error == pytest.approx(0.0, abs=1e-9)


def test_a_log_without_noise_has_no_spells(calibration: Calibration) -> None:
    assert calibration.spells.share == 0.0  # rounding errors are no noise


def test_the_fit_does_not_see_the_batches_after_the_training_split(run: LoggedRun) -> None:
    late = run.batches.dispatch_s >= 50.0
    slower = changed(run, service_s=np.where(late, 2.0, 1.0) * run.batches.service_s)
    before, after = (
        calibrate(log, CalibrationRules(SHARES, 20), np.random.default_rng(0)).service
        for log in (run, slower)
    )
    for replica, request_class in np.ndindex(2, 2):
        cell = after[replica][request_class]
        assert cell.fit == before[replica][request_class].fit
        # The held-out batches take twice as long as fitted: (f - 2 f) / f = -1.
        assert cell.held_out_bias == pytest.approx(-1.0)


def test_a_replica_with_too_few_batches_of_a_class_takes_the_fit_of_all(run: LoggedRun) -> None:
    batches = run.batches
    of_cell = (batches.replica == 1) & (batches.request_class == 0)
    kept = ~of_cell | (np.cumsum(of_cell) <= 19)
    cells = calibrate(
        chosen(run, kept), CalibrationRules(SHARES, 20), np.random.default_rng(0)
    ).service
    assert cells[1][0].pooled
    assert cells[1][0].fit.batches == 75 + 19
    assert not cells[0][0].pooled
    assert not cells[1][1].pooled


def test_a_replica_whose_batches_have_one_size_takes_the_fit_of_all(run: LoggedRun) -> None:
    # One size cannot tell overhead from marginal cost: the fit would call all of it one of them.
    batches = run.batches
    kept = (batches.replica == 0) | (batches.request_class == 1) | (batches.total_size == 2.0)
    cell = calibrate(
        chosen(run, kept), CalibrationRules(SHARES, 20), np.random.default_rng(0)
    ).service[1][0]
    assert cell.pooled
    assert cell.fit.alpha_s == pytest.approx(0.010, rel=0.2)


def test_a_log_that_does_not_name_replicas_has_one_fit_for_all(run: LoggedRun) -> None:
    unnamed = changed(run, replica=np.full(len(run.batches.replica), -1))
    service = calibrate(unnamed, CalibrationRules(SHARES, 20), np.random.default_rng(0)).service
    assert service[0] == service[1]
    assert all(cell.pooled and cell.held_out_batches == 150 for cell in service[0])


def test_a_class_with_batches_of_one_size_is_refused(run: LoggedRun) -> None:
    kept = (run.batches.request_class == 0) | (run.batches.total_size == 4.0)
    with pytest.raises(ValueError, match=r"class 'slow': all 50 batches .* have size 4; overhead"):
        calibrate(chosen(run, kept), CalibrationRules(SHARES, 20), np.random.default_rng(0))


@pytest.mark.parametrize("left", [0, 19])
def test_a_class_without_enough_batches_in_the_training_split_is_refused(
    run: LoggedRun, left: int
) -> None:
    slow = (run.batches.request_class == 1) & (run.batches.dispatch_s < 50.0)
    kept = ~slow | (np.cumsum(slow) <= left)  # after the training split there are plenty
    message = f"min_batches = 20: class 'slow' has {left} batches in the training split"
    with pytest.raises(ValueError, match=message):
        calibrate(chosen(run, kept), CalibrationRules(SHARES, 20), np.random.default_rng(0))


def test_the_json_form_is_read_back_as_it_was(
    make_run: Callable[..., LoggedRun], run: LoggedRun
) -> None:
    noisy = calibrate(
        make_run(run.arrivals, noise_cv=0.2), CalibrationRules(SHARES, 20), np.random.default_rng(0)
    )
    text = json.dumps(to_json(noisy), allow_nan=False)
    assert to_json(from_json(json.loads(text))) == to_json(noisy)  # NaN differs from itself


def test_what_is_not_known_is_null_in_json_and_nan_again_when_read(run: LoggedRun) -> None:
    nothing_held_out = chosen(run, run.batches.dispatch_s < 50.0)
    calibration = calibrate(
        nothing_held_out, CalibrationRules(SHARES, 20), np.random.default_rng(0)
    )
    told = to_json(calibration)
    assert told["service"][0][0]["held_out_error"] is None
    assert np.isnan(from_json(told).service[0][0].held_out_bias)
    assert (
        "replica 0 fast: L = 10.00 ms [10.00, 10.00] + 2.000 ms [2.000, 2.000] * b, line; noise "
        "lognormal, CV 0.000; held-out error unknown, no batch held out"
    ) in describe_calibration(calibration)


def test_batches_of_one_request_each_cost_their_mean_and_no_overhead(run: LoggedRun) -> None:
    single = chosen(run, run.batches.total_size == 1.0)._replace(
        system={**run.system, "max_batch_size": 1}
    )
    cell = calibrate(single, CalibrationRules(SHARES, 20), np.random.default_rng(0)).service[1][1]
    assert cell.fit.alpha_s == 0.0
    assert cell.fit.beta_s == pytest.approx(0.012 + 0.003)  # replica 1, class 1, one request
    assert cell.latency is None


def test_latencies_that_no_line_fits_become_a_table(run: LoggedRun) -> None:
    # The double from three requests on: 12 and 14 ms, but 36 ms for four.
    size = run.batches.total_size
    stepped_s = np.where(size > 2.0, 2.0, 1.0) * (0.010 + 0.002 * size)
    unnamed = changed(run, service_s=stepped_s, replica=np.full(len(size), -1))
    cell = calibrate(unnamed, CalibrationRules(SHARES, 20), np.random.default_rng(0)).service[0][0]
    assert cell.latency is not None
    assert cell.latency.kind == "table"
    assert cell.expected_s(np.array([1.0, 2.0, 4.0])) == pytest.approx([0.012, 0.014, 0.036])
    assert cell.held_out_error == pytest.approx(0.0, abs=1e-9)
