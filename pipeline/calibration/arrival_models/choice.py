"""Chooses the model of a log's arrivals by its likelihood on the last part of the log."""

import math
from typing import NamedTuple

import numpy as np

from pipeline.calibration.arrival_models.intervals import (
    BLOCKS,
    Estimate,
    cv_estimate,
    rate_estimate,
)
from pipeline.calibration.arrival_models.models import (
    MODULATED_2,
    MODULATED_3,
    PARAMETERS,
    POISSON,
    ArrivalModel,
    Poisson,
    fit_model,
    log_likelihood,
)
from pipeline.calibration.arrival_models.observed import Observed, check_instants, observe
from simulator.checks import check

LEAST_ARRIVALS = 200  # for more than a rate to be told
LEAST_HELD_OUT = 50
_LEAD_IN = 20_000  # observations before the held-out part that tell the phase it begins in
_ERRORS = 2.0  # standard errors by which a richer model must win


class ArrivalChoice(NamedTuple):
    """The model of the arrivals of a span, and what the choice rests on."""

    name: str  # of models.PARAMETERS
    model: ArrivalModel  # fitted to the whole span
    rate_rps: Estimate
    interarrival_cv: Estimate  # NaN where it cannot be told
    held_out_log_likelihood: dict[str, float]  # per arrival, of each candidate
    arrivals: int
    held_out_arrivals: int
    duration_s: float
    resolution_s: float  # of the clock, as given or as found
    observed: str  # what was judged: gaps or counts; none: too few arrivals
    why: str


class Candidate(NamedTuple):
    """A model and how it did on the held-out part."""

    name: str
    model: ArrivalModel  # fitted to the first part
    by_block: np.ndarray  # [B] held-out log likelihood


def fit_arrival_model(
    arrival_s: np.ndarray,
    duration_s: float,
    resolution_s: float = 0.0,
    held_out: float = 0.3,
    period_s: float | None = None,
) -> ArrivalChoice:
    """The model of ascending `arrival_s [R]` in [0, duration_s] that predicts its last part best.

    Every candidate is fitted to the first part in time and scored on the last, a share `held_out`
    of the duration, as a continuation of the first. All are scored on the same observations (see
    observed.Observed). From fewer parameters to more, a model takes the lead only if it beats the
    leader by more than two standard errors of the difference, from 20 blocks of held-out time;
    they are too small where blocks depend on each other. Of equally many parameters the likelier
    one stands. Three phases are tried where two lead. The winner is fitted again to the whole.

    A sine needs two periods in the first part; `period_s` is its period where it is known (a day).
    Fewer than 200 arrivals, or 50 held out, tell only a rate: Poisson. What none of the models
    can do: a trend, dependence between neighboring gaps beyond phases, bursts within a daily cycle.
    Raises ValueError for instants that are not ascending in [0, duration_s].
    """
    check_instants(arrival_s, duration_s, resolution_s)
    check(0.0 < held_out < 1.0, "held_out", held_out, "must be above 0 and below 1")
    holds = period_s is None or (math.isfinite(period_s) and period_s > 0)
    check(holds, "period_s", period_s, "must be positive and finite, or None")
    train_end_s = (1.0 - held_out) * duration_s
    train = int(np.searchsorted(arrival_s, train_end_s))
    if len(arrival_s) < LEAST_ARRIVALS or min(train, len(arrival_s) - train) < LEAST_HELD_OUT:
        return _rate_alone(arrival_s, duration_s, resolution_s, len(arrival_s) - train)
    observed = observe(arrival_s, duration_s, resolution_s)
    candidates = _candidates(observed, arrival_s[:train], train_end_s, period_s)
    chosen, reasons = choose(candidates)
    model = fit_model(chosen.name, observed, arrival_s, period_s, chosen.model)
    if model is None:
        model = chosen.model
        reasons.append("the whole span does not show it again: the fit is that of the first part")
    held_out_arrivals = len(arrival_s) - train
    return ArrivalChoice(
        chosen.name,
        model,
        rate_estimate(arrival_s, duration_s, model),
        cv_estimate(observed, model),
        {each.name: float(each.by_block.sum()) / held_out_arrivals for each in candidates},
        len(arrival_s),
        held_out_arrivals,
        duration_s,
        observed.resolution_s,
        observed.kind,
        "; ".join(reasons),
    )


def _rate_alone(
    arrival_s: np.ndarray, duration_s: float, resolution_s: float, held_out: int
) -> ArrivalChoice:
    model = Poisson(len(arrival_s) / duration_s)
    unknown = Estimate(math.nan, math.nan, math.nan, math.nan)
    return ArrivalChoice(
        POISSON,
        model,
        rate_estimate(arrival_s, duration_s, model),
        unknown,
        {},
        len(arrival_s),
        held_out,
        duration_s,
        resolution_s,
        "none",
        f"{len(arrival_s)} arrivals, {held_out} of them held out, tell only a rate",
    )


def _candidates(
    observed: Observed, train_s: np.ndarray, train_end_s: float, period_s: float | None
) -> list[Candidate]:
    """Those that the first part can tell, from fewer parameters to more."""
    train = observed.until(train_end_s)
    scored = observed.latest(len(observed.amount) - len(train.amount) + _LEAD_IN)
    block = scored.blocks(train_end_s, BLOCKS)
    held_out = block >= 0
    found: dict[str, Candidate] = {}
    for name in sorted(PARAMETERS, key=lambda name: PARAMETERS[name]):
        # Three phases are worth their time only where two lead.
        if name == MODULATED_3 and choose(list(found.values()))[0].name != MODULATED_2:
            continue
        model = fit_model(name, train, train_s, period_s)
        if model is not None:
            each = log_likelihood(scored, model)[held_out]
            by_block = np.bincount(block[held_out], weights=each, minlength=BLOCKS)
            found[name] = Candidate(name, model, by_block)
    return list(found.values())


def _difference(richer: Candidate, simpler: Candidate) -> tuple[float, float]:
    """The sum over blocks by which the first is ahead, and its standard error."""
    difference = richer.by_block - simpler.by_block
    return float(difference.sum()), float(difference.std(ddof=1)) * math.sqrt(BLOCKS)


def _beats(richer: Candidate, simpler: Candidate) -> bool:
    ahead, error = _difference(richer, simpler)
    return ahead > _ERRORS * error


def choose(candidates: list[Candidate]) -> tuple[Candidate, list[str]]:
    """The last to take the lead, and a line for each comparison."""
    leader, reasons = candidates[0], [f"{candidates[0].name} to begin with"]
    for parameters in sorted(set(PARAMETERS.values()))[1:]:
        equals = [each for each in candidates if PARAMETERS[each.name] == parameters]
        if not equals:
            continue
        best = max(equals, key=lambda each: float(each.by_block.sum()))
        ahead, error = _difference(best, leader)
        wins = _beats(best, leader)
        verdict = "takes the lead" if wins else "does not lead"
        reasons.append(
            f"{best.name} {verdict}: {ahead:+.1f} ahead of {leader.name} in held-out log "
            f"likelihood, standard error {error:.1f}"
        )
        leader = best if wins else leader
    return leader, reasons
