"""Poisson arrivals whose rate follows a sine: the fit, and the likelihood of gaps or counts."""

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import gammaln, xlogy

from pipeline.calibration.arrival_models.observed import COUNTS, Observed

LEAST_PERIODS = 2.0  # in the span that is fitted
_BINS = 4096  # of the counts that are fitted, at most
_PER_BIN = 5.0  # arrivals in a bin, at least, on average
_BINS_PER_PERIOD = 12.0  # at least, of a period that is looked for
_MOST_AMPLITUDE = 0.999  # at 1 an arrival at the lowest point would be impossible


class Diurnal(NamedTuple):
    """`rate(t) = rate_rps (1 + amplitude sin(2 pi (t - rise_s) / period_s))`."""

    rate_rps: float
    amplitude: float  # in [0, 1)
    period_s: float
    rise_s: float  # in [0, period_s), from the start of the span

    def expected(self, start_s: np.ndarray, end_s: np.ndarray) -> np.ndarray:
        """Expected arrivals `[N]` from `start_s [N]` to `end_s [N]`: the integral of the rate."""
        angle = 2.0 * math.pi / self.period_s
        # cos a - cos b as a product: the difference keeps its precision in short intervals.
        middle = np.sin(angle * ((start_s + end_s) / 2.0 - self.rise_s))
        half = np.sin(angle * (end_s - start_s) / 2.0)
        wave = 2.0 * self.amplitude / angle * middle * half
        return np.asarray(self.rate_rps * ((end_s - start_s) + wave))

    def rate_at(self, instant_s: np.ndarray) -> np.ndarray:
        """The rate in 1/s at each instant `[N]`."""
        angle = 2.0 * math.pi / self.period_s * (instant_s - self.rise_s)
        return np.asarray(self.rate_rps * (1.0 + self.amplitude * np.sin(angle)))


def diurnal_log_likelihood(observed: Observed, model: Diurnal) -> np.ndarray:
    """Log likelihood `[N]` of each observation.

    A gap from s to t has log density `log rate(t) - M`, where M are the arrivals expected from s to
    t. Between rounded instants of resolution r, with `y = rate(t) r`: gaps of 0 ticks have
    probability `1 - (1 - exp(-y)) / y`, and others `exp(-M) exp(y) (1 - exp(-y))^2 / y`, which is
    renewal._log_ticks at cv 1 where the rate is constant. Counts are Poisson.
    """
    end_s = observed.instant_s
    if observed.kind == COUNTS:
        half_s = observed.resolution_s / 2.0
        mean = np.maximum(model.expected(end_s - half_s, end_s + half_s), 1e-300)
        return np.asarray(xlogy(observed.amount, mean) - mean - gammaln(observed.amount + 1.0))
    start_s = end_s - observed.amount * observed.unit_s
    rate, mean = model.rate_at(end_s), model.expected(start_s, end_s)
    if observed.resolution_s == 0.0:
        return np.asarray(np.log(rate) - mean)
    y = rate * observed.resolution_s
    share = -np.expm1(-y) / y
    zero = np.where(y < 1e-4, y / 2.0, 1.0 - share)
    return np.where(observed.amount == 0, np.log(zero), y - mean + np.log(y * share**2))


def fit_diurnal(
    arrival_s: np.ndarray, duration_s: float, period_s: float | None = None
) -> Diurnal | None:
    """The sine of highest likelihood; None where the span holds fewer than two periods.

    The likelihood is that of Poisson counts in at most 4096 bins. A period that is not given is
    looked for where a periodogram of the counts is highest, from 12 bins to half the span, and then
    fitted with the rest; a period that is given stays.
    """
    if period_s is not None and duration_s < LEAST_PERIODS * period_s:
        return None
    bins = int(min(_BINS, len(arrival_s) / _PER_BIN))
    if bins < LEAST_PERIODS * _BINS_PER_PERIOD:
        return None
    edge_s = np.linspace(0.0, duration_s, bins + 1)
    counts = np.diff(np.searchsorted(arrival_s, edge_s)).astype(float)
    start_s = period_s or _strongest_period_s(counts, duration_s)
    coded = _first(counts, edge_s, start_s)
    rate_rps = len(arrival_s) / duration_s

    def model_at(coded: np.ndarray) -> Diurnal:
        length_s = float(period_s or duration_s / coded[2])
        amplitude = min(math.hypot(coded[0], coded[1]), _MOST_AMPLITUDE)
        rise_s = -math.atan2(coded[1], coded[0]) / (2.0 * math.pi) * length_s % length_s
        return Diurnal(rate_rps, amplitude, length_s, rise_s)

    def loss(coded: np.ndarray) -> float:
        model = model_at(coded)
        mean = np.maximum(model.expected(edge_s[:-1], edge_s[1:]), 1e-12)
        scaled = mean * counts.sum() / mean.sum()  # the rate of highest likelihood for this sine
        return -float((xlogy(counts, scaled) - scaled).sum())

    cycles = duration_s / start_s
    start = np.array([*coded, cycles] if period_s is None else coded)
    corners = np.vstack([start, start + np.diag([0.1, 0.1, 0.1][: len(start)])])
    options = {"initial_simplex": corners, "xatol": 1e-7, "fatol": 1e-7, "maxiter": 2000}
    found = minimize(loss, start, method="Nelder-Mead", options=options)
    best = model_at(found.x)
    if best.period_s > duration_s / LEAST_PERIODS * (1.0 + 1e-9) and period_s is None:
        return None
    whole = float(best.expected(np.zeros(1), np.array([duration_s]))[0])
    return best._replace(rate_rps=rate_rps * len(arrival_s) / whole)


def _strongest_period_s(counts: np.ndarray, duration_s: float) -> float:
    padded = 4 * len(counts)  # four frequencies for each that the span tells apart
    power = np.abs(np.fft.rfft(counts - counts.mean(), padded)) ** 2
    cycles = np.arange(len(power)) / 4.0  # in the span
    allowed = (cycles >= LEAST_PERIODS) & (cycles <= len(counts) / _BINS_PER_PERIOD)
    return duration_s / float(cycles[allowed][np.argmax(power[allowed])])


def _first(counts: np.ndarray, edge_s: np.ndarray, period_s: float) -> list[float]:
    """Amplitude times cosine and sine of the phase, by least squares at that period."""
    angle = 2.0 * math.pi / period_s * (edge_s[:-1] + edge_s[1:]) / 2.0
    design = np.stack([np.ones(len(angle)), np.sin(angle), np.cos(angle)], axis=1)
    mean, along, across = np.linalg.lstsq(design, counts, rcond=None)[0]
    scale = mean * max(1.0, math.hypot(along, across) / (0.95 * mean))
    return [float(along / scale), float(across / scale)]
