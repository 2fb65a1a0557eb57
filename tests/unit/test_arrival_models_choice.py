"""When a richer model takes the lead, what little data tells, and the choice as traffic."""

import json
import math

import numpy as np
import pytest

from pipeline.calibration.arrival_models.choice import (
    LEAST_ARRIVALS,
    ArrivalChoice,
    Candidate,
    choose,
    fit_arrival_model,
)
from pipeline.calibration.arrival_models.diurnal import Diurnal
from pipeline.calibration.arrival_models.intervals import BLOCKS, cv_estimate, rate_estimate
from pipeline.calibration.arrival_models.models import ArrivalModel, Poisson, Renewal
from pipeline.calibration.arrival_models.modulated import MarkovModulated
from pipeline.calibration.arrival_models.observed import observe
from pipeline.calibration.arrival_models.workload import arrival_workload, from_json, to_json
from simulator.arrivals import GapLaw
from simulator.sizes import Constant, RequestMix, RequestSizes
from simulator.traffic import (
    DiurnalWorkload,
    MarkovModulatedWorkload,
    PoissonWorkload,
    RenewalWorkload,
)

SWAP = ((0.0, 1.0), (1.0, 0.0))
PHASES = MarkovModulated((1.0, 8.0), (30.0, 10.0), SWAP)
SIZES = (RequestSizes(Constant(2.0)), RequestSizes(Constant(3.0)))
MIX = (0.25, 0.75)


def candidate(name: str, ahead: float, spread: float = 0.0) -> Candidate:
    """Ahead of zero by that sum over all blocks, half the blocks above and half below."""
    sides = np.where(np.arange(BLOCKS) % 2 == 0, spread, -spread)
    return Candidate(name, Poisson(1.0), ahead / BLOCKS + sides)


def test_a_richer_model_leads_only_when_two_standard_errors_ahead() -> None:
    # Blocks of +-1 have a standard deviation of sqrt(20 / 19): the sum errs by 20 / sqrt(19).
    error = 20.0 / math.sqrt(19.0)
    poisson = candidate("poisson", 0.0)
    for ahead, winner in ((1.99 * error, "poisson"), (2.01 * error, "gamma")):
        chosen, reasons = choose([poisson, candidate("gamma", ahead, 1.0)])
        assert chosen.name == winner
        assert "standard error 4.6" in reasons[1]


def test_of_equally_many_parameters_the_likelier_stands_against_the_leader() -> None:
    known = [candidate("poisson", 0.0), candidate("gamma", 5.0), candidate("weibull", 6.0)]
    assert choose(known)[0].name == "weibull"
    assert choose([*known, candidate("diurnal", 5.9)])[0].name == "weibull"
    assert choose([*known, candidate("diurnal", 7.0)])[0].name == "diurnal"


def test_few_arrivals_tell_only_their_rate() -> None:
    for count in (0, 1, LEAST_ARRIVALS - 1):
        choice = fit_arrival_model(np.linspace(0.0, 10.0, count), 10.0)
        assert (choice.name, choice.observed) == ("poisson", "none")
        assert choice.rate_rps.value == count / 10.0
        assert choice.why.endswith("of them held out, tell only a rate")


def test_arrivals_that_stop_before_the_held_out_part_tell_only_their_rate() -> None:
    choice = fit_arrival_model(np.linspace(0.0, 60.0, 1000), 100.0)
    assert choice.why == "1000 arrivals, 0 of them held out, tell only a rate"


@pytest.mark.parametrize(
    ("workload", "name"),
    [
        (PoissonWorkload((5.0,)), "poisson"),
        (RenewalWorkload(5.0, 0.5), "gamma"),
        (RenewalWorkload(5.0, 2.0, GapLaw.WEIBULL), "weibull"),
    ],
    ids=["poisson", "gamma", "weibull"],
)
def test_a_short_log_is_recognized(workload: RenewalWorkload, name: str) -> None:
    arrival_s = workload.draw(400.0, np.random.default_rng(7)).arrival_s
    choice = fit_arrival_model(arrival_s, 400.0)
    assert choice.name == name
    rate = choice.rate_rps
    assert rate.value == pytest.approx(5.0, abs=4 * rate.standard_error)
    likeliest = max(choice.held_out_log_likelihood, key=choice.held_out_log_likelihood.__getitem__)
    assert likeliest == name or name == "poisson"


