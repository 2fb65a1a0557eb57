"""Likelihoods of arrival models by algebra: under exact instants, ticks and counts."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import expm
from scipy.stats import poisson

from pipeline.calibration.arrival_models.diurnal import Diurnal, diurnal_log_likelihood
from pipeline.calibration.arrival_models.models import Poisson, Renewal, log_likelihood
from pipeline.calibration.arrival_models.modulated import (
    MarkovModulated,
    phase_log_likelihood,
    total_log_likelihood,
)
from pipeline.calibration.arrival_models.observed import COUNTS, GAPS, Observed, observe

SWAP = ((0.0, 1.0), (1.0, 0.0))
TWO = MarkovModulated((1.0, 6.0), (3.0, 2.0), SWAP)
ALIKE = MarkovModulated((2.0, 2.0), (3.0, 2.0), SWAP)


def arrivals(count: int = 60, seed: int = 1, resolution_s: float = 0.0) -> np.ndarray:
    instants_s = np.cumsum(np.random.default_rng(seed).exponential(0.5, count))
    return np.floor(instants_s / resolution_s) * resolution_s if resolution_s else instants_s


def seen(resolution_s: float) -> Observed:
    arrival_s = arrivals(resolution_s=resolution_s)
    return observe(arrival_s, float(arrival_s[-1]) + 1.0, resolution_s)


def ticks(count: int, resolution_s: float) -> Observed:
    """One gap of 0 ticks, one of 1, ...: their probabilities must sum to 1."""
    amount = np.arange(float(count))
    cell = np.arange(count)
    return Observed(GAPS, resolution_s, 1e9, count + 1, amount, amount, cell, amount)


@pytest.mark.parametrize("law", ["gamma", "weibull"])
@pytest.mark.parametrize("cv", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("resolution_s", [0.05, 1.0])
def test_tick_probabilities_sum_to_one_and_keep_the_mean_gap(
    law: str, cv: float, resolution_s: float
) -> None:
    # Rounding two instants alike moves no mean: E[ticks] r = 1 / rate.
    of_ticks = ticks(20_000, resolution_s)
    probability = np.exp(log_likelihood(of_ticks, Renewal(2.0, cv, law)))
    assert probability.sum() == pytest.approx(1.0, abs=1e-9)
    assert probability @ of_ticks.amount * resolution_s == pytest.approx(0.5, abs=1e-7)


def test_ticks_of_exponential_gaps_have_their_closed_form() -> None:
    # y = 2 * 0.5: P(0) = 1 - (1 - e^-y) / y, P(k) = e^(-y (k - 1)) (1 - e^-y)^2 / y.
    share = 1.0 - math.exp(-1.0)
    expected = [1.0 - share, share**2, share**2 * math.exp(-1.0)]
    found = np.exp(log_likelihood(ticks(3, 0.5), Poisson(2.0)))
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("law", ["gamma", "weibull"])
def test_a_tick_probability_is_the_density_averaged_over_both_roundings(law: str) -> None:
    renewal = Renewal(2.0, 0.6, law)

    def density(gap_s: float) -> float:
        exact = observe(np.array([0.0, gap_s]), 10.0)
        return math.exp(log_likelihood(exact, renewal)[0])

    for k in (1, 3):

        def weighted(gap_s: float, middle_s: float = 0.3 * k) -> float:
            return density(gap_s) * (1.0 - abs(gap_s - middle_s) / 0.3)

        area = sum(quad(weighted, 0.3 * low, 0.3 * (low + 1))[0] for low in (k - 1, k))
        found = log_likelihood(ticks(5, 0.3), renewal)[k]
        assert math.exp(found) == pytest.approx(area, rel=1e-6)


def test_a_very_fine_clock_gives_density_times_resolution() -> None:
    fine, exact = seen(1e-7), seen(0.0)
    for model in (Renewal(2.0, 0.7, "gamma"), Renewal(2.0, 1.8, "weibull"), Poisson(2.0), TWO):
        expected = log_likelihood(exact, model).sum() + 59 * math.log(1e-7)
        assert log_likelihood(fine, model).sum() == pytest.approx(expected, abs=1e-3)


def counts(count: int, resolution_s: float) -> Observed:
    amount = np.arange(float(count))
    cell = np.arange(count)
    return Observed(COUNTS, resolution_s, 1e9, count, amount, amount, cell, amount)


def test_counts_of_gamma_gaps_are_those_of_a_renewal_process_met_at_a_uniform_instant() -> None:
    of_counts = counts(200, 3.0)
    at_one = log_likelihood(of_counts, Poisson(4.0))
    assert at_one[:60] == pytest.approx(poisson.logpmf(np.arange(60), 12.0), abs=1e-9)
    # Shape 2, so 1 - F(x) = e^-8x (1 + 8x); none in 3 s: 4 times its integral from 3 on.
    erlang = np.exp(log_likelihood(of_counts, Renewal(4.0, math.sqrt(0.5), "gamma")))
    assert erlang[0] == pytest.approx(4.0 * math.exp(-24.0) * (2.0 / 8.0 + 3.0))
    assert erlang.sum() == pytest.approx(1.0)
    assert erlang @ of_counts.amount == pytest.approx(12.0)


@pytest.mark.parametrize("resolution_s", [0.0, 0.5])
def test_the_phase_filter_equals_one_matrix_after_another(resolution_s: float) -> None:
    observed = seen(resolution_s)
    rates = np.diag(TWO.rate_rps)
    probability, expected = TWO.phase_shares, []
    for amount in observed.amount:
        if resolution_s == 0.0:
            matrix = expm((TWO.jumps_per_s - rates) * amount)
        else:  # the average over where both instants lie in their ticks, by the midpoint rule
            at = (np.arange(400) + 0.5) / 200.0 - 1.0
            gap_s = (amount + at) * resolution_s
            weight = (1.0 - np.abs(at)) * (gap_s > 0) * resolution_s / 200.0
            every = expm((TWO.jumps_per_s - rates) * np.maximum(gap_s, 0.0)[:, None, None])
            matrix = np.einsum("n,nij->ij", weight, every)
        probability = probability @ matrix @ rates
        expected.append(math.log(probability.sum()))
        probability = probability / probability.sum()
    assert phase_log_likelihood(observed, TWO) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("resolution_s", [0.0, 0.01, 1.0, 5.0])
def test_phases_of_one_rate_and_a_flat_sine_are_poisson(resolution_s: float) -> None:
    observed = seen(resolution_s)
    expected = log_likelihood(observed, Poisson(2.0))
    assert phase_log_likelihood(observed, ALIKE) == pytest.approx(expected, abs=2e-2)
    assert phase_log_likelihood(observed, ALIKE).sum() == pytest.approx(expected.sum(), abs=1e-1)
    flat = Diurnal(2.0, 0.0, 100.0, 0.0)
    if observed.kind == GAPS:
        assert diurnal_log_likelihood(observed, flat) == pytest.approx(expected, abs=2e-2)


def test_the_quick_total_is_the_sum_over_observations_where_runs_are_full() -> None:
    arrival_s = arrivals(65)  # 64 gaps: 8 runs of 8
    observed = observe(arrival_s, 100.0)
    expected = phase_log_likelihood(observed, TWO).sum()
    assert total_log_likelihood(observed, TWO) == pytest.approx(expected)


def test_the_dispersion_of_two_phases_has_its_closed_form() -> None:
    # 1 + 2 s0 s1 (r1 - r0)^2 / ((q0 + q1) rate), with shares 0.6, 0.4 and q = 1/3, 1/2.
    expected = 1.0 + 2.0 * 0.6 * 0.4 * 25.0 / ((1 / 3 + 1 / 2) * 3.0)
    assert TWO.mean_rate_rps == pytest.approx(3.0)
    assert TWO.dispersion == pytest.approx(expected)


def test_the_arrivals_that_a_sine_expects_are_the_integral_of_its_rate() -> None:
    wave = Diurnal(3.0, 0.8, 50.0, 7.0)
    area = quad(lambda at: wave.rate_at(np.array([at]))[0], 4.0, 61.0)[0]
    assert wave.expected(np.array([4.0]), np.array([61.0]))[0] == pytest.approx(area)


def test_more_than_four_arrivals_in_a_tick_are_told_as_counts() -> None:
    arrival_s = np.repeat([1.0, 2.0, 4.0], 7)
    observed = observe(arrival_s, 5.0, 1.0)
    assert observed.kind == COUNTS
    assert observed.amount.tolist() == [0, 7, 7, 0, 7]
    assert observe(arrival_s, 6.0, 1.0).kind == GAPS


def test_ties_without_a_resolution_take_the_smallest_gap_as_resolution() -> None:
    observed = observe(np.array([0.0, 0.25, 0.25, 1.0]), 2.0)
    assert observed.resolution_s == 0.25
    assert observed.amount.tolist() == [1.0, 0.0, 3.0]


@pytest.mark.parametrize(
    ("arrival_s", "duration_s", "resolution_s", "message"),
    [
        ([1.0, 0.5], 2.0, 0.0, "arrival_s = .*: must be ascending"),
        ([0.0, 3.0], 2.0, 0.0, r"arrival_s = 3.0: must be in \[0, 2\]"),
        ([0.0, math.nan], 2.0, 0.0, "arrival_s = .*: must be finite"),
        ([0.0, 1.0], math.inf, 0.0, "duration_s = inf: must be positive and finite"),
        ([0.0, 1.0], 2.0, 2.0, r"resolution_s = 2.0: must be in \[0, 2\)"),
        ([1.0, 1.0], 2.0, 0.0, "arrival_s = 1.0: all arrivals are at one instant"),
        ([1.0], 2.0, 0.0, r"len\(arrival_s\) = 1: a gap needs two arrivals"),
    ],
)
def test_instants_that_cannot_be_are_refused(
    arrival_s: list[float], duration_s: float, resolution_s: float, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        observe(np.array(arrival_s), duration_s, resolution_s)
