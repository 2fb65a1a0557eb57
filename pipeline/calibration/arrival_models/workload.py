"""The chosen model of arrivals as traffic for the simulator, and as JSON."""

from typing import Any

from pipeline.calibration.arrival_models.choice import ArrivalChoice
from pipeline.calibration.arrival_models.diurnal import Diurnal
from pipeline.calibration.arrival_models.intervals import Estimate
from pipeline.calibration.arrival_models.models import MODEL_TYPES, Poisson, Renewal
from pipeline.files import plain
from simulator.arrivals import GapLaw
from simulator.sizes import RequestMix, check_shares
from simulator.traffic import (
    ClassSizes,
    DiurnalWorkload,
    MarkovModulatedWorkload,
    PoissonWorkload,
    RenewalWorkload,
)
from simulator.workload import Workload


def arrival_workload(
    choice: ArrivalChoice, mix: tuple[float, ...], sizes: ClassSizes = ()
) -> Workload:
    """Traffic of that model with the shares `mix [C]` of the classes and their sizes.

    Rates by class are the rate times the share: the mix is the same at every instant. Phases start
    in their long-run shares of time and a sine at a uniform instant: windows onto traffic that has
    been running. Raises ValueError for shares that do not sum to 1 and for a rate of 0 with
    renewal gaps.
    """
    check_shares("mix", mix)
    model = choice.model
    if isinstance(model, Poisson):
        return PoissonWorkload(_by_class(model.rate_rps, mix), sizes)
    if isinstance(model, Renewal):
        return RenewalWorkload(model.rate_rps, model.cv, GapLaw(model.law), RequestMix(mix, sizes))
    if isinstance(model, Diurnal):
        return DiurnalWorkload(
            _by_class(model.rate_rps, mix),
            (model.amplitude,) * len(mix),
            model.period_s,
            (model.rise_s,) * len(mix),
            random_phase=True,
            sizes=sizes,
        )
    rates = tuple(_by_class(rate_rps, mix) for rate_rps in model.rate_rps)
    return MarkovModulatedWorkload(rates, model.mean_phase_s, model.jump_probability, None, sizes)


def _by_class(rate_rps: float, mix: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(rate_rps * share for share in mix)


def to_json(choice: ArrivalChoice) -> dict[str, Any]:
    """The choice as plain values, NaN as null; `from_json` is its inverse."""
    values: dict[str, Any] = plain(choice)
    return values


def from_json(values: dict[str, Any]) -> ArrivalChoice:
    """The choice that `to_json` wrote."""
    model = {field: _tuples(value) for field, value in values["model"].items()}
    read = {
        **values,
        "model": MODEL_TYPES[values["name"]](**model),
        "rate_rps": _estimate(values["rate_rps"]),
        "interarrival_cv": _estimate(values["interarrival_cv"]),
    }
    return ArrivalChoice(**read)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _estimate(values: dict[str, float | None]) -> Estimate:
    numbers = {key: float("nan") if number is None else number for key, number in values.items()}
    return Estimate(**numbers)
