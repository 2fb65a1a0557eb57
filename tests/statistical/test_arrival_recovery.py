"""From generated arrivals back to the model and the parameters that generated them."""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pipeline.calibration.arrival_models.choice import ArrivalChoice, fit_arrival_model
from pipeline.calibration.arrival_models.diurnal import Diurnal
from pipeline.calibration.arrival_models.intervals import cv_estimate, rate_estimate
from pipeline.calibration.arrival_models.models import Renewal, fit_model
from pipeline.calibration.arrival_models.modulated import MarkovModulated
from pipeline.calibration.arrival_models.observed import observe
from simulator.arrivals import GapLaw
from simulator.traffic import (
    DiurnalWorkload,
    MarkovModulatedWorkload,
    PoissonWorkload,
    RenewalWorkload,
)
from simulator.workload import Workload

pytestmark = pytest.mark.slow

SWAP = ((0.0, 1.0), (1.0, 0.0))
THREE = ((0.0, 0.5, 0.5), (0.5, 0.0, 0.5), (0.5, 0.5, 0.0))
SPAN_S = 10_000.0
WORKLOADS: dict[str, Workload] = {
    "poisson": PoissonWorkload((2.0,)),
    "gamma 0.5": RenewalWorkload(2.0, 0.5),
    "gamma 2": RenewalWorkload(2.0, 2.0),
    "weibull 0.5": RenewalWorkload(2.0, 0.5, GapLaw.WEIBULL),
    "weibull 2": RenewalWorkload(2.0, 2.0, GapLaw.WEIBULL),
    "markov_modulated_2": MarkovModulatedWorkload(((1.0,), (6.0,)), (60.0, 20.0), SWAP),
    "markov_modulated_3": MarkovModulatedWorkload(
        ((0.5,), (2.0,), (10.0,)), (60.0, 60.0, 20.0), THREE
    ),
    "diurnal": DiurnalWorkload((2.0,), (0.6,), 1000.0, (100.0,)),
}
# With two arrivals in a second, rounding hides which law gaps of cv 0.5 have; their cv it does not.
UNTOLD_AT_1_S = ("gamma 0.5", "weibull 0.5")


def instants(name: str, resolution_s: float, seed: int = 5) -> np.ndarray:
    arrival_s = WORKLOADS[name].draw(SPAN_S, np.random.default_rng(seed)).arrival_s
    return np.floor(arrival_s / resolution_s) * resolution_s if resolution_s else arrival_s


@pytest.mark.parametrize("resolution_s", [0.0, 1.0])
@pytest.mark.parametrize("name", WORKLOADS)
def test_generated_arrivals_are_recognized_with_their_parameters(
    name: str, resolution_s: float
) -> None:
    choice = fit_arrival_model(instants(name, resolution_s), SPAN_S, resolution_s)
    print(choice.name, choice.model, choice.interarrival_cv, choice.why)
    if resolution_s == 1.0 and name in UNTOLD_AT_1_S:
        assert choice.name in ("gamma", "weibull")
        assert choice.interarrival_cv.value == pytest.approx(0.5, abs=0.06)
        return
    assert choice.name == name.split()[0]
    model = choice.model
    if isinstance(model, Renewal):
        error = choice.interarrival_cv.standard_error
        assert model.cv == pytest.approx(float(name.split()[1]), abs=4 * error)
    if isinstance(model, Diurnal):
        assert (model.rate_rps, model.period_s) == pytest.approx((2.0, 1000.0), rel=0.02)
        # 20,000 arrivals: amplitude +- sqrt(2 / 20,000) = 0.01, rise +- 0.01 / 0.6 of a radian.
        assert model.amplitude == pytest.approx(0.6, abs=0.04)
        assert model.rise_s == pytest.approx(100.0, abs=4 * 0.017 * 1000.0 / 6.28 * 2)
    if isinstance(model, MarkovModulated):
        truth = WORKLOADS[name]
        assert isinstance(truth, MarkovModulatedWorkload)
        rates = [rate for (rate,) in truth.rate_rps]
        assert model.rate_rps == pytest.approx(rates, rel=0.06)
        # Some 100 visits to each phase: a mean length errs by a tenth.
        assert model.mean_phase_s == pytest.approx(truth.mean_phase_s, rel=0.35)


