"""Logged against simulated, by class and load band: times, throughput and batch sizes."""

from typing import NamedTuple

import numpy as np

from pipeline.calibration.fidelity.bands import ALL_BANDS, LoadBands
from pipeline.calibration.fidelity.replay import Outcome, Replay
from pipeline.calibration.fidelity.resampling import (
    STATISTICS,
    Resamples,
    Sample,
    of_drawn_replay,
)

THROUGHPUT, BATCH_SIZE = "throughput_rps", "batch_size"
DISTANCE = "distance"


class FidelityRow(NamedTuple):
    """One statistic of one class in one load band. NaN: not known."""

    metric: str  # response_s, ttft_s, tpot_s, throughput_rps, batch_size
    request_class: str
    band: str
    statistic: str  # mean, p50, p95, p99; distance of batch sizes
    requests: int  # of the log that it rests on
    logged: float
    simulated: float  # times: the median over the replays
    error: float  # simulated / logged - 1; for a distance the distance itself
    low: float  # 95 % interval of the error
    high: float


class FidelityRules(NamedTuple):
    """How a log is compared with its replays."""

    bands: tuple[float, ...] = (0.7, 1.0)  # edges, of offered load
    resamples: int = 400
    confidence: float = 0.95


class _Part(NamedTuple):
    """One class in one load band."""

    request_class: str
    band: str
    of_class: np.ndarray  # [R] bool
    in_band: np.ndarray  # [W] bool
    window: np.ndarray  # [R] in which each request arrived
    chosen: np.ndarray  # [R] bool: of the class, and arrived in a window of the band

    def row(self, metric: str, statistic: str, requests: int, *figures: float) -> FidelityRow:
        told = (metric, self.request_class, self.band, statistic, requests)
        return FidelityRow(*told, *(float(figure) for figure in figures))


def fidelity_rows(
    replay: Replay, bands: LoadBands, rules: FidelityRules, resamples: Resamples
) -> list[FidelityRow]:
    """Rows of every metric by class and load band, band `all` first.

    Times are of the requests that arrive in the windows of the band. The error's interval covers
    the chance in the log and in a single replay: each resample holds blocks of windows of the log,
    and of a replay drawn at random the same ones. Band `all` has a row even where the log has no
    answer of a class; the others have none then.
    """
    window = bands.window(replay.arrivals.arrival_s)
    rows = []
    for number, name in enumerate(replay.class_names):
        of_class = replay.arrivals.request_class == number
        for band in (ALL_BANDS, *bands.names):
            in_band = bands.in_band(band)
            chosen = of_class & (window >= 0) & in_band[window]
            part = _Part(name, band, of_class, in_band, window, chosen)
            if band != ALL_BANDS and np.isnan(replay.logged.departure_s[chosen]).all():
                continue
            for metric in replay.logged.times_s:
                rows += _time_rows(replay, metric, part, rules, resamples)
            rows.append(_throughput_row(replay, bands, part, rules, resamples))
            if replay.logged.batch_size is not None and replay.simulated.batch_size is not None:
                rows += _batch_rows(replay, part, rules, resamples)
    return rows


