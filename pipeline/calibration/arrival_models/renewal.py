"""Renewal processes seen through a clock of finite resolution; the Poisson process is one."""

import math

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import gammainc, gammaincc, gammaln

from pipeline.calibration.arrival_models.observed import COUNTS, Observed
from simulator.arrivals import GapLaw, weibull_shape

CV_BOUNDS = (0.1, 20.0)  # of the coefficients of variation that are tried
_LEAST = 1e-300  # a probability that underflows
_FINE = 1e-4  # a resolution this small beside the mean gap counts as fine
_MANY_TICKS = 2000.0  # of a fine clock: the density hardly changes within one
_LOST = 1e-10  # a second difference this small beside its terms is rounding


def cell_log_probability(observed: Observed, law: GapLaw, rate_rps: float, cv: float) -> np.ndarray:
    """Log probability `[C]` of the amount of each cell; log density in 1/s where r = 0.

    Gaps of a mean `1 / rate_rps` and coefficient of variation `cv`; 1 is the Poisson process.
    """
    if observed.kind == COUNTS:
        return _log_counts(observed.cell_amount, observed.resolution_s, rate_rps, cv)
    if observed.resolution_s == 0.0:
        return _Gaps(law, rate_rps, cv).log_density(observed.cell_amount)
    return _log_ticks(observed.cell_amount, observed.resolution_s, _Gaps(law, rate_rps, cv))


def fit_cv(
    observed: Observed,
    counts: np.ndarray,
    law: GapLaw,
    rate_rps: float,
    near: float | None = None,
) -> float:
    """The coefficient of variation of highest likelihood, from 0.1 to 20, at a given rate.

    `counts [C]` says how often each cell occurs. The rate is the number of arrivals over time, not
    fitted again: it is unbiased whatever the law. With `near`, looked for within a factor of 1.5.
    """
    used = np.flatnonzero(counts)
    observed = observed._replace(cell_amount=observed.cell_amount[used])
    counts = counts[used]

    def loss(log_cv: float) -> float:
        logs = cell_log_probability(observed, law, rate_rps, math.exp(log_cv))
        return -float(counts @ logs)

    if near is not None:
        bounds = (math.log(near / 1.5), math.log(near * 1.5))
        found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-5})
        return math.exp(float(found.x))
    # The likelihood may have a flat side far from its peak: the grid finds the peak's neighborhood.
    grid = np.linspace(math.log(CV_BOUNDS[0]), math.log(CV_BOUNDS[1]), 13)
    best = int(np.argmin([loss(float(log_cv)) for log_cv in grid]))
    bounds = (grid[max(best - 1, 0)], grid[min(best + 1, 12)])
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-5})
    return math.exp(float(found.x))


class _Gaps:
    """Gaps `scale * Gamma(shape) ** (1 / power)`: power 1 is Gamma, shape 1 is Weibull.

    The same form as in simulator.arrivals (Stacy 1962, equation 1).
    """

    def __init__(self, law: GapLaw, rate_rps: float, cv: float) -> None:
        self.mean_s = 1.0 / rate_rps
        if law == GapLaw.GAMMA:
            self.shape, self.power = 1.0 / cv**2, 1.0
            self.scale_s = self.mean_s / self.shape
        else:
            self.shape, self.power = 1.0, weibull_shape(cv)
            self.scale_s = self.mean_s / math.gamma(1.0 + 1.0 / self.power)

    def log_density(self, gap_s: np.ndarray) -> np.ndarray:
        """Log density `[N]` in 1/s of gaps above 0."""
        log_ratio = np.log(gap_s / self.scale_s)
        constant = math.log(self.power / self.scale_s) - gammaln(self.shape)
        power = self.shape * self.power - 1.0
        return np.asarray(constant + power * log_ratio - np.exp(self.power * log_ratio))

    def area_below(self, gap_s: np.ndarray) -> np.ndarray:
        """`H(x)`, the integral of the distribution function from 0 to x: `x F(x) - m F1(x)`.

        `m F1(x)` is the part of the mean that comes from gaps up to x. H(x) = 0 for x <= 0.
        """
        x = np.maximum(gap_s, 0.0)
        z = (x / self.scale_s) ** self.power
        longer = gammainc(self.shape + 1.0 / self.power, z)
        return np.asarray(x * gammainc(self.shape, z) - self.mean_s * longer)

    def area_above(self, gap_s: np.ndarray) -> np.ndarray:
        """The integral of 1 - F from x on; it differs from H(x) by `m - x`, which is linear."""
        x = np.maximum(gap_s, 0.0)
        z = (x / self.scale_s) ** self.power
        longer = gammaincc(self.shape + 1.0 / self.power, z)
        return np.asarray(self.mean_s * longer - x * gammaincc(self.shape, z))


