"""Fits the whole-batch service model of one replica and request class."""

from typing import NamedTuple, Protocol

import numpy as np
from scipy.optimize import brentq, nnls

from pipeline.calibration.bootstrap import (
    Blocks,
    Bounds,
    check_bootstrap,
    cut_into_blocks,
    log_bounds,
    percentile_bounds,
)
from simulator.checks import check

_MAX_ITERATIONS = 100
_HALVINGS = 50
_MOST_BINS = 128  # of sizes, each with a weight of its own in a resample
_SINGULAR = 1e-12  # a determinant below this share of its first term: one size alone
_MOST_SINGULAR = 0.02  # share of such resamples up to which there is an interval


class LatencyModel(Protocol):
    """What expects a batch latency: a line or a measured table."""

    def expected_s(self, total_size: np.ndarray) -> np.ndarray:
        """Expected batch latency in seconds, same shape as `total_size`."""


class ServiceFit(NamedTuple):
    """`L = (alpha_s + beta_s * total size) * noise`, fitted to measured batches."""

    alpha_s: float
    beta_s: float
    noise_cv: float  # of the lognormal noise with mean 1
    batches: int  # that the fit rests on

    def expected_s(self, total_size: np.ndarray) -> np.ndarray:
        """Expected batch latency in seconds, same shape as `total_size`."""
        return self.alpha_s + self.beta_s * total_size


class ServiceIntervals(NamedTuple):
    """A fit with the confidence intervals of its figures."""

    fit: ServiceFit
    alpha_s: Bounds
    beta_s: Bounds
    noise_cv: Bounds
    confidence: float
    block_s: float  # length of the blocks of time that were resampled
    blocks: int  # that the log is long


def check_batches(total_size: np.ndarray, service_s: np.ndarray) -> None:
    """Raises ValueError where there is no batch, or a value is not finite and positive."""
    if len(service_s) == 0:
        raise ValueError("service_s: no batch to fit")
    for field, values in (("total_size", total_size), ("service_s", service_s)):
        if not (np.isfinite(values).all() and (values > 0).all()):
            raise ValueError(f"{field}: must be finite and above 0 in every batch")


def fit_service(total_size: np.ndarray, service_s: np.ndarray) -> ServiceFit:
    """Least squares of the relative error, with alpha >= 0 and beta >= 0.

    Minimizes `sum ((L_i - f_i) / f_i)^2` with `f_i = alpha + beta * size_i` by reweighting until
    f stands still. The weights are those of the fit, not of the measurement: 1 / L_i^2 would count
    fast batches more than slow ones of the same size and pull f below the mean. Where f never
    stands still, as on a curve that is no line, the weights that agree with their own f are found
    by bracketing: they hang on the share of alpha in f alone, and every share leads to one.

    Arguments: `total_size [n]`, the sum of the sizes of a batch; `service_s [n]` s. Raises
    ValueError where there is nothing to fit or a value is not finite and positive. With one size
    alone, alpha and beta cannot be told apart: only their sum at that size is right.
    """
    check_batches(total_size, service_s)
    expected_s = np.full(len(service_s), service_s.mean())
    for _ in range(_MAX_ITERATIONS):
        alpha_s, beta_s = _weighted_line(total_size, service_s, expected_s)
        before_s, expected_s = expected_s, alpha_s + beta_s * total_size
        if np.allclose(before_s, expected_s, rtol=1e-10, atol=0.0):
            break
    else:
        alpha_s, beta_s = _bracketed_line(total_size, service_s)
        expected_s = alpha_s + beta_s * total_size
    ratio = service_s / expected_s
    noise_cv = float(ratio.std(ddof=min(2, len(ratio) - 1)) / ratio.mean())
    return ServiceFit(alpha_s, beta_s, noise_cv, len(service_s))


def _weighted_line(
    total_size: np.ndarray, service_s: np.ndarray, weigh_s: np.ndarray
) -> tuple[float, float]:
    """alpha and beta of least squares of the error relative to `weigh_s`, neither below 0."""
    design = np.stack([np.ones_like(service_s), total_size], axis=1)
    coefficients, _ = nnls(design / weigh_s[:, None], service_s / weigh_s)
    return float(coefficients[0]), float(coefficients[1])


