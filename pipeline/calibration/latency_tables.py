"""A measured table L(b), and whether it or the line is what the simulator should use."""

from typing import NamedTuple

import numpy as np

from pipeline.calibration.bootstrap import Bounds, cut_into_blocks, percentile_bounds
from pipeline.calibration.log import LoggedBatches
from pipeline.calibration.service import (
    LatencyModel,
    ServiceFit,
    check_batches,
    fit_service,
)
from simulator.checks import check
from simulator.replica import LatencyTable

LINE, TABLE = "line", "table"
_MOST_POINTS = 128
_LEAST_HELD_OUT = 50  # batches, for a choice of the table
_TURNS = 4  # in which the sizes of a profile are left out


class MeasuredTable(NamedTuple):
    """Mean batch latency at some total sizes, interpolated between them. P points, ascending."""

    size: tuple[float, ...]  # [P] mean total size of the batches of a point
    latency_s: tuple[float, ...]  # [P] s
    error_s: tuple[float, ...]  # [P] s, standard error as if batches were independent; NaN for one
    batches: tuple[int, ...]  # [P]

    def expected_s(self, total_size: np.ndarray) -> np.ndarray:
        """Expected batch latency in s, same shape as `total_size`, as the simulator interpolates.

        Constant before the first point; beyond the last, along the last segment unless that falls.
        """
        size, latency_s = np.array(self.size), np.array(self.latency_s)
        inside_s = np.interp(total_size, size, latency_s)
        if len(size) == 1:
            return np.asarray(inside_s)
        slope_s = max(0.0, float((latency_s[-1] - latency_s[-2]) / (size[-1] - size[-2])))
        return np.asarray(inside_s + slope_s * np.maximum(total_size - size[-1], 0.0))

    def points(self) -> LatencyTable:
        """The table as a `Replica` takes it."""
        return tuple(zip(self.size, self.latency_s, strict=True))


class LatencyChoice(NamedTuple):
    """The line or the table, and the systematic error of both on what they were not fitted to."""

    kind: str  # `line` or `table`
    line: ServiceFit
    table: MeasuredTable
    line_error: float  # relative, systematic: noise is no part of it; NaN where not known
    table_error: float
    gain: Bounds  # squared error of the line less that of the table; NaN for a profile
    reason: str

    def expected_s(self, total_size: np.ndarray) -> np.ndarray:
        """Expected batch latency in s of what was chosen, same shape as `total_size`."""
        chosen: LatencyModel = self.table if self.kind == TABLE else self.line
        return chosen.expected_s(total_size)


def fit_latency_table(
    total_size: np.ndarray, service_s: np.ndarray, least_batches: int = 30
) -> MeasuredTable:
    """The mean latency by total size; sizes next to each other share a point until it has enough.

    A point has at least `least_batches` batches (all, where there are fewer), and above 128 sizes
    at least 1/128 of them. The last point lies below the largest size where sizes share it.

    Arguments: `total_size [n]`; `service_s [n]` s. Raises ValueError as `fit_service` does.
    """
    check_batches(total_size, service_s)
    return _table_by_point(size_points(total_size, least_batches), total_size, service_s)


def _table_by_point(
    point: np.ndarray, total_size: np.ndarray, service_s: np.ndarray
) -> MeasuredTable:
    batches = np.bincount(point)
    size, mean_s = (np.bincount(point, values) / batches for values in (total_size, service_s))
    squares = np.bincount(point, (service_s - mean_s[point]) ** 2)
    error_s = np.where(batches > 1, np.sqrt(squares / np.maximum(batches - 1, 1) / batches), np.nan)
    return MeasuredTable(*(tuple(column.tolist()) for column in (size, mean_s, error_s, batches)))


