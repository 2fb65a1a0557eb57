"""Likelihood of a Markov-modulated Poisson process under gaps or counts."""

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import expm
from scipy.special import gammaln

from pipeline.calibration.arrival_models.observed import COUNTS, Observed
from simulator.arrivals import stationary_shares

_LEAST = 1e-300  # a probability that underflows


class MarkovModulated(NamedTuple):
    """Poisson arrivals whose rate follows a Markov chain of P phases, slowest phase first."""

    rate_rps: tuple[float, ...]  # [P]
    mean_phase_s: tuple[float, ...]  # [P]
    jump_probability: tuple[tuple[float, ...], ...]  # [P, P] rows sum to 1, 0 on the diagonal

    @property
    def jumps_per_s(self) -> np.ndarray:
        """The generator matrix Q `[P, P]`; its rows sum to 0."""
        leaving = 1.0 / np.array(self.mean_phase_s)
        return np.asarray(leaving[:, None] * np.array(self.jump_probability) - np.diag(leaving))

    @property
    def phase_shares(self) -> np.ndarray:
        """Long-run share of time `[P]` in each phase."""
        return stationary_shares(np.array(self.mean_phase_s), np.array(self.jump_probability))

    @property
    def mean_rate_rps(self) -> float:
        """Long-run arrival rate."""
        return float(self.phase_shares @ np.array(self.rate_rps))

    @property
    def dispersion(self) -> float:
        """Variance over mean of the number of arrivals in a long time; 1 for Poisson.

        `1 + 2 (s L D L 1) / rate`, with the shares s, `L = diag(rates)` and the deviation matrix
        `D = (1 s - Q)^-1 - 1 s` (Fischer and Meier-Hellstern 1993, equation 16, our notation).
        """
        shares, rates = self.phase_shares, np.array(self.rate_rps)
        stationary = np.tile(shares, (len(shares), 1))
        deviation = np.linalg.inv(stationary - self.jumps_per_s) - stationary
        return float(1.0 + 2.0 * (shares * rates) @ deviation @ rates / (shares @ rates))


class _Filter(NamedTuple):
    """One observation moves the phase probabilities v `[P]` to `((v into) * weight) back`."""

    into: np.ndarray  # [P, P]
    back: np.ndarray  # [P, P]
    weight: np.ndarray  # [N, P]
    log_scale: np.ndarray  # [N] what was taken out of the weights so that they do not underflow


def phase_log_likelihood(observed: Observed, model: MarkovModulated) -> np.ndarray:
    """Log likelihood `[N]` of each observation given all before it.

    Gaps: `v -> v exp((Q - L) g) L`, exact (Rydén 1996, equation 2); between rounded instants
    the average over where they lie within their ticks. Counts: the phase counts as constant within
    a bin. Starts in the long-run shares of time. The filter runs in some sqrt(N) vectorized steps:
    first the product of the matrices of each run of observations, then all runs side by side.
    """
    step = _filter(observed, model)
    weight = _in_runs(step.weight)
    start, _ = _run_starts(model.phase_shares, step, weight)
    likelihood = np.empty(weight.shape[:2])  # [length, runs]
    for place, now in enumerate(weight):
        start = np.maximum((((start @ step.into) * now) @ step.back).real, 0.0)
        total = np.maximum(start.sum(1), _LEAST)
        likelihood[place] = total
        start = start / total[:, None]
    count = len(step.weight)
    return np.asarray(np.log(likelihood.T.ravel()[:count]) + step.log_scale)


def total_log_likelihood(observed: Observed, model: MarkovModulated) -> float:
    """The sum of `phase_log_likelihood`, in half the time; for N a multiple of isqrt(N) exact.

    Up to sqrt(N) observations at the end are left out, so that no run is padded.
    """
    step = _filter(observed, model)
    length = math.isqrt(len(step.weight))
    count = len(step.weight) // length * length
    weight = _in_runs(step.weight[:count], length)
    return _run_starts(model.phase_shares, step, weight)[1] + float(step.log_scale[:count].sum())


