"""Rates, variation and profiles of generated traffic against theory, within standard errors."""

import math
import tracemalloc

import numpy as np
import pytest
from scipy import stats

from simulator.arrivals import GapLaw, markov_phases, weibull_shape
from simulator.sizes import (
    Constant,
    Distribution,
    Empirical,
    Lognormal,
    Quantiles,
    RequestMix,
    RequestSizes,
)
from simulator.traffic import (
    DiurnalWorkload,
    MarkovModulatedWorkload,
    PoissonWorkload,
    RenewalWorkload,
)
from simulator.workload import Workload

ERRORS = 4.0  # standard errors; one comparison in 16,000 is further off by luck
LAWS = list(GapLaw)


def counts(workload: Workload, horizon_s: float, episodes: int, seed: int) -> np.ndarray:
    """Requests in each of `episodes` independent episodes."""
    streams = np.random.default_rng(seed)
    return np.array([len(workload.draw(horizon_s, streams).arrival_s) for _ in range(episodes)])


def assert_mean(samples: np.ndarray, expected: float) -> None:
    """The mean of independent samples is the expected one, within their standard error."""
    error = samples.std(ddof=1) / math.sqrt(len(samples))
    print(f"mean {samples.mean():.5g}, theory {expected:.5g}, standard error {error:.2g}")
    assert abs(samples.mean() - expected) < ERRORS * error


def assert_cv(samples: np.ndarray, expected: float) -> None:
    """So is their coefficient of variation; its standard error is that of its influence values."""
    mean, deviation = samples.mean(), samples.std()
    centered = samples - mean
    influence = (centered**2 - deviation**2) / (2 * deviation * mean)
    influence -= deviation * centered / mean**2
    error = influence.std() / math.sqrt(len(samples))
    print(f"cv {deviation / mean:.5g}, theory {expected:.5g}, standard error {error:.2g}")
    assert abs(deviation / mean - expected) < ERRORS * error


def gaps_s(workload: Workload, horizon_s: float, seed: int) -> np.ndarray:
    return np.diff(workload.draw(horizon_s, np.random.default_rng(seed)).arrival_s)


def test_poisson_arrivals_have_the_rate_of_each_class_and_exponential_gaps() -> None:
    horizon_s = 20_000.0
    arrivals = PoissonWorkload((3.0, 1.0)).draw(horizon_s, np.random.default_rng(8))
    for number, rate_rps in enumerate((3.0, 1.0)):
        count = (arrivals.request_class == number).sum()
        assert abs(count - rate_rps * horizon_s) < ERRORS * np.sqrt(rate_rps * horizon_s)
    gaps = np.diff(arrivals.arrival_s)
    assert_cv(gaps, 1.0)
    assert stats.kstest(gaps, "expon", args=(0.0, 1 / 4.0)).pvalue > 1e-3


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("cv", [0.3, 1.0, 2.5])
def test_renewal_gaps_have_the_mean_and_the_cv_that_were_asked_for(law: GapLaw, cv: float) -> None:
    gaps = gaps_s(RenewalWorkload(50.0, cv, law), 6000.0, seed=2)
    assert_mean(gaps, 1 / 50.0)
    assert_cv(gaps, cv)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("cv", [0.5, 3.0])
def test_renewal_gaps_follow_their_law(law: GapLaw, cv: float) -> None:
    """Gaps below 1e-9 s are left out: at cv 3, a Gamma gap in 25 is too short for the clock."""
    gaps, shortest_s = gaps_s(RenewalWorkload(2.0, cv, law), 20_000.0, seed=3), 1e-9
    shape = cv**-2 if law == GapLaw.GAMMA else weibull_shape(cv)
    if law == GapLaw.GAMMA:
        expected = stats.gamma(shape, scale=0.5 / shape)
    else:
        expected = stats.weibull_min(shape, scale=0.5 / math.gamma(1 + 1 / shape))
    shorter = expected.cdf(shortest_s)
    if shorter > 1e-3:
        assert_mean((gaps < shortest_s).astype(float), shorter)
    found = stats.kstest(
        gaps[gaps >= shortest_s], lambda x: (expected.cdf(x) - shorter) / (1 - shorter)
    )
    assert found.pvalue > 1e-3


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("cv", [0.3, 5.0])
def test_a_renewal_episode_expects_rate_times_horizon_however_short(law: GapLaw, cv: float) -> None:
    assert_mean(counts(RenewalWorkload(10.0, cv, law), 0.25, 5000, seed=4), 2.5)


