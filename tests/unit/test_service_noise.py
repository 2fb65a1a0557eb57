"""The noise of service times: measured factors, and when they are chosen over the lognormal."""

import json

import numpy as np
import pytest

from pipeline.calibration.service_noise import (
    NoiseFit,
    fit_noise,
    lognormal_quantiles,
    residual_factors,
)
from pipeline.files import plain
from simulator.replica import Replica


def lognormal(cv: float, count: int, seed: int) -> np.ndarray:
    sigma = np.sqrt(np.log1p(cv**2))
    z = np.random.default_rng(seed).standard_normal(count)
    return np.asarray(np.exp(sigma * z - sigma**2 / 2))


def stalled(count: int, seed: int) -> np.ndarray:
    """A narrow noise, but one batch in fifty takes three times as long."""
    slow = np.random.default_rng(seed + 1000).random(count) < 0.02
    return lognormal(0.1, count, seed) * np.where(slow, 3.0, 1.0)


def fitted(ratio: np.ndarray, held_out: np.ndarray) -> NoiseFit:
    return fit_noise(ratio, held_out, 0.01 * np.arange(len(held_out)), np.random.default_rng(1))


def test_a_factor_is_the_mean_of_its_share_of_the_ratios() -> None:
    # Mean 2; halves (1, 1) and (2, 4): means 1 and 3, over 2.
    assert residual_factors(np.array([4.0, 1.0, 2.0, 1.0]), most=2) == pytest.approx((0.5, 1.5))
    # Three ratios in two factors: 1 and half of 2; half of 2 and 3; over the mean 2.
    assert residual_factors(np.array([1.0, 2.0, 3.0]), most=2) == pytest.approx(
        ((1.0 + 1.0) / 1.5 / 2.0, (1.0 + 3.0) / 1.5 / 2.0)
    )


def test_factors_have_mean_one_ascend_and_end_in_the_mean_beyond_p999() -> None:
    ratio = np.random.default_rng(2).pareto(3.0, 5000) + 1.0
    factors = residual_factors(ratio)
    assert len(factors) == 1000
    assert np.mean(factors) == pytest.approx(1.0, rel=1e-12)
    assert (np.diff(factors) >= 0).all()
    assert factors[-1] == pytest.approx(np.sort(ratio)[-5:].mean() / ratio.mean())
    Replica((0.01,), (0.01,), (0.0,), 8, residuals=(factors,))  # is taken as it is


def test_factors_of_few_ratios_are_the_ratios() -> None:
    assert residual_factors(np.array([3.0, 1.0, 2.0])) == pytest.approx((0.5, 1.0, 1.5))


def test_lognormal_noise_is_recognized_with_its_cv() -> None:
    fit = fitted(lognormal(0.3, 5000, 1), lognormal(0.3, 5000, 2))
    assert fit.kind == "lognormal"
    assert fit.noise_cv == pytest.approx(0.3, rel=0.05)
    # 1.36 / sqrt n is the 95 % point of Kolmogorov's statistic.
    assert fit.distance_lognormal < 1.36 / np.sqrt(5000)


@pytest.mark.parametrize("count", [1000, 5000])
def test_batches_that_stall_now_and_then_are_told_by_residuals(count: int) -> None:
    fit = fitted(stalled(count, 1), stalled(count, 2))
    assert fit.kind == "residuals"
    assert max(fit.body_gain.low, fit.tail_gain.low) > 0.0
    assert "another" in fit.reason
    # A stalled batch takes three times the median: 1 % lies above it, and above the model's P99.
    assert fit.tail.p99_to_p50.logged == pytest.approx(3.0, rel=0.05)
    assert fit.tail.p99_to_p50.residuals == pytest.approx(3.0, rel=0.1)
    assert fit.tail.p99_to_p50.lognormal < 2.4