def test_poisson_arrivals_are_called_poisson_in_at_least_ninety_of_a_hundred_seeds() -> None:
    called = [
        fit_arrival_model(
            PoissonWorkload((2.0,)).draw(500.0, np.random.default_rng(seed)).arrival_s, 500.0
        ).name
        for seed in range(100)
    ]
    print({name: called.count(name) for name in set(called)})
    assert called.count("poisson") >= 90


@pytest.mark.parametrize("resolution_s", [0.0, 0.2])
@pytest.mark.parametrize("name", ["poisson", *(f"{g} {c}" for g in GapLaw for c in (0.5, 2))])
def test_nominal_95_percent_intervals_cover_rate_and_cv_in_ninety_of_a_hundred_seeds(
    name: str, resolution_s: float
) -> None:
    workload = WORKLOADS[name]
    law, cv = name.split()[0], float(name.split()[1]) if " " in name else 1.0
    rate_covered = cv_covered = 0
    for seed in range(100):
        arrival_s = workload.draw(1000.0, np.random.default_rng([9, seed])).arrival_s
        if resolution_s:
            arrival_s = np.floor(arrival_s / resolution_s) * resolution_s
        observed = observe(arrival_s, 1000.0, resolution_s)
        model = fit_model(law, observed, arrival_s)
        assert model is not None
        rate, variation = rate_estimate(arrival_s, 1000.0, model), cv_estimate(observed, model)
        rate_covered += rate.low <= 2.0 <= rate.high
        cv_covered += variation.low <= cv <= variation.high
    print(name, resolution_s, rate_covered, cv_covered)
    assert min(rate_covered, cv_covered) >= 90


@pytest.mark.parametrize("name", ["markov_modulated_2", "diurnal"])
def test_nominal_95_percent_intervals_cover_the_rate_of_changing_traffic(name: str) -> None:
    true_rps = 2.25 if name == "markov_modulated_2" else 2.0
    covered = 0
    for seed in range(100):
        span_s = 2000.0
        arrival_s = WORKLOADS[name].draw(span_s, np.random.default_rng([8, seed])).arrival_s
        observed = observe(arrival_s, span_s)
        model = fit_model(name, observed, arrival_s, 1000.0)
        assert model is not None
        rate = rate_estimate(arrival_s, span_s, model)
        covered += rate.low <= true_rps <= rate.high
    print(name, covered)
    assert covered >= 90


def azure(name: str, traces: Path) -> tuple[np.ndarray, float]:
    lines = (traces / "azure-llm-2023" / f"AzureLLMInferenceTrace_{name}.csv").read_text()
    stamps = [line.split(",")[0].replace(" ", "T") + "00" for line in lines.splitlines()[1:]]
    instant = np.array(stamps, "datetime64[ns]")
    return (instant - instant[0]).astype(float) / 1e9, 1e-7


def json_lines(path: Path, unit_s: float) -> np.ndarray:
    with gzip.open(path, "rt") as lines:
        instant = [float(json.loads(line)["timestamp"]) for line in lines if line.strip()]
    arrival_s = np.sort(np.array(instant)) * unit_s
    return arrival_s - arrival_s[0]


MOONCAKE = "mooncake/conversation_trace.jsonl.gz"
REAL: dict[str, Callable[[Path], tuple[np.ndarray, float]]] = {
    "azure code": lambda traces: azure("code", traces),
    "azure conv": lambda traces: azure("conv", traces),
    "mooncake at 3 s": lambda traces: (json_lines(traces / MOONCAKE, 1e-3), 3.0),
    "ragpulse": lambda traces: (json_lines(traces / "ragpulse/0_trace.jsonl.gz", 1.0), 1.0),
}


@pytest.mark.parametrize("name", REAL)
@pytest.mark.skipif("TRACES_DIR" not in os.environ, reason="TRACES_DIR is not set")
def test_no_real_trace_is_poisson(name: str) -> None:
    arrival_s, resolution_s = REAL[name](Path(os.environ["TRACES_DIR"]))
    choice: ArrivalChoice = fit_arrival_model(
        arrival_s, float(arrival_s[-1]) + resolution_s, resolution_s
    )
    print(choice)
    assert choice.arrivals == len(arrival_s)
    assert choice.name != "poisson"