def test_the_held_out_part_does_not_move_the_candidates() -> None:
    # Only the last arrivals differ, so a fit to the first part must score the common part alike:
    # the likelihood of the same first part is not in the sum, that of the last part is.
    first = RenewalWorkload(5.0, 0.5).draw(280.0, np.random.default_rng(7)).arrival_s
    regular = 280.0 + np.arange(1, 601) * 0.19
    scores = fit_arrival_model(np.concatenate([first, regular]), 400.0).held_out_log_likelihood
    rate = np.searchsorted(first, 0.7 * 400.0) / 280.0
    # Under Poisson of the first part's rate: log rate - rate * gap, for each held-out gap.
    gaps = np.diff(np.concatenate([first[-1:], regular]))
    assert scores["poisson"] == pytest.approx((np.log(rate) - rate * gaps).mean(), abs=1e-3)


def test_the_rate_of_a_log_errs_as_its_blocks_or_as_its_model_whichever_is_more() -> None:
    even = (np.arange(400) + 0.5) / 4.0  # 20 in each block: their variance is 0
    assert rate_estimate(even, 100.0, Poisson(4.0)).standard_error == pytest.approx(0.2)
    assert rate_estimate(even, 100.0, Renewal(4.0, 3.0, "gamma")).standard_error == (
        pytest.approx(0.6)
    )
    # All in every other block, 40 or 0: standard deviation 20 sqrt(20 / 19), over 100 s.
    burst = np.sort(np.concatenate([even[(even // 5.0) % 2 == 0]] * 2))
    expected = 20.0 * math.sqrt(20.0 / 19.0) * math.sqrt(20.0) / 100.0
    assert rate_estimate(burst, 100.0, Poisson(4.0)).standard_error == pytest.approx(expected)


def test_the_sample_variation_is_freed_of_what_rounding_adds() -> None:
    arrival_s = np.cumsum(np.random.default_rng(3).gamma(4.0, 0.25, 40_000))
    exact = cv_estimate(observe(arrival_s, 50_000.0), PHASES)
    rounded = cv_estimate(observe(np.floor(arrival_s), 50_000.0, 1.0), PHASES)
    assert exact.value == pytest.approx(0.5, abs=4 * exact.standard_error)
    # Without the correction it would be sqrt(0.25 + 1 / 6) = 0.645.
    assert rounded.value == pytest.approx(0.5, abs=4 * rounded.standard_error)


def choice_of(name: str, model: ArrivalModel) -> ArrivalChoice:
    arrival_s = np.linspace(0.0, 10.0, 20)
    return fit_arrival_model(arrival_s, 10.0)._replace(name=name, model=model)


CASES = [
    (choice_of("poisson", Poisson(4.0)), PoissonWorkload((1.0, 3.0), SIZES)),
    (
        choice_of("weibull", Renewal(4.0, 2.0, "weibull")),
        RenewalWorkload(4.0, 2.0, GapLaw.WEIBULL, RequestMix(MIX, SIZES)),
    ),
    (
        choice_of("markov_modulated_2", PHASES),
        MarkovModulatedWorkload(((0.25, 0.75), (2.0, 6.0)), (30.0, 10.0), SWAP, None, SIZES),
    ),
    (
        choice_of("diurnal", Diurnal(4.0, 0.5, 100.0, 20.0)),
        DiurnalWorkload((1.0, 3.0), (0.5, 0.5), 100.0, (20.0, 20.0), True, SIZES),
    ),
]
every_case = pytest.mark.parametrize("case", CASES, ids=[case[0].name for case in CASES])


@every_case
def test_a_choice_is_traffic_with_rates_by_share(case: tuple[ArrivalChoice, object]) -> None:
    choice, expected = case
    assert arrival_workload(choice, MIX, SIZES) == expected


@every_case
def test_a_choice_survives_its_json_form(case: tuple[ArrivalChoice, object]) -> None:
    choice = case[0]
    text = json.dumps(to_json(choice), allow_nan=False)
    again = from_json(json.loads(text))
    assert math.isnan(again.interarrival_cv.value)
    assert again._replace(interarrival_cv=choice.interarrival_cv) == choice


def test_what_cannot_be_asked_is_refused_by_field_and_value() -> None:
    with pytest.raises(ValueError, match=r"held_out = 1.0: must be above 0 and below 1"):
        fit_arrival_model(np.zeros(1), 1.0, 0.0, 1.0)
    with pytest.raises(ValueError, match=r"period_s = -1.0: must be positive and finite"):
        fit_arrival_model(np.zeros(1), 1.0, period_s=-1.0)
    with pytest.raises(ValueError, match=r"mix = \(0.5,\): must be probabilities"):
        arrival_workload(CASES[0][0], (0.5,))
