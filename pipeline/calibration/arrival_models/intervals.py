"""Rate and gap variation of arrivals with intervals, from blocks of time."""

import math
from typing import NamedTuple

import numpy as np
from scipy.stats import t

from pipeline.calibration.arrival_models.diurnal import Diurnal
from pipeline.calibration.arrival_models.models import ArrivalModel, Poisson, Renewal
from pipeline.calibration.arrival_models.modulated import MarkovModulated
from pipeline.calibration.arrival_models.observed import COUNTS, Observed
from pipeline.calibration.arrival_models.renewal import fit_cv
from simulator.arrivals import GapLaw

BLOCKS = 20


class Estimate(NamedTuple):
    """A value with its standard error and the bounds of its confidence interval."""

    value: float
    standard_error: float
    low: float
    high: float


def rate_estimate(
    arrival_s: np.ndarray, duration_s: float, model: ArrivalModel, confidence: float = 0.95
) -> Estimate:
    """Arrivals per second, from `arrival_s [R]` over `duration_s`.

    The standard error is the larger of two: `sqrt(rate * dispersion / duration)` of the model, and
    that of the counts in 20 blocks of time, less what a sine says of them. The first knows phases
    that outlast a block, the second what the model leaves out. Student t with 19 degrees.
    """
    rate_rps = len(arrival_s) / duration_s
    edge_s = np.linspace(0.0, duration_s, BLOCKS + 1)
    counts = np.diff(np.searchsorted(arrival_s, edge_s, side="left")).astype(float)
    counts[-1] += len(arrival_s) - counts.sum()  # one that comes at the end of the span
    dispersion = 1.0
    if isinstance(model, Renewal):
        dispersion = model.cv**2
    if isinstance(model, MarkovModulated):
        dispersion = model.dispersion
    if isinstance(model, Diurnal):
        counts -= model.expected(edge_s[:-1], edge_s[1:])
    of_model = math.sqrt(rate_rps * dispersion / duration_s)
    of_blocks = float(counts.std(ddof=1)) * math.sqrt(BLOCKS) / duration_s
    return _estimate(rate_rps, max(of_model, of_blocks), confidence)


def cv_estimate(observed: Observed, model: ArrivalModel, confidence: float = 0.95) -> Estimate:
    """Coefficient of variation of the gaps: fitted where they are independent, of the sample else.

    The standard error is that of the jackknife over 20 blocks of time (Efron and Tibshirani 1993,
    equation 11.5): all is estimated again without each block. Under Poisson the law
    fitted is Gamma. The sample's is freed of the variance `r^2 / 6` that a resolution r adds, some
    2 % too much at two gaps to a tick; it is NaN where only counts are observed.
    """
    if isinstance(model, Poisson):
        counts = observed.cell_counts(np.zeros(len(observed.cell), np.int64), 1)[0]
        cv = fit_cv(observed, counts, GapLaw.GAMMA, model.rate_rps)
        model = Renewal(model.rate_rps, cv, GapLaw.GAMMA.value)
    block = observed.blocks(0.0, BLOCKS)
    if isinstance(model, Renewal):
        value, without = _fitted(observed, block, model)
    elif observed.kind == COUNTS:
        return Estimate(math.nan, math.nan, math.nan, math.nan)
    else:
        value, without = _sampled(observed, block)
    spread = without - without.mean()
    standard_error = math.sqrt((BLOCKS - 1) / BLOCKS * float(spread @ spread))
    return _estimate(value, standard_error, confidence)


def _estimate(value: float, standard_error: float, confidence: float) -> Estimate:
    half = float(t.ppf(0.5 + confidence / 2.0, BLOCKS - 1)) * standard_error
    return Estimate(value, standard_error, max(value - half, 0.0), value + half)


def _fitted(observed: Observed, block: np.ndarray, model: Renewal) -> tuple[float, np.ndarray]:
    """The fitted variation, and `[B]` without each block."""
    counts = observed.cell_counts(block, BLOCKS)
    arrivals = counts.sum(1)
    if observed.kind == COUNTS:
        arrivals = counts @ observed.cell_amount
    left_s = observed.duration_s * (BLOCKS - 1) / BLOCKS
    without = [
        fit_cv(
            observed,
            counts.sum(0) - counts[number],
            GapLaw(model.law),
            float(arrivals.sum() - arrivals[number]) / left_s,
            model.cv,
        )
        for number in range(BLOCKS)
    ]
    return model.cv, np.array(without)


def _sampled(observed: Observed, block: np.ndarray) -> tuple[float, np.ndarray]:
    """The variation of the sample of gaps, and `[B]` without each block."""
    gap_s = observed.amount * observed.unit_s
    sums = np.array(
        [np.bincount(block, weights=gap_s**power, minlength=BLOCKS) for power in (0, 1, 2)]
    )
    rounding = observed.resolution_s**2 / 6.0

    def variation(sums: np.ndarray) -> np.ndarray:
        mean_s = sums[1] / sums[0]
        variance = np.maximum(sums[2] / sums[0] - mean_s**2 - rounding, 0.0)
        return np.asarray(np.sqrt(variance) / mean_s)

    whole = sums.sum(1, keepdims=True)
    return float(variation(whole)[0]), variation(whole - sums)
