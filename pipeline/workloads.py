"""The load that policies meet: the logged arrivals of a split, or generated ones."""

import numpy as np

from pipeline.calibration.calibrate import Calibration
from pipeline.calibration.log import LoggedRun
from pipeline.settings import (
    ConstantSizeSettings,
    DiurnalWorkloadSettings,
    EmpiricalSizeSettings,
    LoggedSizeSettings,
    LoggedWorkloadSettings,
    LognormalSizeSettings,
    MarkovModulatedWorkloadSettings,
    PoissonWorkloadSettings,
    RenewalWorkloadSettings,
    Settings,
    SizeSettings,
    SquareBurstWorkloadSettings,
)
from simulator.arrivals import GapLaw
from simulator.sizes import (
    Constant,
    Distribution,
    Empirical,
    Lognormal,
    Quantiles,
    RequestMix,
    RequestSizes,
)
from simulator.traffic import (
    ClassSizes,
    DiurnalWorkload,
    MarkovModulatedWorkload,
    PoissonWorkload,
    RenewalWorkload,
    SquareBurstWorkload,
)
from simulator.workload import Arrivals, RecordedWorkload, TraceWorkload, Workload

TRAIN = "train"


def split_arrivals(run: LoggedRun, calibration: Calibration, split: str) -> Arrivals:
    """The logged requests of a split, their instants counted from its start."""
    span = calibration.splits[split]
    return run.arrivals.window(span.start_s, span.end_s)


def build_workload(
    settings: Settings, calibration: Calibration, run: LoggedRun, split: str
) -> Workload:
    """The load that policies are tuned and trained on: windows of the split, or generated."""
    workload = settings.workload
    if isinstance(workload, LoggedWorkloadSettings):
        arrivals = split_arrivals(run, calibration, split)
        span_s = calibration.splits[split].span_s
        return TraceWorkload(arrivals, span_s, logged_rate_scale(workload, calibration))
    return _generated(settings, calibration, run, 1.0)