def _log_ticks(ticks: np.ndarray, r: float, gaps: _Gaps) -> np.ndarray:
    """Log probability that a gap between two rounded instants is that many ticks of length r.

    An instant lies anywhere within its tick, so `P(k) = E[max(0, 1 - |G - k r| / r)]`, the second
    difference `(H((k+1) r) - 2 H(k r) + H((k-1) r)) / r` for k >= 1, and `H(r) / r` for k = 0.
    Gaps count as independent: that rounding makes neighboring gaps depend on each other a little
    is left out (a composite likelihood; Varin, Reid and Firth 2011).
    """
    smooth = r * np.exp(np.maximum(gaps.log_density(np.maximum(ticks, 1.0) * r), -690.0))
    probability = smooth.copy()
    near = np.ones(len(ticks), bool) if r > _FINE * gaps.mean_s else ticks < _MANY_TICKS
    x = ticks[near] * r
    around = [x + r, x, x - r]
    low = [gaps.area_below(at) for at in around]
    high = [gaps.area_above(at) for at in around]
    tail = high[1] < low[1]  # take the smaller of the two: it keeps its relative precision
    outer, middle, inner = (np.where(tail, h, b) for h, b in zip(high, low, strict=True))
    second = outer - 2.0 * middle + inner
    kept = second > _LOST * np.maximum(np.maximum(outer, middle), inner)
    probability[near] = np.where(kept, second / r, smooth[near])
    zero = ticks == 0
    probability[zero] = gaps.area_below(np.full(int(zero.sum()), r)) / r
    return np.asarray(np.log(np.maximum(probability, _LEAST)))


def _log_counts(count: np.ndarray, r: float, rate_rps: float, cv: float) -> np.ndarray:
    """Log probability of counts in a bin of length r of a stationary Gamma renewal process.

    `P(N = n) = rate (H_{n-1}(r) - 2 H_n(r) + H_{n+1}(r))`, where H_n is the integral of the
    distribution function of the sum of n gaps (Cox, Renewal Theory, section 3.3, equilibrium
    process); at cv 1 it is Poisson. Bins count as independent. At more than four arrivals in a bin
    only the variation of the gaps can be seen, not their law: Weibull is not told from Gamma.
    """
    shape = 1.0 / cv**2
    x = shape * rate_rps * r

    def areas(n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        at = np.maximum(n, 1.0) * shape  # n = 0 is replaced below
        below = r * gammainc(at, x) - n / rate_rps * gammainc(at + 1.0, x)
        above = n / rate_rps * gammaincc(at + 1.0, x) - r * gammaincc(at, x)
        return np.where(n > 0, below, r), np.where(n > 0, above, 0.0)

    (low, high) = zip(*(areas(count + step) for step in (-1.0, 0.0, 1.0)), strict=True)
    tail = low[1] < high[1]
    before, here, after = (np.where(tail, b, h) for b, h in zip(low, high, strict=True))
    probability = np.where(count > 0, before - 2.0 * here + after, high[2])
    return np.asarray(np.log(np.maximum(rate_rps * probability, _LEAST)))