@pytest.mark.parametrize("law", LAWS)
def test_the_first_renewal_arrival_has_the_mean_of_the_equilibrium_distribution(
    law: GapLaw,
) -> None:
    workload, streams = RenewalWorkload(1.0, 0.5, law), np.random.default_rng(5)
    first_s = np.array([workload.draw(20.0, streams).arrival_s[0] for _ in range(5000)])
    assert_mean(first_s, (1.0 + 0.5**2) / 2.0)  # E[gap^2] / (2 E[gap])


def test_counts_of_renewal_arrivals_disperse_by_the_square_of_their_cv() -> None:
    for law in LAWS:
        found = counts(RenewalWorkload(10.0, 2.0, law), 400.0, 1000, seed=6)
        # Var N(t) = cv^2 lambda t + constant (Cox, Renewal Theory, section 4.5): 400 gaps of
        # memory leave less than 2 % of it.
        dispersion = found.var(ddof=1) / found.mean()
        assert dispersion == pytest.approx(4.0, rel=ERRORS * math.sqrt(2 / 1000) + 0.02)


def test_on_off_counts_have_the_index_of_dispersion_of_theory() -> None:
    """Var N(t) / E N(t) of a stationary on-off Poisson process with rate L while on.

    The rate has variance `V = p (1 - p) L^2` and correlation `exp(-s u)`, with p the share on and
    `s = 1 / on_s + 1 / off_s`; so `Var N = p L t + 2 V (t / s - (1 - exp(-s t)) / s^2)`.
    """
    on_s, off_s, rate_rps, t = 2.0, 3.0, 20.0, 4.0
    share, s = on_s / (on_s + off_s), 1 / on_s + 1 / off_s
    mean = share * rate_rps * t
    memory = t / s - (1 - math.exp(-s * t)) / s**2
    expected = 1.0 + 2 * share * (1 - share) * rate_rps**2 * memory / mean
    found = counts(MarkovModulatedWorkload.on_off((rate_rps,), on_s, off_s), t, 3000, seed=7)
    assert_mean(found, mean)
    squares = (found - found.mean()) ** 2 / mean
    assert expected > 20.0  # far from Poisson
    assert_mean(squares, expected)


@pytest.mark.parametrize("first_phase", [0, 1])
def test_the_first_on_off_arrival_depends_on_the_first_phase(first_phase: int) -> None:
    """From on: `E = 1 / (L + a) + a / (L + a) (off_s + E)` with `a = 1 / on_s`; from off: +off_s.

    So `E = (1 + off_s / on_s) / L`.
    """
    on_s, off_s, rate_rps = 0.5, 2.0, 3.0
    workload = MarkovModulatedWorkload.on_off((rate_rps,), on_s, off_s, first_phase)
    streams = np.random.default_rng(9)
    first_s = np.array([workload.draw(60.0, streams).arrival_s[0] for _ in range(2500)])
    from_on_s = (1 + off_s / on_s) / rate_rps
    assert_mean(first_s, from_on_s if first_phase == 1 else off_s + from_on_s)


def test_a_long_chain_has_the_phase_lengths_and_the_jumps_that_were_asked_for() -> None:
    lengths_s, jumps = (
        np.array([2.0, 0.5, 1.0]),
        np.array([[0, 0.3, 0.7], [1, 0, 0], [0.5, 0.5, 0]]),
    )
    phase, edge_s = markov_phases(lengths_s, jumps, 0, 10_000.0, np.random.default_rng(17))
    found_s = np.diff(edge_s)[:-1]  # the horizon cuts the last one
    for number in range(3):
        left = phase[:-1] == number
        assert_mean(found_s[left], lengths_s[number])
        for other in np.flatnonzero((jumps[number] > 0) & (jumps[number] < 1)):
            assert_mean((phase[1:][left] == other).astype(float), jumps[number, other])