def _filter(observed: Observed, model: MarkovModulated) -> _Filter:
    if observed.kind == COUNTS:
        return _count_filter(observed, model)
    return _gap_filter(observed, model)


def _in_runs(weight: np.ndarray, length: int | None = None) -> np.ndarray:
    """The weights `[N, P]` as runs side by side, `[length, runs, P]`; the last is padded with 1."""
    count, phases = weight.shape
    length = length or max(math.isqrt(count), 1)
    runs = -(-count // length)
    padded = np.ones((runs * length, phases), weight.dtype)
    padded[:count] = weight
    return np.ascontiguousarray(padded.reshape(runs, length, phases).swapaxes(0, 1))


def _run_starts(first: np.ndarray, step: _Filter, weight: np.ndarray) -> tuple[np.ndarray, float]:
    """Phase probabilities `[runs, P]` at the start of each run, and the total log likelihood.

    `weight [length, runs, P]`. The product of a run is scaled every eight steps: it cannot leave
    the range of a float in so few, and scaling costs as much as a step.
    """
    length, runs, phases = weight.shape
    product = np.tile(np.eye(phases), (runs, 1, 1))
    log_total = 0.0
    for place, now in enumerate(weight):
        # One product of tall matrices: NumPy calls BLAS once, not once for each run.
        entered = (product.reshape(-1, phases) @ step.into).reshape(runs, phases, phases)
        entered *= now[:, None, :]
        product = (entered.reshape(-1, phases) @ step.back).real.reshape(runs, phases, phases)
        if place % 8 == 7 or place == length - 1:
            largest = np.maximum(product.max((1, 2), keepdims=True), _LEAST)
            product /= largest
            log_total += float(np.log(largest).sum())
    starts = np.empty((runs, phases))
    totals = np.empty(runs)
    probability = first
    for run in range(runs):
        starts[run] = probability
        probability = np.maximum(probability @ product[run], 0.0)
        totals[run] = total = probability.sum()
        probability = probability / total if total > 0.0 else first
    return starts, log_total + float(np.log(np.maximum(totals, _LEAST)).sum())


def _gap_filter(observed: Observed, model: MarkovModulated) -> _Filter:
    rates = np.diag(np.array(model.rate_rps))
    root, into = np.linalg.eig(model.jumps_per_s - rates)  # all roots have a negative real part
    back = np.linalg.solve(into, rates)
    r = observed.resolution_s
    gap_s = observed.amount * observed.unit_s
    if r == 0.0:
        exponent, factor = np.multiply.outer(gap_s, root), np.ones(len(root))
    else:
        y = root * r
        # The second difference of exp(root x) / root^2, as in renewal._log_ticks.
        exponent = np.multiply.outer(np.maximum(gap_s - r, 0.0), root)
        factor = np.where(np.abs(y) < 1e-5, 1.0 + y, np.expm1(y) ** 2 / y**2) * r
    largest = exponent.real.max(1)
    weight = np.exp(exponent - largest[:, None]) * factor
    if r > 0.0:
        small = 0.5 + y / 6.0
        weight[gap_s == 0.0] = np.where(np.abs(y) < 1e-4, small, (np.expm1(y) - y) / y**2) * r
    return _Filter(into, back, weight, largest)


def _count_filter(observed: Observed, model: MarkovModulated) -> _Filter:
    jumps = expm(model.jumps_per_s * observed.resolution_s)
    mean = np.array(model.rate_rps) * observed.resolution_s
    logs = np.multiply.outer(observed.cell_amount, np.log(mean)) - mean
    logs -= gammaln(observed.cell_amount + 1.0)[:, None]
    largest = logs.max(1)
    weight = np.exp(logs - largest[:, None])
    return _Filter(
        np.asarray(jumps), np.eye(len(mean)), weight[observed.cell], largest[observed.cell]
    )
