"""The fit of the service model: recovery of known values, and its traps."""

import numpy as np
import pytest

from pipeline.calibration.service import fit_service, held_out_error


def batches(alpha_s: float, beta_s: float, cv: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(3)
    size = generator.integers(1, 17, count).astype(float)
    sigma = np.sqrt(np.log1p(cv**2))
    noise = np.exp(sigma * generator.standard_normal(count) - sigma**2 / 2)
    return size, (alpha_s + beta_s * size) * noise


@pytest.mark.parametrize("cv", [0.05, 0.3])
def test_fit_recovers_alpha_beta_and_noise_within_two_percent(cv: float) -> None:
    fit = fit_service(*batches(0.004, 0.0015, cv, 40_000))
    assert fit.alpha_s == pytest.approx(0.004, rel=0.02)
    assert fit.beta_s == pytest.approx(0.0015, rel=0.02)
    assert fit.noise_cv == pytest.approx(cv, rel=0.02)


def test_fit_without_noise_is_exact() -> None:
    fit = fit_service(*batches(0.002, 0.005, 0.0, 50))
    assert fit.alpha_s == pytest.approx(0.002, rel=1e-9)
    assert fit.beta_s == pytest.approx(0.005, rel=1e-9)
    assert fit.noise_cv == pytest.approx(0.0, abs=1e-9)


def test_alpha_is_not_negative_where_latency_bends_upward() -> None:
    # Least squares gives -2.3 ms here, as on the real profiles of reference/traces.md.
    size = np.arange(1.0, 17.0)
    service_s = 0.0001 * size**2
    assert np.polyfit(size, service_s, 1)[1] < 0
    fit = fit_service(size, service_s)
    assert fit.alpha_s >= 0
    assert fit.beta_s > 0


def test_expected_latency_is_unbiased_under_strong_noise() -> None:
    # Weights 1 / measured^2 would pull it down by about the squared CV, here 9 %.
    size, service_s = batches(0.004, 0.0015, 0.3, 40_000)
    fit = fit_service(size, service_s)
    assert (service_s / fit.expected_s(size)).mean() == pytest.approx(1.0, abs=0.005)


def test_held_out_error_is_the_mean_relative_miss() -> None:
    fit = fit_service(*batches(0.002, 0.001, 0.0, 50))
    size = np.array([2.0, 2.0])
    error, bias = held_out_error(fit, size, np.array([0.005, 0.0025]))  # fitted: 0.004
    assert error == pytest.approx((0.25 + 0.375) / 2)
    assert bias == pytest.approx((-0.25 + 0.375) / 2)


def test_noise_alone_gives_no_held_out_bias() -> None:
    # Relative to the measured latency it would be E[1 / noise] - 1 = cv^2 = 9 %.
    fit = fit_service(*batches(0.004, 0.0015, 0.0, 50))
    _, bias = held_out_error(fit, *batches(0.004, 0.0015, 0.3, 40_000))
    assert abs(bias) < 4 * 0.3 / np.sqrt(40_000)


def test_held_out_error_of_no_batches_is_unknown() -> None:
    fit = fit_service(*batches(0.002, 0.001, 0.0, 50))
    assert np.isnan(held_out_error(fit, np.zeros(0), np.zeros(0))).all()


@pytest.mark.parametrize("bad", [np.nan, 0.0, -0.001])
def test_a_batch_that_took_no_time_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="service_s: must be finite and above 0"):
        fit_service(np.ones(2), np.array([0.01, bad]))


def test_no_batches_are_refused() -> None:
    with pytest.raises(ValueError, match="no batch to fit"):
        fit_service(np.zeros(0), np.zeros(0))
