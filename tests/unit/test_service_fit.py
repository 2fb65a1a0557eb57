"""The fit of the service model: recovery of known values, its traps, and its intervals."""

import numpy as np
import pytest
from scipy.stats import t

from pipeline.calibration import service
from pipeline.calibration.bootstrap import (
    Blocks,
    Bounds,
    block_bootstrap,
    block_length,
    cut_into_blocks,
    log_bounds,
)
from pipeline.calibration.service import (
    fit_service,
    fit_service_with_intervals,
    held_out_error,
)


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


@pytest.mark.parametrize("last_s", [0.45, 0.488, 0.49])
def test_a_profile_whose_last_latency_collapses_is_fitted_all_the_same(last_s: float) -> None:
    # As splitwise's at a batch of 64. Reweighting alone is not done after 200 iterations.
    size = np.array([1.0, 4.0, 8.0, 16.0, 64.0])
    service_s = np.array([0.1, 0.4, 0.8, 1.6, last_s])
    fit = fit_service(size, service_s)
    # At the end the gradient of the weighted squares is 0: sum (L - f) / f^2 = 0, and times size.
    expected_s = fit.expected_s(size)
    miss = (service_s - expected_s) / expected_s**2
    assert miss.sum() == pytest.approx(0.0, abs=1e-6)
    assert miss @ size == pytest.approx(0.0, abs=1e-5)