def _time_rows(
    replay: Replay,
    metric: str,
    part: _Part,
    rules: FidelityRules,
    resamples: Resamples,
) -> list[FidelityRow]:
    window, chosen = part.window[part.chosen], part.chosen
    logged = Sample.of(replay.logged.times_s[metric][chosen], window)
    simulated = [Sample.of(times_s[chosen], window) for times_s in replay.simulated.times_s[metric]]
    once = np.ones((1, resamples.weight.shape[1]))
    of_log = logged.statistics(once)[0]
    of_replays = np.median([sample.statistics(once)[0] for sample in simulated], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = of_replays / of_log - 1.0
        drawn = of_drawn_replay(simulated, resamples) / logged.statistics(resamples.weight) - 1.0
    windows = len(np.unique(logged.window))
    return [
        part.row(
            metric,
            statistic,
            len(logged.value),
            of_log[n],
            of_replays[n],
            error[n],
            *resamples.bounds(drawn[:, n], windows, rules.confidence),
        )
        for n, statistic in enumerate(STATISTICS)
    ]


def _throughput_row(
    replay: Replay, bands: LoadBands, part: _Part, rules: FidelityRules, resamples: Resamples
) -> FidelityRow:
    """Departures per second of the time of the band, whenever the requests arrived."""

    def departures(outcome: Outcome) -> np.ndarray:
        """`[.., W]` by window."""
        window = bands.window(outcome.departure_s[..., part.of_class])
        count = len(part.in_band)
        rows = [np.bincount(row[row >= 0], minlength=count) for row in np.atleast_2d(window)]
        return np.asarray(rows) * part.in_band

    time_s = bands.window_s * part.in_band
    logged, simulated = departures(replay.logged)[0], departures(replay.simulated)
    with np.errstate(divide="ignore", invalid="ignore"):
        of_log, of_replays = logged.sum() / time_s.sum(), simulated.sum(1) / time_s.sum()
        chosen = (resamples.weight * simulated[resamples.replay]).sum(1)
        drawn = chosen / (resamples.weight @ logged) - 1.0
        told = float(np.median(of_replays))
        error = told / of_log - 1.0
    bounds = resamples.bounds(drawn, int(part.in_band.sum()), rules.confidence)
    return part.row(THROUGHPUT, "mean", int(logged.sum()), of_log, told, error, *bounds)


def _batch_rows(
    replay: Replay,
    part: _Part,
    rules: FidelityRules,
    resamples: Resamples,
) -> list[FidelityRow]:
    """Mean batch size, and the total variation distance between the shares of batches by size.

    A request in a batch of b stands for 1/b of it; so a batch is of the bands that its requests
    arrive in. A distance is 0.5 sum |share - share|; that of two samples is above 0 by chance, so
    its interval is the basic one, `2 distance - resamples`, between 0 and 1.
    """
    logged_size, simulated_size = replay.logged.batch_size, replay.simulated.batch_size
    if logged_size is None or simulated_size is None:
        raise RuntimeError("batch sizes are not known")
    window, chosen = part.window[part.chosen], part.chosen
    sizes = int(max(logged_size.max(initial=0), simulated_size.max(initial=0))) + 1
    count = len(part.in_band)
    logged = _batches(logged_size[chosen], window, count, sizes)
    simulated = np.array([_batches(s[chosen], window, count, sizes) for s in simulated_size])
    of_log, of_replays = logged.sum(0), simulated.sum((0, 1))
    drawn_log = resamples.weight @ logged
    drawn = np.empty_like(drawn_log)
    for number, by_window in enumerate(simulated):
        rows = resamples.replay == number
        drawn[rows] = resamples.weight[rows] @ by_window
    with np.errstate(divide="ignore", invalid="ignore"):
        mean, told = float(_mean_size(of_log)), float(_mean_size(of_replays))
        of_mean = _mean_size(drawn) / _mean_size(drawn_log) - 1.0
        distance = float(_distance(of_log, of_replays))
        of_distance = np.clip(2.0 * distance - _distance(drawn_log, drawn), 0.0, 1.0)
    windows = len(np.unique(window))
    requests = int((logged_size[chosen] > 0).sum())
    bounds = resamples.bounds(of_mean, windows, rules.confidence)
    apart = resamples.bounds(of_distance, windows, rules.confidence)
    nan = float("nan")
    return [
        part.row(BATCH_SIZE, "mean", requests, mean, told, told / mean - 1.0, *bounds),
        part.row(BATCH_SIZE, DISTANCE, requests, nan, nan, distance, *apart),
    ]


def _batches(size: np.ndarray, window: np.ndarray, windows: int, sizes: int) -> np.ndarray:
    """How many batches of each size `[W, sizes]` the requests `[n]` make up."""
    inside = size > 0
    place = window[inside] * sizes + size[inside]
    return np.bincount(place, 1.0 / size[inside], windows * sizes).reshape(windows, sizes)


def _mean_size(batches: np.ndarray) -> np.ndarray:
    """Of counts `[.., sizes]`."""
    return np.asarray(batches @ np.arange(batches.shape[-1]) / batches.sum(-1))


def _distance(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Total variation between shares of counts `[.., sizes]`."""
    shares = [counts / counts.sum(-1, keepdims=True) for counts in (first, second)]
    return np.asarray(0.5 * np.abs(shares[0] - shares[1]).sum(-1))