def _bracketed_line(total_size: np.ndarray, service_s: np.ndarray) -> tuple[float, float]:
    """The line whose own share of alpha in it, at the mean size, is that of its weights."""
    relative = total_size / total_size.mean()

    def line(share: float) -> tuple[float, float]:
        return _weighted_line(relative, service_s, share + (1.0 - share) * relative)

    def excess(share: float) -> float:
        alpha_s, beta_s = line(share)
        return alpha_s / (alpha_s + beta_s) - share

    alpha_s, beta_s = line(brentq(excess, 0.0, 1.0, xtol=1e-13))
    return alpha_s, beta_s / float(total_size.mean())


def held_out_error(
    fit: LatencyModel, total_size: np.ndarray, service_s: np.ndarray
) -> tuple[float, float]:
    """Mean absolute and mean signed error of `f` on batches that the fit has not seen.

    Relative to f, as in the fit: `(f_i - L_i) / f_i`, positive where f is too slow. Relative to
    the measured L it would be biased: noise of mean 1 alone gives `E[f / L] - 1 = cv^2`.
    """
    if len(service_s) == 0:
        return float("nan"), float("nan")
    error = 1.0 - service_s / fit.expected_s(total_size)
    return float(np.abs(error).mean()), float(error.mean())


def fit_service_with_intervals(
    total_size: np.ndarray,
    service_s: np.ndarray,
    dispatch_s: np.ndarray,
    generator: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = 300,
) -> ServiceIntervals:
    """The fit of `fit_service`, with intervals of alpha, beta and the noise by block bootstrap.

    Blocks of time are resampled (`cut_into_blocks`) and each resample is fitted again from sums
    over sizes; the interval is that of percentiles, for the noise `log_bounds`. Where there are
    more than 128 sizes, those within a step of 1/128 of their logarithmic range share the weight
    of their mean in a resample.

    Arguments: `total_size`, `service_s`, `dispatch_s`, each `[n]`, times in s. Raises ValueError as
    `fit_service` does, and below 20 batches or with one size alone. Where a size is so rare that
    more than 2 % of the resamples lack all others, alpha and beta have no interval (NaN). An
    interval tells what chance does to the fit, not what a curve that is no line does to it; it is
    too narrow for a log that is short of spells (of 50 spells, nominal 95 % cover some 87 %).
    """
    check_bootstrap(confidence, resamples)
    fit = fit_service(total_size, service_s)
    sizes = len(np.unique(total_size))
    check(sizes >= 2, "total_size", float(total_size[0]), "needs at least two sizes")
    expected_s = fit.expected_s(total_size)
    error, slope = service_s / expected_s - 1.0, total_size / expected_s
    influence = np.stack([error, error * (slope - slope.mean()), error**2], axis=1)
    blocks = cut_into_blocks(dispatch_s, influence)
    bins, size = _size_bins(total_size)
    sums = _resampled_sums(blocks, bins, total_size, service_s - expected_s, resamples, generator)
    alpha_s, beta_s, noise_cv = _refit(sums, size, fit)
    told = np.isfinite(alpha_s)
    overhead, marginal = Bounds.unknown(), Bounds.unknown()
    if (~told).mean() <= _MOST_SINGULAR:
        overhead = percentile_bounds(alpha_s[told], confidence, blocks.number)
        marginal = percentile_bounds(beta_s[told], confidence, blocks.number)
    noise = log_bounds(noise_cv, fit.noise_cv, confidence, blocks.number)
    return ServiceIntervals(
        fit, overhead, marginal, noise, confidence, blocks.block_s, blocks.number
    )


