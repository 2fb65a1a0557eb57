"""From the section `workload` to what arrives: kinds, sizes, mixes and the rate of the log."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pipeline.calibration.calibrate import Calibration
from pipeline.calibration.log import LoggedRun
from pipeline.workloads import (
    build_workload,
    describe_load,
    evaluation_workloads,
    logged_rate_scale,
    split_arrivals,
)
from simulator.arrivals import GapLaw
from simulator.sizes import Constant, Empirical, Lognormal, Quantiles, RequestMix, RequestSizes
from simulator.traffic import (
    DiurnalWorkload,
    MarkovModulatedWorkload,
    PoissonWorkload,
    RenewalWorkload,
)

MakeSettings = Callable[..., Any]
PHASES = {
    "quiet": {
        "rate_rps": {"slow": 1.0, "fast": 2.0},
        "mean_phase_s": 6.0,
        "jump_probability": {"burst": 0.75, "storm": 0.25},
    },
    "burst": {
        "rate_rps": {"fast": 60.0, "slow": 20.0},
        "mean_phase_s": 2.0,
        "jump_probability": {"quiet": 1.0},
    },
    "storm": {
        "rate_rps": {"fast": 90.0, "slow": 0.0},
        "mean_phase_s": 1.0,
        "jump_probability": {"quiet": 1.0},
    },
}
SIZES = {
    "slow": {"kind": "lognormal", "mean": 2.0, "cv": 0.5},
    "fast": {"kind": "empirical", "values": [1.0, 3.0], "counts": [9.0, 1.0]},
}
BY_CLASS = (RequestSizes(Empirical((1.0, 3.0), (9.0, 1.0))), RequestSizes(Lognormal(2.0, 0.5)))
EXPECTED = [
    (
        {"kind": "markov_modulated", "phases": PHASES, "first_phase": "burst", "sizes": SIZES},
        MarkovModulatedWorkload(
            ((4.0, 2.0), (120.0, 40.0), (180.0, 0.0)),
            (6.0, 2.0, 1.0),
            ((0.0, 0.75, 0.25), (1.0, 0.0, 0.0), (1.0, 0.0, 0.0)),
            1,
            BY_CLASS,
        ),
    ),
    (
        {
            "kind": "renewal",
            "rate_rps": 20.0,
            "cv": 3.0,
            "law": "weibull",
            "mix": {"slow": 0.2, "fast": 0.8},
            "sizes": SIZES,
        },
        RenewalWorkload(40.0, 3.0, GapLaw.WEIBULL, RequestMix((0.8, 0.2), BY_CLASS)),
    ),
    (
        {
            "kind": "diurnal",
            "rate_rps": {"fast": 5.0, "slow": 3.0},
            "amplitude": {"slow": 0.5, "fast": 1.0},
            "rise_s": {"fast": 0.0, "slow": 7.0},
            "period_s": 60.0,
        },
        DiurnalWorkload((10.0, 6.0), (1.0, 0.5), 60.0, (0.0, 7.0), True),
    ),
    (
        {"kind": "poisson", "rate_rps": {"fast": 5.0, "slow": 3.0}, "sizes": SIZES},
        PoissonWorkload((10.0, 6.0), BY_CLASS),
    ),
]


@pytest.mark.parametrize(("workload", "expected"), EXPECTED)
def test_a_kind_becomes_its_workload_by_class_with_all_rates_scaled(
    make_settings: MakeSettings,
    run: LoggedRun,
    calibration: Calibration,
    workload: dict[str, Any],
    expected: Any,
) -> None:
    settings = make_settings(workload=workload)
    shown, _ = evaluation_workloads(settings, calibration, run, "test", 2, rate_scale=2.0)
    assert shown == [expected] * 2


def test_sizes_may_be_constant_or_through_quantiles(
    make_settings: MakeSettings, run: LoggedRun, calibration: Calibration
) -> None:
    sizes = {
        "fast": {"kind": "constant", "value": 2.0},
        "slow": {"kind": "quantiles", "levels": [0.0, 0.5, 1.0], "values": [1.0, 2.0, 9.0]},
    }
    rates_rps = {"fast": 1.0, "slow": 1.0}
    settings = make_settings(workload={"kind": "poisson", "rate_rps": rates_rps, "sizes": sizes})
    through = Quantiles((0.0, 0.5, 1.0), (1.0, 2.0, 9.0))
    expected = (RequestSizes(Constant(2.0)), RequestSizes(through))
    assert build_workload(settings, calibration, run, "train") == PoissonWorkload(
        (1.0, 1.0), expected
    )


def test_sizes_and_mix_of_the_log_are_those_of_the_training_split(
    make_settings: MakeSettings, run: LoggedRun, calibration: Calibration
) -> None:
    # Every other request of the log becomes twice as large; sizes tell the split: 1 in training.
    size = run.arrivals.size * np.where(np.arange(len(run.arrivals.size)) % 2, 2.0, 1.0)
    run = run._replace(arrivals=run.arrivals._replace(size=size))
    logged = {"kind": "logged"}
    settings = make_settings(
        workload={
            "kind": "renewal",
            "rate_rps": 9.0,
            "cv": 1.0,
            "sizes": {"fast": logged, "slow": logged},
        }
    )
    workload = build_workload(settings, calibration, run, "test")
    train = split_arrivals(run, calibration, "train")
    for number, of_class in enumerate(workload.mix.sizes):
        here = train.size[train.request_class == number]
        assert workload.mix.probability[number] == pytest.approx(len(here) / len(train.size))
        assert of_class.size.values == (1.0, 2.0)
        assert of_class.size.mean == pytest.approx(here.mean())


def test_the_log_is_shown_at_the_rate_that_is_asked_for_and_the_factor_is_told(
    make_settings: MakeSettings, run: LoggedRun, calibration: Calibration
) -> None:
    settings = make_settings(workload={"kind": "logged", "rate_rps": 80.0})
    train, test = (split_arrivals(run, calibration, split) for split in ("train", "test"))
    scale = 80.0 / (len(train.arrival_s) / 50.0)
    assert logged_rate_scale(settings.workload, calibration) == pytest.approx(scale)
    workload = build_workload(settings, calibration, run, "train")
    assert workload.rate_rps == pytest.approx(80.0)
    # Other splits are shown by the same factor: what was busier stays busier.
    windows, number = evaluation_workloads(settings, calibration, run, "test", 1)
    assert len(np.unique(number)) == len(windows) == int(30.0 / (5.0 * scale))
    shown = windows[0].draw(5.0, np.random.default_rng(0)).arrival_s
    assert scale * shown == pytest.approx(test.window(0.0, 5.0 * scale).arrival_s)
    assert describe_load(settings, calibration) == (
        f"load: as logged, {scale:.4g} times as fast; 80 requests/s in training"
    )


def test_without_a_rate_the_log_is_shown_by_its_scale(
    make_settings: MakeSettings, calibration: Calibration
) -> None:
    settings = make_settings(workload={"kind": "logged", "rate_scale": 2.0})
    assert logged_rate_scale(settings.workload, calibration) == 2.0