def size_points(total_size: np.ndarray, least_batches: int) -> np.ndarray:
    """The number of the point `[n]` that each batch belongs to; points ascend in size."""
    size, place, count = np.unique(total_size, return_inverse=True, return_counts=True)
    least = least_batches
    if len(size) > _MOST_POINTS:
        least = max(least, -(-len(total_size) // _MOST_POINTS))
    point_of_size, point, held = np.zeros(len(size), int), 0, 0
    for number, batches in enumerate(count.tolist()):
        point_of_size[number] = point
        held += batches
        if held >= least:
            point, held = point + 1, 0
    if held > 0:  # too few are left for a point of their own
        point_of_size[point_of_size == point] = max(point - 1, 0)
    return np.asarray(point_of_size[place])


def choose_latency(
    train: LoggedBatches,
    held_out: LoggedBatches,
    generator: np.random.Generator,
    most_error: float = 0.05,
    confidence: float = 0.95,
    resamples: int = 300,
) -> LatencyChoice:
    """The line, unless its systematic error is above `most_error` and the table's surely smaller.

    Both are fitted to `train`. With e the mean of `1 - L / f` over the held-out batches of a point
    of sizes, the systematic error is the root of the mean of e^2 over batches, less what chance
    adds to it, which is what resampling blocks of the held-out time adds once more. Surely: the
    interval of the difference of the squares lies above 0. A shift of all latencies after the
    training split is in both errors, so it alone never chooses the table.

    Raises ValueError as `fit_service` does for `train`.
    """
    line = fit_service(train.total_size, train.service_s)
    table = fit_latency_table(train.total_size, train.service_s)
    nan = float("nan")
    if len(held_out.service_s) < _LEAST_HELD_OUT:
        reason = f"{len(held_out.service_s)} batches held out, too few to choose a table by"
        return LatencyChoice(LINE, line, table, nan, nan, Bounds.unknown(), reason)
    errors = np.stack(
        [
            1.0 - held_out.service_s / model.expected_s(held_out.total_size)
            for model in (line, table)
        ],
        axis=1,
    )
    squares, redrawn, blocks = _squared_errors(held_out, errors, resamples, generator)
    line_error, table_error = np.sqrt(np.maximum(2.0 * squares - redrawn.mean(1), 0.0)).tolist()
    gain = percentile_bounds(redrawn[0] - redrawn[1], confidence, blocks)
    kind, reason = _decide(line_error, table_error, gain, most_error)
    return LatencyChoice(kind, line, table, line_error, table_error, gain, reason)


def _squared_errors(
    held_out: LoggedBatches, errors: np.ndarray, resamples: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, int]:
    """The mean square of the errors' means by size `[2]`, the same redrawn `[2, R]`, and blocks."""
    blocks = cut_into_blocks(held_out.dispatch_s, np.concatenate([errors, errors**2], axis=1))
    point = size_points(held_out.total_size, 30)
    points = int(point.max()) + 1
    times = np.concatenate([np.ones((1, blocks.cells)), blocks.resample(resamples, generator)])
    count = times @ blocks.grouped_sums(point, points, np.ones(len(point)))
    squares = []
    for column in errors.T:
        total = times @ blocks.grouped_sums(point, points, column)
        squares.append((total**2 / np.maximum(count, 1.0)).sum(1) / count.sum(1))
    found = np.stack(squares)
    return found[:, 0], found[:, 1:], blocks.number


def _decide(
    line_error: float, table_error: float, gain: Bounds, most_error: float
) -> tuple[str, str]:
    found = (
        f"systematic held-out error {line_error:.1%} of the line, {table_error:.1%} of the table"
    )
    if not line_error > most_error:
        return LINE, f"{found}: the line fits within {most_error:.0%}"
    if not gain.low > 0.0:
        return LINE, f"{found}: the table is not surely better"
    return TABLE, f"{found}: the line does not fit within {most_error:.0%}"


def fit_profile(
    batch_size: np.ndarray,
    latency_s: np.ndarray,
    deviation_s: np.ndarray | None = None,
    held_out: np.ndarray | None = None,
    most_error: float = 0.05,
) -> LatencyChoice:
    """The line or the table of a profile: mean latencies by batch size, without their counts.

    Both are judged by the mean absolute relative error at sizes left out of the fit, and the chosen
    one is the table where that of the line is at least `most_error`; then both are fitted to all.
    Every size counts the same. The noise is the root mean square of `deviation / latency`, NaN
    without deviations: what the line misses is no noise.

    Arguments: `batch_size [n]`, where a size may be repeated: its rows are averaged; `latency_s`
    and `deviation_s` `[n]` s; `held_out [n]`, True at the rows of sizes to leave out. By default
    every fourth size is left out, in four turns, the first and the last never. Raises ValueError
    for values that are not finite and positive, for fewer than two sizes, and where fewer than two
    are left for the fit.
    """
    check_batches(batch_size, latency_s)
    size, place = np.unique(batch_size, return_inverse=True)
    check(len(size) >= 2, "batch_size", float(size[0]), "a profile needs at least two sizes")
    table = _table_by_point(place, batch_size, latency_s)
    mean_s = np.array(table.latency_s)
    turn = np.arange(len(size)) % _TURNS
    turn[[0, -1]] = -1
    if held_out is not None:
        turn = np.where(np.bincount(place, held_out) > 0, 0, -1)
    errors = [_errors_left_out(size, mean_s, turn == number) for number in range(_TURNS)]
    missed = np.concatenate(errors, axis=1)
    line = fit_service(size, mean_s)._replace(noise_cv=_profile_noise(latency_s, deviation_s))
    if missed.shape[1] == 0:
        reason = "too few sizes to leave any out: the table repeats what was measured"
        nan = float("nan")
        return LatencyChoice(TABLE, line, table, nan, nan, Bounds.unknown(), reason)
    line_error, table_error = missed.mean(1).tolist()
    kind, reason = _decide_profile(line_error, table_error, most_error, missed.shape[1])
    return LatencyChoice(kind, line, table, line_error, table_error, Bounds.unknown(), reason)


def _errors_left_out(size: np.ndarray, mean_s: np.ndarray, left_out: np.ndarray) -> np.ndarray:
    """Absolute relative errors of the line and the table `[2, sizes left out]`."""
    if not left_out.any():
        return np.zeros((2, 0))
    seen = ~left_out
    check(seen.sum() >= 2, "held_out", left_out.tolist(), "must leave two sizes for the fit")
    models = (
        fit_service(size[seen], mean_s[seen]),
        _table_by_point(np.arange(seen.sum()), size[seen], mean_s[seen]),
    )
    missed = [1.0 - mean_s[left_out] / model.expected_s(size[left_out]) for model in models]
    return np.abs(np.stack(missed))


def _profile_noise(latency_s: np.ndarray, deviation_s: np.ndarray | None) -> float:
    if deviation_s is None:
        return float("nan")
    holds = bool(np.isfinite(deviation_s).all() and (deviation_s >= 0).all())
    check(holds, "deviation_s", float(deviation_s.min()), "must be finite, at least 0")
    return float(np.sqrt(np.mean((deviation_s / latency_s) ** 2)))


def _decide_profile(
    line_error: float, table_error: float, most_error: float, left_out: int
) -> tuple[str, str]:
    found = (
        f"mean error at {left_out} sizes left out {line_error:.1%} of the line, "
        f"{table_error:.1%} of the table"
    )
    if line_error < most_error:
        return LINE, f"{found}: the line fits within {most_error:.0%}"
    return TABLE, f"{found}: the line does not fit within {most_error:.0%}"
