"""Splits follow in time; windows tile them; arrivals are measured within them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pipeline.calibration.arrivals import fit_arrivals, split_by_time
from pipeline.calibration.calibrate import Calibration
from pipeline.calibration.log import LoggedRun
from pipeline.workloads import build_workload, evaluation_workloads, split_arrivals
from simulator.traffic import PoissonWorkload, SquareBurstWorkload
from simulator.workload import Arrivals

SHARES = {"train": 0.5, "validation": 0.2, "test": 0.3}


def generator() -> np.random.Generator:
    return np.random.default_rng(6)


def drawn(workload: Any, horizon_s: float = 5.0) -> Arrivals:
    return workload.draw(horizon_s, generator())


def test_splits_follow_in_time_and_cover_the_log_without_gap_or_overlap() -> None:
    splits = split_by_time(600.0, SHARES)
    assert list(splits) == ["train", "validation", "test"]
    assert [tuple(split) for split in splits.values()] == [
        (0.0, 300.0),
        (300.0, 420.0),
        (420.0, 600.0),
    ]
    assert splits["test"].span_s == 180.0


def test_rounding_of_the_shares_does_not_cut_off_the_end_of_the_log() -> None:
    shares = {"train": 0.6, "validation": 0.3, "test": 0.1}
    assert sum(shares.values()) < 1.0
    assert split_by_time(600.0, shares)["test"].end_s == 600.0


@pytest.mark.parametrize(
    "shares",
    [{"a": 0.5, "b": 0.4}, {"a": 1.0, "b": 0.0}, {"a": 1.5, "b": -0.5}, {"a": np.nan, "b": 0.5}],
)
def test_shares_that_do_not_cut_a_log_are_refused(shares: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="every share must be above 0, and they must sum to 1"):
        split_by_time(600.0, shares)


def test_the_requests_of_a_split_are_those_of_its_span_in_their_order(
    run: LoggedRun, calibration: Calibration
) -> None:
    start_s = 0.0
    rebuilt = []
    for name, span in calibration.splits.items():
        assert span.start_s == start_s
        rebuilt.append(split_arrivals(run, calibration, name).arrival_s + span.start_s)
        start_s = span.end_s
    # Together the splits are the log, in the order of time: nothing shuffled, lost or seen twice.
    assert np.concatenate(rebuilt) == pytest.approx(run.arrivals.arrival_s, abs=1e-9)


def test_evaluation_windows_tile_the_split_without_overlap(
    make_settings: Callable[..., Any], run: LoggedRun, calibration: Calibration
) -> None:
    settings = make_settings()  # windows of 5 s; the test split spans 30 s
    workloads, window = evaluation_workloads(settings, calibration, run, "test", 6)
    assert window.tolist() == [0, 1, 2, 3, 4, 5]
    shown = [drawn(workload).arrival_s for workload in workloads]
    assert all((arrival_s < 5.0).all() for arrival_s in shown)
    laid_out = np.concatenate([at + 5.0 * number for number, at in enumerate(shown)])
    of_split = split_arrivals(run, calibration, "test").arrival_s
    assert laid_out == pytest.approx(of_split, abs=1e-9)


def test_what_is_left_of_a_split_after_its_last_window_is_not_shown(
    make_settings: Callable[..., Any], run: LoggedRun, calibration: Calibration
) -> None:
    scenario = {"slo_s": {"fast": 0.1, "slow": 0.5}, "horizon_s": 7.0}  # 30 = 4 * 7 + 2
    workloads, _ = evaluation_workloads(
        make_settings(scenario=scenario), calibration, run, "test", 4
    )
    shown = sum(len(drawn(workload, 7.0).arrival_s) for workload in workloads)
    of_split = split_arrivals(run, calibration, "test").arrival_s
    assert shown == (of_split < 28.0).sum() < len(of_split)


def test_fewer_windows_than_episodes_are_shown_equally_often(
    make_settings: Callable[..., Any], run: LoggedRun, calibration: Calibration
) -> None:
    workloads, window = evaluation_workloads(make_settings(), calibration, run, "test", 8)
    assert len(workloads) == 12  # six windows, twice: 8 rounded up
    assert np.unique(window, return_counts=True)[1].tolist() == [2] * 6
    assert drawn(workloads[1]).arrival_s.tolist() == drawn(workloads[7]).arrival_s.tolist()
    assert window[1] == window[7]


def test_of_more_windows_than_episodes_every_one_is_shown_once(
    make_settings: Callable[..., Any], run: LoggedRun, calibration: Calibration
) -> None:
    _, window = evaluation_workloads(make_settings(), calibration, run, "train", 4)
    assert window.tolist() == list(range(10))


def test_rate_scale_raises_the_rate_and_keeps_the_shape(
    make_settings: Callable[..., Any], run: LoggedRun, calibration: Calibration
) -> None:
    workloads, _ = evaluation_workloads(
        make_settings(), calibration, run, "test", 3, rate_scale=2.0
    )
    assert len(workloads) == 3  # windows of 10 s of the log
    of_split = split_arrivals(run, calibration, "test")
    for number, workload in enumerate(workloads):
        logged, shown = of_split.window(10.0 * number, 10.0 * (number + 1)), drawn(workload)
        assert 2.0 * shown.arrival_s == pytest.approx(logged.arrival_s)
        assert shown.request_class.tolist() == logged.request_class.tolist()
        assert shown.size.tolist() == logged.size.tolist()


def test_the_rate_scale_of_the_workload_and_of_a_stress_scenario_multiply(
    make_settings: Callable[..., Any], run: LoggedRun, calibration: Calibration
) -> None:
    doubled = make_settings(workload={"kind": "logged", "rate_scale": 2.0})
    workloads, _ = evaluation_workloads(doubled, calibration, run, "test", 1, rate_scale=1.5)
    logged = split_arrivals(run, calibration, "test").window(0.0, 15.0)
    assert 3.0 * drawn(workloads[0]).arrival_s == pytest.approx(logged.arrival_s)


def test_a_split_shorter_than_a_window_is_refused(
    make_settings: Callable[..., Any], run: LoggedRun, calibration: Calibration
) -> None:
    scenario = {"slo_s": {"fast": 0.1, "slow": 0.5}, "horizon_s": 21.0}
    with pytest.raises(ValueError, match="the validation split spans 20 s and has no window of 21"):
        evaluation_workloads(make_settings(scenario=scenario), calibration, run, "validation", 4)


def test_training_draws_windows_inside_the_split(
    make_settings: Callable[..., Any], run: LoggedRun, calibration: Calibration
) -> None:
    workload = build_workload(make_settings(), calibration, run, "validation")
    draws = generator()
    sizes = {float(s) for _ in range(50) for s in workload.draw(5.0, draws).size}
    assert sizes == {2.0}


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        (
            {"kind": "poisson", "rate_rps": {"slow": 1.0, "fast": 4.0}},
            PoissonWorkload((8.0, 2.0)),
        ),
        (
            {
                "kind": "square_burst",
                "low_rps": {"fast": 0.0, "slow": 1.0},
                "high_rps": {"fast": 9.0, "slow": 3.0},
                "low_s": 2.0,
                "high_s": 1.0,
            },
            SquareBurstWorkload((0.0, 2.0), (18.0, 6.0), 2.0, 1.0, True),
        ),
    ],
)
def test_generated_episodes_are_windows_of_their_own_at_a_multiple_of_the_rate(
    make_settings: Callable[..., Any],
    run: LoggedRun,
    calibration: Calibration,
    workload: dict[str, Any],
    expected: Any,
) -> None:
    settings = make_settings(workload=workload)
    workloads, window = evaluation_workloads(settings, calibration, run, "test", 3, rate_scale=2.0)
    assert workloads == [expected] * 3  # by class, whatever the order of the keys
    assert window.tolist() == [0, 1, 2]


def test_arrivals_are_fitted_within_each_split(run: LoggedRun, calibration: Calibration) -> None:
    for name, span in calibration.splits.items():
        for number in range(2):
            of_class = run.arrivals.request_class == number
            inside = (run.arrivals.arrival_s >= span.start_s) & (
                run.arrivals.arrival_s < span.end_s
            )
            count = int((of_class & inside).sum())
            fit = calibration.arrivals[name][number]
            assert fit.arrival_rate_rps == pytest.approx(count / span.span_s)
            assert fit.interarrival_cv == pytest.approx(1.0, abs=4 / np.sqrt(count))  # Poisson


def test_regular_arrivals_have_cv_0_and_pairs_have_cv_1() -> None:
    def fit(instants_s: list[float]) -> tuple[float, float]:
        count = len(instants_s)
        arrivals = Arrivals(np.array(instants_s), np.zeros(count, int), np.ones(count))
        return fit_arrivals(arrivals, 0, 10.0)

    assert fit([1.0, 2.0, 3.0, 4.0]) == pytest.approx((0.4, 0.0))
    # Gaps 0, 2, 0, 2, 0: mean 0.8, variance (3 * 0.64 + 2 * 1.44) / 5 = 0.96.
    assert fit([1.0, 1.0, 3.0, 3.0, 5.0, 5.0]) == pytest.approx((0.6, np.sqrt(0.96) / 0.8))
    for few in ([], [1.0], [1.0, 2.0], [1.0, 1.0, 1.0]):
        rate_rps, cv = fit(few)
        assert rate_rps == pytest.approx(len(few) / 10.0)
        assert np.isnan(cv)
