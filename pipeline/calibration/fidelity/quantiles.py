"""Quantiles of logged against simulated times, for a picture."""

from typing import NamedTuple

import numpy as np

from pipeline.calibration.fidelity.bands import ALL_BANDS, LoadBands
from pipeline.calibration.fidelity.replay import Replay

_LEVELS = (
    *(0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7),
    *(0.75, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998, 0.999),
)
_LEAST_BEYOND = 5  # values on either side of a quantile


class QuantileRow(NamedTuple):
    """One quantile of one time of one class in one load band."""

    metric: str
    request_class: str
    band: str
    level: float
    logged_s: float
    simulated_s: float  # median over the replays
    low_s: float  # the smallest and the largest of any replay
    high_s: float


def quantile_rows(replay: Replay, bands: LoadBands) -> list[QuantileRow]:
    """Quantiles with at least five logged values beyond them, by metric, class and load band."""
    window = bands.window(replay.arrivals.arrival_s)
    rows = []
    for metric, logged_s in replay.logged.times_s.items():
        for number, name in enumerate(replay.class_names):
            for band in (ALL_BANDS, *bands.names):
                chosen = (replay.arrivals.request_class == number) & (window >= 0)
                chosen &= bands.in_band(band)[window]
                figures = _quantiles(logged_s[chosen], replay.simulated.times_s[metric][:, chosen])
                rows += [QuantileRow(metric, name, band, *row) for row in figures]
    return rows


def _quantiles(logged_s: np.ndarray, simulated_s: np.ndarray) -> list[tuple[float, ...]]:
    """Level, logged, simulated, lowest and highest replay, for each level that is told."""
    logged_s = logged_s[~np.isnan(logged_s)]
    replays = [replay_s[~np.isnan(replay_s)] for replay_s in simulated_s]
    replays = [replay_s for replay_s in replays if len(replay_s)]
    beyond = len(logged_s) * np.minimum(_LEVELS, 1.0 - np.array(_LEVELS))
    levels = np.array(_LEVELS)[beyond >= _LEAST_BEYOND]
    if len(levels) == 0 or not replays:
        return []
    told = np.array([np.quantile(replay_s, levels) for replay_s in replays])
    columns = (np.quantile(logged_s, levels), np.median(told, 0), told.min(0), told.max(0))
    return [tuple(map(float, row)) for row in zip(levels, *columns, strict=True)]