def _size_bins(total_size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bin of each batch `[n]`, and the mean size of each bin `[D]`."""
    size, bins = np.unique(total_size, return_inverse=True)
    if len(size) > _MOST_BINS:
        edges = np.geomspace(size[0], size[-1], _MOST_BINS + 1)[1:-1]
        bins = np.unique(np.searchsorted(edges, total_size), return_inverse=True)[1]
        size = np.bincount(bins, total_size) / np.bincount(bins)
    return bins, size


class _Sums(NamedTuple):
    """Sums over the batches of a resample in each bin of sizes, each `[R, D]`.

    `missed` is what a batch took beyond the fit to all batches: sums of squares of times proper
    would lose the digits that a small noise is made of.
    """

    batches: np.ndarray
    size: np.ndarray
    size_squared: np.ndarray
    missed_s: np.ndarray
    size_missed_s: np.ndarray
    missed_squared: np.ndarray


def _resampled_sums(
    blocks: Blocks,
    bins: np.ndarray,
    total_size: np.ndarray,
    missed_s: np.ndarray,
    resamples: int,
    generator: np.random.Generator,
) -> _Sums:
    times = blocks.resample(resamples, generator)
    columns = (
        np.ones_like(total_size),
        total_size,
        total_size**2,
        missed_s,
        total_size * missed_s,
        missed_s**2,
    )
    found = int(bins.max()) + 1
    return _Sums(*(times @ blocks.grouped_sums(bins, found, column) for column in columns))


def _refit(
    sums: _Sums, size: np.ndarray, fit: ServiceFit
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """alpha, beta and the noise's CV of each resample, each `[R]`; NaN where it has one size."""
    alpha_s, beta_s, singular = _settled(sums, size, fit)
    expected_s = alpha_s[:, None] + beta_s[:, None] * size
    more_s, steeper_s = (alpha_s - fit.alpha_s)[:, None], (beta_s - fit.beta_s)[:, None]
    batches = sums.batches.sum(1)
    missed = (sums.missed_s - more_s * sums.batches - steeper_s * sums.size) / expected_s
    squared = (
        sums.missed_squared
        - 2.0 * (more_s * sums.missed_s + steeper_s * sums.size_missed_s)
        + more_s**2 * sums.batches
        + 2.0 * more_s * steeper_s * sums.size
        + steeper_s**2 * sums.size_squared
    ) / expected_s**2
    mean = missed.sum(1) / batches
    variance = np.maximum(squared.sum(1) / batches - mean**2, 0.0) * batches / (batches - 2)
    noise_cv = np.sqrt(variance) / (1.0 + mean)
    return np.where(singular, np.nan, alpha_s), np.where(singular, np.nan, beta_s), noise_cv


def _settled(
    sums: _Sums, size: np.ndarray, fit: ServiceFit
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The reweighted fit of each resample, as `fit_service` finds it."""
    before_s = np.tile(fit.expected_s(size), (len(sums.batches), 1))
    for _ in range(_MAX_ITERATIONS):
        alpha_s, beta_s, singular = _weighted_fit(sums, before_s**-2, fit)
        expected_s = alpha_s[:, None] + beta_s[:, None] * size
        if np.allclose(before_s, expected_s, rtol=1e-8, atol=0.0):
            return alpha_s, beta_s, singular
        before_s = expected_s
    low, high = np.zeros(len(before_s)), np.ones(len(before_s))
    for _ in range(_HALVINGS):  # of the share of alpha at size 1
        share = 0.5 * (low + high)
        weigh = share[:, None] + (1.0 - share)[:, None] * size
        alpha_s, beta_s, singular = _weighted_fit(sums, weigh**-2, fit)
        more = alpha_s > share * (alpha_s + beta_s)
        low, high = np.where(more, share, low), np.where(more, high, share)
    return alpha_s, beta_s, singular


def _weighted_fit(
    sums: _Sums, weight: np.ndarray, fit: ServiceFit
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weighted least squares with alpha, beta >= 0, and where it is singular, each `[R]`.

    In two unknowns the constrained optimum is the free one or lies on one axis: that of the
    unknown which came out negative, as both cannot.
    """
    ones, line, square, missed, size_missed = ((weight * s).sum(1) for s in sums[:5])
    determinant = ones * square - line**2
    singular = determinant <= _SINGULAR * ones * square
    safe = np.where(singular, 1.0, determinant)
    alpha_s = fit.alpha_s + np.where(singular, 0.0, square * missed - line * size_missed) / safe
    beta_s = fit.beta_s + np.where(singular, 0.0, ones * size_missed - line * missed) / safe
    flat_s = (ones * fit.alpha_s + line * fit.beta_s + missed) / ones
    through_zero_s = (line * fit.alpha_s + square * fit.beta_s + size_missed) / square
    return (
        np.where(beta_s < 0.0, flat_s, np.maximum(alpha_s, 0.0)),
        np.where(alpha_s < 0.0, through_zero_s, np.maximum(beta_s, 0.0)),
        singular,
    )