def test_modulated_rates_by_class_are_the_means_over_the_phases_from_the_start() -> None:
    jumps = ((0.0, 0.3, 0.7), (1.0, 0.0, 0.0), (0.5, 0.5, 0.0))
    rates = ((5.0, 40.0), (50.0, 0.0), (10.0, 90.0))
    workload = MarkovModulatedWorkload(rates, (2.0, 0.5, 1.0), jumps)
    # nu = nu J: nu_1 = nu_2 + nu_3 / 2, nu_3 = 0.7 nu_1, so nu ~ (1, 0.65, 0.7); times the
    # lengths: (2, 0.325, 0.7) / 3.025.
    streams = np.random.default_rng(10)
    classes = [workload.draw(0.5, streams).request_class for _ in range(3000)]
    for number, mean_rps in enumerate(np.array([2.0, 0.325, 0.7]) / 3.025 @ np.array(rates)):
        found = np.array([(request_class == number).sum() for request_class in classes])
        assert_mean(found / 0.5, mean_rps)


def test_diurnal_arrivals_follow_the_hours_of_each_class() -> None:
    period_s, days, bins = 24.0, 400, 24
    rates, amplitudes, rises = (40.0, 25.0), (0.8, 1.0), (6.0, 17.5)
    workload = DiurnalWorkload(rates, amplitudes, period_s, rises)
    arrivals = workload.draw(days * period_s, np.random.default_rng(11))
    edge_s = np.linspace(0.0, period_s, bins + 1)
    for number, (rate, amplitude, rise_s) in enumerate(zip(rates, amplitudes, rises, strict=True)):
        hour_s = arrivals.arrival_s[arrivals.request_class == number] % period_s
        found = np.histogram(hour_s, edge_s)[0]
        angle = 2 * math.pi / period_s
        area = edge_s - amplitude / angle * np.cos(angle * (edge_s - rise_s))
        expected = days * rate * np.diff(area)
        assert found.sum() == pytest.approx(
            days * period_s * rate, abs=ERRORS * math.sqrt(days * period_s * rate)
        )
        square = ((found - expected) ** 2 / expected).sum()
        assert stats.chi2.sf(square, bins) > 1e-3


def test_a_diurnal_episode_at_a_random_hour_expects_the_mean_rate() -> None:
    workload = DiurnalWorkload((20.0,), (1.0,), 24.0, (0.0,), random_phase=True)
    assert_mean(counts(workload, 1.0, 10_000, seed=12), 20.0)


@pytest.mark.parametrize(
    "amounts",
    [
        Lognormal(300.0, 1.2),
        Empirical((10.0, 100.0, 1000.0), (5, 4, 1)),
        Quantiles((0.0, 0.5, 0.9, 1.0), (1.0, 80.0, 400.0, 2000.0)),
    ],
)
def test_tokens_have_the_mean_of_their_distribution(amounts: Distribution) -> None:
    workload = PoissonWorkload((100.0,), (RequestSizes(Constant(1.0), amounts, amounts),))
    arrivals = workload.draw(2000.0, np.random.default_rng(13))
    assert_mean(arrivals.prompt_tokens, amounts.mean)
    assert_mean(arrivals.output_tokens, amounts.mean)


def test_lognormal_sizes_have_their_cv() -> None:
    assert_cv(Lognormal(5.0, 0.8).draw(200_000, np.random.default_rng(14)), 0.8)


def test_classes_of_one_stream_have_the_probabilities_of_the_mix() -> None:
    workload = RenewalWorkload(100.0, 2.0, mix=RequestMix((0.2, 0.5, 0.3)))
    request_class = workload.draw(1000.0, np.random.default_rng(15)).request_class
    for number, share in enumerate((0.2, 0.5, 0.3)):
        assert_mean((request_class == number).astype(float), share)


@pytest.mark.slow
def test_ten_million_arrivals_are_drawn_in_less_than_one_and_a_half_gigabytes() -> None:
    for workload in (
        PoissonWorkload((600.0, 400.0)),
        MarkovModulatedWorkload.on_off((2000.0,), 5.0, 5.0),
        RenewalWorkload(1000.0, 2.0),
        DiurnalWorkload((1000.0,), (0.8,), 3600.0, (0.0,)),
    ):
        tracemalloc.start()
        arrivals = workload.draw(10_000.0, np.random.default_rng(16))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(f"{type(workload).__name__}: {len(arrivals.arrival_s)} in {peak / 1e9:.2f} GB")
        assert len(arrivals.arrival_s) > 9_500_000
        assert peak < 1.5e9