def spelled(share: float, count: int = 4000, cv: float = 0.2) -> tuple[np.ndarray, ...]:
    """Batches at 50 a second whose noise is shared, to this share, by each second's 50."""
    generator = np.random.default_rng(5)
    size = generator.integers(1, 17, count).astype(float)
    spell = np.repeat(generator.standard_normal(count // 50), 50)
    luck = generator.standard_normal(count)
    sigma = np.sqrt(np.log1p(cv**2))
    z = np.sqrt(share) * spell + np.sqrt(1.0 - share) * luck
    return (
        size,
        (0.004 + 0.0015 * size) * np.exp(sigma * z - sigma**2 / 2),
        np.arange(count) * 0.02,
    )


def width(bounds: Bounds) -> float:
    return bounds.high - bounds.low


def test_intervals_under_independent_noise_are_those_of_weighted_least_squares() -> None:
    size, service_s, dispatch_s = spelled(share=0.0)
    found = fit_service_with_intervals(
        size, service_s, dispatch_s, np.random.default_rng(1), resamples=1000
    )
    # Covariance cv^2 (X'WX)^-1 with rows (1, size) / f; noise: Var(s^2) / s^4 = (kurtosis - 1) / n.
    rows = np.stack([np.ones_like(size), size], axis=1) / found.fit.expected_s(size)[:, None]
    covariance = found.fit.noise_cv**2 * np.linalg.inv(rows.T @ rows)
    deviation = service_s / found.fit.expected_s(size) - 1.0
    kurtosis = (deviation**4).mean() / (deviation**2).mean() ** 2
    noise_error = found.fit.noise_cv * np.sqrt((kurtosis - 1.0) / len(size)) / 2.0
    expected = (*np.sqrt(np.diag(covariance)), noise_error)
    assert found.fit == fit_service(size, service_s)
    for bounds, error in zip(found[1:4], expected, strict=True):
        assert width(bounds) == pytest.approx(2 * 1.96 * error, rel=0.2)


def test_shared_noise_widens_the_interval_of_a_mean_as_much_as_it_says_less() -> None:
    # n values in groups of 50 with correlation 0.5: 1 + 49 / 2 = 25.5 times the variance.
    found = []
    for share in (0.0, 0.5):
        size, service_s, dispatch_s = spelled(share, 20_000)
        z = np.log(service_s / (0.004 + 0.0015 * size))
        blocks = cut_into_blocks(dispatch_s, z[:, None])
        columns = np.stack([z, np.ones_like(z)], axis=1)
        generator = np.random.default_rng(1)
        found.append(
            block_bootstrap(blocks, columns, lambda sums: sums[:, 0] / sums[:, 1], generator)
        )
    assert width(found[1]) / width(found[0]) == pytest.approx(np.sqrt(25.5), rel=0.25)


def test_shared_noise_widens_the_intervals_of_the_fit() -> None:
    alone, shared = (
        fit_service_with_intervals(*spelled(share, 20_000), np.random.default_rng(1))
        for share in (0.0, 0.5)
    )
    assert alone.block_s < 1.0 < shared.block_s
    for bounds, wider in zip(alone[1:4], shared[1:4], strict=True):
        assert width(wider) > 1.3 * width(bounds)


@pytest.mark.parametrize("sizes", ["few", "continuous"])
def test_without_noise_the_intervals_are_points(sizes: str) -> None:
    generator = np.random.default_rng(2)
    size = generator.uniform(1.0, 900.0, 500) if sizes == "continuous" else np.tile([1.0, 7.0], 250)
    found = fit_service_with_intervals(
        size, 0.002 + 0.0003 * size, np.arange(500.0), np.random.default_rng(1)
    )
    assert found.alpha_s == pytest.approx((0.002, 0.002), rel=1e-6)
    assert found.beta_s == pytest.approx((0.0003, 0.0003), rel=1e-6)
    assert found.noise_cv == pytest.approx((0.0, 0.0), abs=1e-6)


def test_many_sizes_give_the_intervals_that_few_sizes_next_to_them_give() -> None:
    size, service_s, dispatch_s = spelled(share=0.0)
    moved = size + np.random.default_rng(8).uniform(-1e-4, 1e-4, len(size))
    few, many = (
        fit_service_with_intervals(values, service_s, dispatch_s, np.random.default_rng(1))
        for values in (size, moved)
    )
    assert len(np.unique(moved)) > 128
    for number in (1, 2, 3):
        assert many[number] == pytest.approx(few[number], rel=0.01)


@pytest.mark.parametrize("iterations", [100, 1])  # with one, brackets find what does not settle
def test_a_resample_is_fitted_as_its_batches_would_be(
    monkeypatch: pytest.MonkeyPatch, iterations: int
) -> None:
    size, service_s, dispatch_s = spelled(share=0.0, count=50)
    drawn = np.random.default_rng(9).integers(0, 4, 50).astype(float)

    def same(blocks: Blocks, resamples: int, _: np.random.Generator) -> np.ndarray:
        return np.tile(drawn[: blocks.cells], (resamples, 1))

    times = drawn[cut_into_blocks(dispatch_s, service_s[:, None]).cell].astype(int)
    fit = fit_service(size, service_s)
    expected = fit_service(np.repeat(size, times), np.repeat(service_s, times))
    monkeypatch.setattr(Blocks, "resample", same)
    monkeypatch.setattr(service, "_MAX_ITERATIONS", iterations)
    found = fit_service_with_intervals(size, service_s, dispatch_s, np.random.default_rng(1))
    assert found.fit == pytest.approx(fit)
    assert found.alpha_s == pytest.approx((expected.alpha_s,) * 2)
    assert found.beta_s == pytest.approx((expected.beta_s,) * 2)
    # The noise is moved by what the resamples lack: est - (resampled - est), of logs.
    assert found.noise_cv == pytest.approx((fit.noise_cv**2 / expected.noise_cv,) * 2)


def test_an_interval_of_a_spread_makes_up_for_resamples_that_are_too_narrow() -> None:
    # Replicates about 0.9 with log spread 0.1, where the estimate is 1: the truth is about 1 / 0.9.
    replicates = 0.9 * np.exp(0.1 * np.random.default_rng(1).standard_normal(20_000))
    reach = t.ppf(0.975, 9) * 0.1
    expected = np.exp(np.log(1.0 / 0.9) + np.array([-reach, reach]))
    assert log_bounds(replicates, 1.0, 0.95, 10) == pytest.approx(expected, rel=0.01)


def test_overhead_and_marginal_cost_have_no_interval_where_another_size_is_rare() -> None:
    # A third of the resamples lack the one batch of size 2.
    size = np.ones(200)
    size[77] = 2.0
    service_s = 0.01 * size * np.random.default_rng(4).uniform(0.9, 1.1, 200)
    found = fit_service_with_intervals(size, service_s, np.arange(200.0), np.random.default_rng(1))
    assert np.isnan([*found.alpha_s, *found.beta_s]).all()
    assert found.noise_cv.low > 0.0


def test_an_interval_needs_two_sizes_time_and_resamples() -> None:
    generator = np.random.default_rng(1)
    size, service_s, dispatch_s = spelled(share=0.0, count=100)
    with pytest.raises(ValueError, match=r"total_size = 3\.0: needs at least two sizes"):
        fit_service_with_intervals(np.full(100, 3.0), service_s, dispatch_s, generator)
    with pytest.raises(ValueError, match=r"instant_s = 0\.0: must differ"):
        fit_service_with_intervals(size, service_s, np.zeros(100), generator)
    with pytest.raises(ValueError, match="rows = 19: needs at least 20"):
        fit_service_with_intervals(size[:19], service_s[:19], dispatch_s[:19], generator)
    with pytest.raises(ValueError, match="resamples = 39: must be at least 40"):
        fit_service_with_intervals(size, service_s, dispatch_s, generator, resamples=39)


def test_a_resample_draws_runs_of_cells_in_a_circle() -> None:
    blocks = Blocks(cell=np.arange(10), cells=10, block_cells=4, cell_s=1.0)
    times = blocks.resample(5000, np.random.default_rng(1))
    assert (times.sum(1) == 12).all()  # three blocks of four
    np.testing.assert_allclose(times.mean(0), 1.2, atol=0.05)  # no cell is drawn less at an end
    one = Blocks(cell=np.arange(10), cells=10, block_cells=10, cell_s=1.0)
    assert (one.resample(50, np.random.default_rng(1)) == 1).all()  # all, wherever it starts


def test_block_length_is_that_of_theory_for_an_autoregression() -> None:
    # R(k) = rho^k: G = sum |k| R = 2 rho / (1 - rho)^2, S = sum R = (1 + rho) / (1 - rho), and
    # b = (2 G^2 / (4/3 S^2))^(1/3) N^(1/3).
    rho, count = 0.8, 20_000
    shocks = np.random.default_rng(3).standard_normal(count)
    series = np.zeros(count)
    for step in range(1, count):
        series[step] = rho * series[step - 1] + shocks[step]
    ratio = 2.0 * rho / (1.0 - rho) ** 2 / ((1.0 + rho) / (1.0 - rho))
    expected = (1.5 * ratio**2) ** (1 / 3) * count ** (1 / 3)
    assert block_length(series) == pytest.approx(expected, rel=0.3)
    assert block_length(shocks) < 0.2 * expected
    assert block_length(np.ones(100)) == 1


def test_the_interval_of_a_mean_of_independent_rows_is_student_s() -> None:
    generator = np.random.default_rng(6)
    values = generator.normal(3.0, 1.0, 1000)
    blocks = cut_into_blocks(np.sort(generator.uniform(0.0, 60.0, 1000)), values[:, None])
    columns = np.stack([values, np.ones(1000)], axis=1)
    found = block_bootstrap(
        blocks, columns, lambda sums: sums[:, 0] / sums[:, 1], generator, resamples=2000
    )
    reach = t.ppf(0.975, 999) * values.std(ddof=1) / np.sqrt(1000)
    assert width(found) == pytest.approx(2 * reach, rel=0.15)
    assert found.low < values.mean() < found.high


def test_a_long_pause_does_not_fill_the_cells() -> None:
    burst_s = np.arange(400) * 0.01
    instant_s = np.concatenate([burst_s, 86_400.0 + burst_s, 172_800.0 + burst_s])
    blocks = cut_into_blocks(instant_s, np.random.default_rng(1).standard_normal((1200, 1)))
    # A pause counts as 100 gaps of 10 ms: 2 s of 14, where two days would leave 3 cells of 300.
    assert len(np.unique(blocks.cell)) > 0.8 * blocks.cells