def test_the_tail_alone_can_choose_the_residuals() -> None:
    # 1.5 % of the batches take 1.8 times as long: the body hardly shows it.
    ratios = []
    for seed in (1, 2):
        slow = np.random.default_rng(seed + 50).random(20_000) < 0.015
        ratios.append(lognormal(0.2, 20_000, seed) * np.where(slow, 1.8, 1.0))
    fit = fitted(*ratios)
    assert fit.distance_lognormal < 0.03
    assert (fit.kind, fit.tail_gain.low > 0.0) == ("residuals", True)
    assert fit.reason.endswith("another tail")


def test_the_body_alone_can_choose_the_residuals() -> None:
    # Nothing between the quartiles: of the P99 the lognormal misses little, for its shape a lot.
    ratios = []
    for seed in (1, 2):
        z = np.random.default_rng(seed).standard_normal(5000)
        ratios.append(np.exp(0.2 * np.where(np.abs(z) < 0.67, 0.67 * np.sign(z), z)))
    fit = fitted(*ratios)
    assert (fit.kind, fit.body_gain.low > 0.0) == ("residuals", True)
    assert fit.reason.endswith("another shape")


def test_a_shift_of_all_latencies_is_no_noise() -> None:
    before, after = lognormal(0.2, 3000, 1), lognormal(0.2, 3000, 2)
    same, shifted = fitted(before, after), fitted(1.2 * before, 1.5 * after)
    assert shifted.kind == same.kind == "lognormal"
    assert shifted.noise_cv == pytest.approx(same.noise_cv)
    assert shifted.distance_lognormal == pytest.approx(same.distance_lognormal)
    assert shifted.tail_gain == pytest.approx(same.tail_gain)


def test_exceedance_is_one_percent_for_the_model_that_is_right() -> None:
    fit = fitted(lognormal(0.3, 20_000, 1), lognormal(0.3, 20_000, 2))
    error = np.sqrt(0.01 * 0.99 / 20_000)
    assert fit.tail.exceedance_lognormal == pytest.approx(0.01, abs=4 * error)
    # The residuals' P99 is itself measured on as many.
    assert fit.tail.exceedance_residuals == pytest.approx(0.01, abs=4 * np.sqrt(2) * error)


def test_hill_estimate_is_the_reciprocal_exponent_of_a_pareto_tail() -> None:
    ratio = np.random.default_rng(3).pareto(4.0, 40_000) + 1.0
    fit = fitted(ratio[:20_000], ratio[20_000:])
    assert fit.tail.hill == pytest.approx(0.25, abs=4 * 0.25 / np.sqrt(2000))


def test_hill_estimate_of_the_lognormal_is_its_mean_excess() -> None:
    fit = fitted(lognormal(0.3, 2000, 1), lognormal(0.3, 2000, 2))
    factors = lognormal_quantiles(fit.noise_cv, 1_000_000)
    beyond = factors[950_000:]
    assert fit.tail.hill_lognormal == pytest.approx(np.log(beyond / beyond[0]).mean(), rel=1e-3)
    assert fit.tail.hill == pytest.approx(fit.tail.hill_lognormal, rel=0.3)


@pytest.mark.parametrize(("fitted_to", "held_out"), [(199, 5000), (5000, 199), (300, 0)])
def test_too_few_ratios_keep_the_lognormal_and_say_so(fitted_to: int, held_out: int) -> None:
    fit = fitted(stalled(fitted_to, 1), stalled(held_out, 2))
    assert fit.kind == "lognormal"
    assert fit.reason.startswith("fewer than 200 ratios")


def test_the_fit_goes_into_json() -> None:
    fit = fitted(stalled(300, 1), stalled(50, 2))
    told = json.loads(json.dumps(plain(fit), allow_nan=False))
    assert told["tail_gain"] == {"low": None, "high": None}
    assert len(told["residuals"]) == 300


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_a_ratio_that_is_not_positive_and_finite_is_refused(bad: float) -> None:
    good = lognormal(0.1, 300, 1)
    with pytest.raises(ValueError, match=r"ratio = .*: must be finite and above 0"):
        fitted(np.append(good, bad), good)
    with pytest.raises(ValueError, match=r"held_out = .*: must be finite and above 0"):
        fitted(good, np.append(good, bad))
    with pytest.raises(ValueError, match="ratio = 1: needs at least two batches"):
        fitted(good[:1], good)
