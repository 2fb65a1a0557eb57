"""Fits the whole-batch service model of one replica and request class."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

_MAX_ITERATIONS = 100


class ServiceFit(NamedTuple):
    """`L = (alpha_s + beta_s * total size) * noise`, fitted to measured batches."""

    alpha_s: float
    beta_s: float
    noise_cv: float  # of the lognormal noise with mean 1
    batches: int  # that the fit rests on

    def expected_s(self, total_size: np.ndarray) -> np.ndarray:
        """Expected batch latency in seconds, same shape as `total_size`."""
        return self.alpha_s + self.beta_s * total_size


def fit_service(total_size: np.ndarray, service_s: np.ndarray) -> ServiceFit:
    """Least squares of the relative error, with alpha >= 0 and beta >= 0.

    Minimizes `sum ((L_i - f_i) / f_i)^2` with `f_i = alpha + beta * size_i` by reweighting until
    f stands still. The weights are those of the fit, not of the measurement: 1 / L_i^2 would count
    fast batches more than slow ones of the same size and pull f below the mean.

    Arguments: `total_size [n]`, the sum of the sizes of a batch; `service_s [n]` s. Raises
    ValueError where there is nothing to fit or a value is not finite and positive. With one size
    alone, alpha and beta cannot be told apart: only their sum at that size is right.
    """
    if len(service_s) == 0:
        raise ValueError("service_s: no batch to fit")
    for field, values in (("total_size", total_size), ("service_s", service_s)):
        if not (np.isfinite(values).all() and (values > 0).all()):
            raise ValueError(f"{field}: must be finite and above 0 in every batch")
    design = np.stack([np.ones_like(service_s), total_size], axis=1)
    expected_s = np.full(len(service_s), service_s.mean())
    for _ in range(_MAX_ITERATIONS):
        coefficients, _ = nnls(design / expected_s[:, None], service_s / expected_s)
        before_s, expected_s = expected_s, design @ coefficients
        if np.allclose(before_s, expected_s, rtol=1e-10, atol=0.0):
            break
    else:
        raise RuntimeError(f"the fit still moves after {_MAX_ITERATIONS} iterations")
    alpha_s, beta_s = (float(value) for value in coefficients)
    ratio = service_s / expected_s
    noise_cv = float(ratio.std(ddof=min(2, len(ratio) - 1)) / ratio.mean())
    return ServiceFit(alpha_s, beta_s, noise_cv, len(service_s))


def held_out_error(
    fit: ServiceFit, total_size: np.ndarray, service_s: np.ndarray
) -> tuple[float, float]:
    """Mean absolute and mean signed error of `f` on batches that the fit has not seen.

    Relative to f, as in the fit: `(f_i - L_i) / f_i`, positive where f is too slow. Relative to
    the measured L it would be biased: noise of mean 1 alone gives `E[f / L] - 1 = cv^2`.
    """
    if len(service_s) == 0:
        return float("nan"), float("nan")
    error = 1.0 - service_s / fit.expected_s(total_size)
    return float(np.abs(error).mean()), float(error.mean())
