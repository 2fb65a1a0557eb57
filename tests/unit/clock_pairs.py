"""Requests in the logs of a gateway and of an engine whose clock is known to be another."""

import numpy as np

from pipeline.sources.clock_offset import Pairs

MANY = 2000


def pairs(*spans: tuple[float, float, float, float]) -> Pairs:
    """(gateway arrival, gateway departure, engine arrival, engine departure) of each pair, us."""
    return Pairs(*np.array(spans, dtype=float).T)


def simulated(
    seed: int,
    offset_us: float,
    drift_ppm: float = 0.0,
    count: int = MANY,
    wrong: float = 0.0,
) -> Pairs:
    """Pairs over 1000 s with delays of 200 us and more both ways; a share `wrong` fit nothing.

    The engine's clock shows the true instant less the offset and less the drift since 500 s.
    """
    generator = np.random.default_rng(seed)
    arrival = np.sort(generator.uniform(0, 1e9, count))
    there, service, back = (
        low + generator.exponential(mean, count)
        for low, mean in ((200, 800), (5_000, 20_000), (200, 600))
    )
    starts, ends = arrival + there, arrival + there + service

    def engine(instant: np.ndarray) -> np.ndarray:
        return (instant - offset_us + 5e8 * drift_ppm * 1e-6) / (1 + drift_ppm * 1e-6)

    strange = generator.random(count) < wrong
    shift = np.where(strange, generator.uniform(-1e8, 1e8, count), 0.0)
    return Pairs(arrival, ends + back, engine(starts) + shift, engine(ends) + shift)
