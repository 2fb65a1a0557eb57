"""The service of each replica and class: line or table, noise, intervals, held-out error."""

from typing import NamedTuple

import numpy as np

from pipeline.calibration.latency_tables import LatencyChoice, choose_latency
from pipeline.calibration.log import LoggedBatches, LoggedRun
from pipeline.calibration.service import (
    ServiceFit,
    ServiceIntervals,
    fit_service_with_intervals,
    held_out_error,
)
from pipeline.calibration.service_noise import NoiseFit, fit_noise
from pipeline.calibration.spells import Spells, fit_noise_path, fit_spells
from simulator.noise import NoisePath

_LEAST_SPREAD = 1e-9  # of log service times: below it there is rounding, and no noise to share


class CalibratedService(NamedTuple):
    """The fit of one replica and class, and its relative error on batches it has not seen."""

    fit: ServiceFit
    pooled: bool  # fitted on all replicas: this one has too few batches or sizes of the class
    held_out_batches: int
    held_out_error: float  # mean absolute relative error; NaN without held-out batches
    held_out_bias: float  # mean signed relative error
    intervals: ServiceIntervals | None = None  # None: one size alone, or too few batches
    latency: LatencyChoice | None = None  # None: the line
    noise: NoiseFit | None = None  # None: lognormal

    def expected_s(self, total_size: np.ndarray) -> np.ndarray:
        """Expected batch latency in s of the line or the table, same shape as `total_size`."""
        return (self.latency or self.fit).expected_s(total_size)


def calibrate_replicas(
    run: LoggedRun, train_end_s: float, min_batches: int, generator: np.random.Generator
) -> list[list[CalibratedService]]:
    """The fits `[K][C]` to the batches before `train_end_s`.

    Raises ValueError where a class has fewer than `min_batches` of them, or all of one size though
    the system batches.
    """
    by_class = []
    single = int(run.system.get("max_batch_size") or 0) == 1
    for number, name in enumerate(run.system["request_classes"]):
        batches = _chosen(run.batches, run.batches.request_class == number)
        train = _chosen(batches, batches.dispatch_s < train_end_s)
        held_out = _chosen(batches, batches.dispatch_s >= train_end_s)
        _check_batches(name, train, min_batches, single)
        replicas = int(run.system["replicas"])
        by_class.append(_fit_class(train, held_out, replicas, min_batches, generator))
    return [list(cells) for cells in zip(*by_class, strict=True)]


def spells_of_noise(
    batches: LoggedBatches, service: list[list[CalibratedService]], train_end_s: float
) -> Spells:
    """How much of the noise before `train_end_s` is shared by batches near in time."""
    train = _chosen(batches, batches.dispatch_s < train_end_s)
    return fit_spells(train.dispatch_s, _residuals(train, service))


def path_of_noise(
    batches: LoggedBatches, service: list[list[CalibratedService]], train_end_s: float
) -> NoisePath:
    """The noise before `train_end_s` in the order of time; empty where that is short."""
    train = _chosen(batches, batches.dispatch_s < train_end_s)
    train = _chosen(train, train.request_class >= 0)
    return fit_noise_path(train.dispatch_s, _residuals(train, service), _groups(train, service))


def _groups(batches: LoggedBatches, service: list[list[CalibratedService]]) -> np.ndarray:
    """A number `[n]` for each fit: of a replica and class, or of a class (below 0) if pooled."""
    pooled = np.array([[cell.pooled for cell in cells] for cells in service])
    of_class = -1 - batches.request_class
    of_cell = batches.replica * pooled.shape[1] + batches.request_class
    shared = (batches.replica < 0) | pooled[batches.replica, batches.request_class]
    return np.where(shared, of_class, of_cell)


def _residuals(batches: LoggedBatches, service: list[list[CalibratedService]]) -> np.ndarray:
    """Log of measured over expected service time, standardized by replica and class."""
    residual = np.zeros(len(batches.service_s))
    for replica, cells in enumerate(service):
        for request_class, cell in enumerate(cells):
            of_replica = np.isin(batches.replica, (replica, -1))  # -1: the log does not say
            rows = of_replica & (batches.request_class == request_class)
            if rows.sum() > 1:
                expected_s = cell.expected_s(batches.total_size[rows])
                ratio = np.log(batches.service_s[rows] / expected_s)
                spread = ratio.std()
                if spread > _LEAST_SPREAD:
                    residual[rows] = (ratio - ratio.mean()) / spread
    return residual


def _chosen(batches: LoggedBatches, rows: np.ndarray) -> LoggedBatches:
    return LoggedBatches(*(column[rows] for column in batches))


def _sizes(batches: LoggedBatches) -> int:
    """How many different total sizes there are: with one, alpha and beta cannot be told apart."""
    return len(np.unique(batches.total_size))


def _check_batches(name: str, train: LoggedBatches, min_batches: int, single: bool) -> None:
    """Raises ValueError where the batches of a class say too little."""
    if len(train.service_s) < min_batches:
        raise ValueError(
            f"calibration.min_batches = {min_batches}: class {name!r} has "
            f"{len(train.service_s)} batches in the training split, too few to calibrate"
        )
    if _sizes(train) < 2 and not single:
        raise ValueError(
            f"class {name!r}: all {len(train.service_s)} batches in the training split have size "
            f"{train.total_size[0]:g}; overhead and marginal cost need at least two sizes"
        )


def _fit_class(
    train: LoggedBatches,
    held_out: LoggedBatches,
    replicas: int,
    min_batches: int,
    generator: np.random.Generator,
) -> list[CalibratedService]:
    """The fits `[K]` to the batches of one class; replicas that tell too little share one."""
    shared: CalibratedService | None = None
    cells = []
    for replica in range(replicas):
        own = _chosen(train, train.replica == replica)
        if len(own.service_s) < min_batches or (_sizes(own) < 2 and _sizes(train) >= 2):
            shared = shared or _fit(train, held_out, generator)._replace(pooled=True)
            cells.append(shared)
        else:
            unseen = _chosen(held_out, held_out.replica == replica)
            cells.append(_fit(own, unseen, generator))
    return cells


def _fit(
    train: LoggedBatches, unseen: LoggedBatches, generator: np.random.Generator
) -> CalibratedService:
    """The line, the choice between it and a table, the noise, and the error on unseen batches."""
    if _sizes(train) < 2:
        return _of_one_size(train, unseen)
    intervals = fit_service_with_intervals(
        train.total_size, train.service_s, train.dispatch_s, generator
    )
    latency = choose_latency(train, unseen, generator)
    error, bias = held_out_error(latency, unseen.total_size, unseen.service_s)
    noise = fit_noise(
        train.service_s / latency.expected_s(train.total_size),
        unseen.service_s / latency.expected_s(unseen.total_size),
        unseen.dispatch_s,
        generator,
    )
    return CalibratedService(
        intervals.fit, False, len(unseen.service_s), error, bias, intervals, latency, noise
    )


def _of_one_size(train: LoggedBatches, unseen: LoggedBatches) -> CalibratedService:
    """Batches of one request each: all of their latency goes by the request."""
    mean_s = float(train.service_s.mean())
    spread_s = float(train.service_s.std(ddof=min(1, len(train.service_s) - 1)))
    beta_s = mean_s / float(train.total_size[0])
    fit = ServiceFit(0.0, beta_s, spread_s / mean_s, len(train.service_s))
    error, bias = held_out_error(fit, unseen.total_size, unseen.service_s)
    return CalibratedService(fit, False, len(unseen.service_s), error, bias)
