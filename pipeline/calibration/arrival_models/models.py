"""The models that arrivals may follow, as plain numbers, and what each says of observations."""

from typing import NamedTuple

import numpy as np

from pipeline.calibration.arrival_models.diurnal import (
    Diurnal,
    diurnal_log_likelihood,
    fit_diurnal,
)
from pipeline.calibration.arrival_models.modulated import MarkovModulated, phase_log_likelihood
from pipeline.calibration.arrival_models.modulated_fit import fit_modulated
from pipeline.calibration.arrival_models.observed import COUNTS, Observed
from pipeline.calibration.arrival_models.renewal import cell_log_probability, fit_cv
from simulator.arrivals import GapLaw

POISSON, GAMMA, WEIBULL = "poisson", "gamma", "weibull"
MODULATED_2, MODULATED_3, DIURNAL = "markov_modulated_2", "markov_modulated_3", "diurnal"
# Free parameters. Diurnal: rate, amplitude, rise, period; P phases: P rates, P (P - 1) jumps.
PARAMETERS = {POISSON: 1, GAMMA: 2, WEIBULL: 2, DIURNAL: 4, MODULATED_2: 4, MODULATED_3: 9}


class Poisson(NamedTuple):
    """Independent arrivals at a constant rate."""

    rate_rps: float


class Renewal(NamedTuple):
    """Independent gaps of mean `1 / rate_rps` and coefficient of variation `cv`."""

    rate_rps: float
    cv: float
    law: str  # of simulator.arrivals.GapLaw


ArrivalModel = Poisson | Renewal | MarkovModulated | Diurnal
MODEL_TYPES: dict[str, type] = {
    POISSON: Poisson,
    GAMMA: Renewal,
    WEIBULL: Renewal,
    DIURNAL: Diurnal,
    MODULATED_2: MarkovModulated,
    MODULATED_3: MarkovModulated,
}


def fit_model(
    name: str,
    observed: Observed,
    arrival_s: np.ndarray,
    period_s: float | None = None,
    near: ArrivalModel | None = None,
) -> ArrivalModel | None:
    """The model of that name fitted to a span; None where the span cannot tell its parameters.

    `arrival_s [R]` are the arrivals of the span. Weibull gaps are not told from Gamma by counts.
    `near` is a fit to a part of the span: phases start from it.
    """
    rate_rps = len(arrival_s) / observed.duration_s
    if name == POISSON:
        return Poisson(rate_rps)
    if name in (GAMMA, WEIBULL):
        if name == WEIBULL and observed.kind == COUNTS:
            return None
        law = GapLaw(name)
        counts = observed.cell_counts(np.zeros(len(observed.cell), np.int64), 1)[0]
        return Renewal(rate_rps, fit_cv(observed, counts, law, rate_rps), law.value)
    if name == DIURNAL:
        return fit_diurnal(arrival_s, observed.duration_s, period_s)
    phases = 2 if name == MODULATED_2 else 3
    return fit_modulated(observed, phases, near if isinstance(near, MarkovModulated) else None)


def log_likelihood(observed: Observed, model: ArrivalModel) -> np.ndarray:
    """Log likelihood `[N]` of each observation given those before it, in one measure for all.

    Gaps: log probability of a number of ticks, or log density in 1/s at resolution 0. Counts: log
    probability of a count.
    """
    if isinstance(model, MarkovModulated):
        return phase_log_likelihood(observed, model)
    if isinstance(model, Diurnal):
        return diurnal_log_likelihood(observed, model)
    cv, law = (model.cv, GapLaw(model.law)) if isinstance(model, Renewal) else (1.0, GapLaw.GAMMA)
    return cell_log_probability(observed, law, model.rate_rps, cv)[observed.cell]