def evaluation_workloads(
    settings: Settings,
    calibration: Calibration,
    run: LoggedRun,
    split: str,
    episodes: int,
    rate_scale: float = 1.0,
) -> tuple[list[Workload], np.ndarray]:
    """At least `episodes` workloads, and for each the number of the window it shows.

    A logged split is cut into windows of `horizon_s` that do not overlap; each is shown equally
    often, under other noise. Generated workloads are each a window of their own. `rate_scale`
    multiplies the arrival rate. Raises ValueError where the split is shorter than one window.
    """
    workload = settings.workload
    if not isinstance(workload, LoggedWorkloadSettings):
        generated = _generated(settings, calibration, run, rate_scale)
        return [generated] * episodes, np.arange(episodes)
    scale = logged_rate_scale(workload, calibration) * rate_scale
    arrivals = split_arrivals(run, calibration, split)
    length_s = settings.scenario.horizon_s * scale
    count = int(calibration.splits[split].span_s / length_s + 1e-9)
    if count == 0:
        raise ValueError(
            f"scenario.horizon_s = {settings.scenario.horizon_s!r}: the {split} split spans "
            f"{calibration.splits[split].span_s:g} s and has no window of {length_s:g} s"
        )
    windows: list[Workload] = []
    for number in range(count):
        window = arrivals.window(number * length_s, (number + 1) * length_s)
        windows.append(RecordedWorkload(window._replace(arrival_s=window.arrival_s / scale)))
    repeats = -(-episodes // count)
    return windows * repeats, np.tile(np.arange(count), repeats)


def logged_rate_scale(workload: LoggedWorkloadSettings, calibration: Calibration) -> float:
    """The factor by which the log is shown faster than it was; all splits share it.

    Where a rate is asked for, it is that over the mean rate of the training split. So no factor
    knows the future, and a busier split stays busier.
    """
    if workload.rate_rps is None:
        return workload.rate_scale
    logged_rps = sum(fit.arrival_rate_rps for fit in calibration.arrivals[TRAIN])
    if logged_rps == 0:
        raise ValueError(f"workload.rate_rps = {workload.rate_rps!r}: nothing arrives in training")
    return workload.rate_rps / logged_rps


def describe_load(settings: Settings, calibration: Calibration) -> str:
    """A sentence on the load: how much faster the log is shown, or what is generated."""
    workload = settings.workload
    if not isinstance(workload, LoggedWorkloadSettings):
        return f"load: generated, {workload.kind}"
    scale = logged_rate_scale(workload, calibration)
    rate_rps = scale * sum(fit.arrival_rate_rps for fit in calibration.arrivals[TRAIN])
    return f"load: as logged, {scale:.4g} times as fast; {rate_rps:.4g} requests/s in training"


def _generated(
    settings: Settings, calibration: Calibration, run: LoggedRun, rate_scale: float
) -> Workload:
    """The generated load of the configuration with all its rates multiplied by `rate_scale`."""
    workload, names = settings.workload, calibration.class_names

    def ordered(by_class: dict[str, float], scale: float = 1.0) -> tuple[float, ...]:
        return tuple(by_class[name] * scale for name in names)

    if isinstance(workload, LoggedWorkloadSettings):
        raise ValueError(f"workload.kind = {workload.kind!r}: does not generate arrivals")
    sizes = _class_sizes(workload.sizes, calibration, run)
    if isinstance(workload, PoissonWorkloadSettings):
        return PoissonWorkload(ordered(workload.rate_rps, rate_scale), sizes)
    if isinstance(workload, SquareBurstWorkloadSettings):
        return SquareBurstWorkload(
            ordered(workload.low_rps, rate_scale),
            ordered(workload.high_rps, rate_scale),
            workload.low_s,
            workload.high_s,
            workload.random_phase,
            sizes,
        )
    if isinstance(workload, DiurnalWorkloadSettings):
        return DiurnalWorkload(
            ordered(workload.rate_rps, rate_scale),
            ordered(workload.amplitude),
            workload.period_s,
            ordered(workload.rise_s),
            workload.random_phase,
            sizes,
        )
    if isinstance(workload, RenewalWorkloadSettings):
        mix = RequestMix(_mix(workload, calibration), sizes)
        return RenewalWorkload(
            workload.rate_rps * rate_scale, workload.cv, GapLaw(workload.law), mix
        )
    return _markov_modulated(workload, names, rate_scale, sizes)


def _markov_modulated(
    workload: MarkovModulatedWorkloadSettings,
    names: tuple[str, ...],
    rate_scale: float,
    sizes: ClassSizes,
) -> MarkovModulatedWorkload:
    phases, order = workload.phases, list(workload.phases)
    return MarkovModulatedWorkload(
        tuple(tuple(phases[p].rate_rps[name] * rate_scale for name in names) for p in order),
        tuple(phases[p].mean_phase_s for p in order),
        tuple(tuple(phases[p].jump_probability.get(other, 0.0) for other in order) for p in order),
        None if workload.first_phase is None else order.index(workload.first_phase),
        sizes,
    )


def _mix(workload: RenewalWorkloadSettings, calibration: Calibration) -> tuple[float, ...]:
    """The shares `[C]` of the classes, as given or as in the training split."""
    if workload.mix:
        return tuple(workload.mix[name] for name in calibration.class_names)
    rates_rps = np.array([fit.arrival_rate_rps for fit in calibration.arrivals[TRAIN]])
    return tuple((rates_rps / rates_rps.sum()).tolist())


def _class_sizes(
    sizes: dict[str, SizeSettings], calibration: Calibration, run: LoggedRun
) -> ClassSizes:
    """The size distribution of each class `[C]`; none where all sizes are 1."""
    if not sizes:
        return ()
    logged = split_arrivals(run, calibration, TRAIN)
    return tuple(
        RequestSizes(_distribution(sizes[name], logged.size[logged.request_class == number], name))
        for number, name in enumerate(calibration.class_names)
    )


def _distribution(settings: SizeSettings, logged: np.ndarray, name: str) -> Distribution:
    """What the settings say; `logged [R]` are the sizes of the class in training."""
    if isinstance(settings, LoggedSizeSettings):
        if len(logged) == 0:
            raise ValueError(f"workload.sizes.{name} = 'logged': the training split has none")
        values, counts = np.unique(logged, return_counts=True)
        return Empirical(tuple(values.tolist()), tuple(counts.astype(float).tolist()))
    if isinstance(settings, ConstantSizeSettings):
        return Constant(settings.value)
    if isinstance(settings, LognormalSizeSettings):
        return Lognormal(settings.mean, settings.cv)
    if isinstance(settings, EmpiricalSizeSettings):
        return Empirical(settings.values, settings.counts)
    return Quantiles(settings.levels, settings.values)
