"""From a serving log to `Calibration`: service times, noise, arrivals and splits."""

from typing import Any, NamedTuple

import numpy as np

from pipeline.calibration.arrivals import ArrivalFit, Split, fit_arrivals, split_by_time
from pipeline.calibration.log import LoggedBatches, LoggedRun
from pipeline.calibration.service import ServiceFit, fit_service, held_out_error
from pipeline.calibration.spells import Spells, fit_spells
from pipeline.files import plain

_LEAST_SPREAD = 1e-9  # of log service times: below it there is rounding, and no noise to share


class CalibratedService(NamedTuple):
    """The fit of one replica and class, and its relative error on batches it has not seen."""

    fit: ServiceFit
    pooled: bool  # fitted on all replicas: this one has too few batches or sizes of the class
    held_out_batches: int
    held_out_error: float  # mean absolute relative error; NaN without held-out batches
    held_out_bias: float  # mean signed relative error


class Calibration(NamedTuple):
    """What the simulator takes from a log. K replicas, C request classes."""

    class_names: tuple[str, ...]
    duration_s: float
    splits: dict[str, Split]
    service: list[list[CalibratedService]]  # [K][C]
    spells: Spells  # of the noise
    arrivals: dict[str, list[ArrivalFit]]  # by split, [C]
    system: dict[str, Any]  # system.json of the log


def calibrate(run: LoggedRun, shares: dict[str, float], min_batches: int) -> Calibration:
    """Fits the first split of `shares`; the held-out error is that of the batches after it.

    Raises ValueError where a class has fewer than `min_batches` batches in that split, or batches
    of one size only.
    """
    splits = split_by_time(run.duration_s, shares)
    train_end_s = next(iter(splits.values())).end_s
    names = tuple(run.system["request_classes"])
    by_class = []
    for number, name in enumerate(names):
        batches = _chosen(run.batches, run.batches.request_class == number)
        train = _chosen(batches, batches.dispatch_s < train_end_s)
        held_out = _chosen(batches, batches.dispatch_s >= train_end_s)
        _check_batches(name, train, min_batches)
        by_class.append(
            [
                _fit_replica(train, held_out, replica, min_batches)
                for replica in range(int(run.system["replicas"]))
            ]
        )
    service = [list(cells) for cells in zip(*by_class, strict=True)]
    arrivals = {
        split: [
            fit_arrivals(run.arrivals.window(start_s, end_s), number, end_s - start_s)
            for number in range(len(names))
        ]
        for split, (start_s, end_s) in splits.items()
    }
    train = _chosen(run.batches, run.batches.dispatch_s < train_end_s)
    spells = fit_spells(train.dispatch_s, _residuals(train, service))
    return Calibration(names, run.duration_s, splits, service, spells, arrivals, run.system)


def _residuals(batches: LoggedBatches, service: list[list[CalibratedService]]) -> np.ndarray:
    """Log of measured over expected service time, standardized by replica and class."""
    residual = np.zeros(len(batches.service_s))
    for replica, cells in enumerate(service):
        for request_class, cell in enumerate(cells):
            of_replica = np.isin(batches.replica, (replica, -1))  # -1: the log does not say
            rows = of_replica & (batches.request_class == request_class)
            if rows.sum() > 1:
                expected_s = cell.fit.expected_s(batches.total_size[rows])
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


def _check_batches(name: str, train: LoggedBatches, min_batches: int) -> None:
    """Raises ValueError where the batches of a class say too little."""
    if len(train.service_s) < min_batches:
        raise ValueError(
            f"calibration.min_batches = {min_batches}: class {name!r} has "
            f"{len(train.service_s)} batches in the training split, too few to calibrate"
        )
    if _sizes(train) < 2:
        raise ValueError(
            f"class {name!r}: all {len(train.service_s)} batches in the training split have size "
            f"{train.total_size[0]:g}; overhead and marginal cost need at least two sizes"
        )


def _fit_replica(
    train: LoggedBatches, held_out: LoggedBatches, replica: int, min_batches: int
) -> CalibratedService:
    """The fit of a replica to the batches of one class."""
    own = _chosen(train, train.replica == replica)
    pooled = len(own.service_s) < min_batches or _sizes(own) < 2
    basis = train if pooled else own
    fit = fit_service(basis.total_size, basis.service_s)
    unseen = held_out if pooled else _chosen(held_out, held_out.replica == replica)
    error, bias = held_out_error(fit, unseen.total_size, unseen.service_s)
    return CalibratedService(fit, pooled, len(unseen.service_s), error, bias)


def describe_service(calibration: Calibration) -> list[str]:
    """A line on spells, and one for each replica and class: `replica 0 fast: L = 3.10 ms + ...`."""
    spells = calibration.spells
    shared = f"slow spells: {spells.share:.0%} of the noise is shared by batches within about "
    return [
        f"{shared}{spells.time_s:.2f} s",
        *(
            f"replica {replica} {name}: {_described(cell)}"
            for replica, cells in enumerate(calibration.service)
            for name, cell in zip(calibration.class_names, cells, strict=True)
        ),
    ]


def _described(cell: CalibratedService) -> str:
    fit, error = cell.fit, "unknown, no batch held out"
    if cell.held_out_batches:
        error = f"{cell.held_out_error:.1%}"
    return (
        f"L = {fit.alpha_s * 1e3:.2f} ms + {fit.beta_s * 1e3:.3f} ms * b, CV {fit.noise_cv:.3f}, "
        f"held-out error {error}"
    )


def to_json(calibration: Calibration) -> dict[str, Any]:
    """The calibration as plain values, NaN as null; `from_json` is its inverse."""
    values: dict[str, Any] = plain(
        {
            "request_classes": calibration.class_names,
            "duration_s": calibration.duration_s,
            "splits": calibration.splits,
            "service": [[_service_to_json(cell) for cell in row] for row in calibration.service],
            "spells": calibration.spells,
            "arrivals": calibration.arrivals,
            "system": calibration.system,
        }
    )
    return values


def _service_to_json(cell: CalibratedService) -> dict[str, Any]:
    values = cell._asdict()
    return {**values.pop("fit")._asdict(), **values}


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def from_json(values: dict[str, Any]) -> Calibration:
    """The calibration that `to_json` wrote."""
    return Calibration(
        tuple(values["request_classes"]),
        values["duration_s"],
        {name: Split(**split) for name, split in values["splits"].items()},
        [[_service_from_json(cell) for cell in row] for row in values["service"]],
        Spells(**values["spells"]),
        {
            split: [
                ArrivalFit(fit["arrival_rate_rps"], _number(fit["interarrival_cv"])) for fit in fits
            ]
            for split, fits in values["arrivals"].items()
        },
        values["system"],
    )


def _service_from_json(cell: dict[str, Any]) -> CalibratedService:
    return CalibratedService(
        ServiceFit(*(cell[field] for field in ServiceFit._fields)),
        cell["pooled"],
        cell["held_out_batches"],
        _number(cell["held_out_error"]),
        _number(cell["held_out_bias"]),
    )
