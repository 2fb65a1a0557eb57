"""Arrival instants of generated traffic."""

import numpy as np


def poisson_instants(
    rate_rps: float, start_s: float, end_s: float, generator: np.random.Generator
) -> np.ndarray:
    """Ascending instants in [start_s, end_s) of a Poisson process.

    Given their number, the instants of a Poisson process are independent and uniform.
    """
    count = generator.poisson(rate_rps * (end_s - start_s))
    return np.sort(generator.uniform(start_s, end_s, count))


def square_phases(
    low_s: float, high_s: float, offset_s: float, horizon_s: float
) -> list[tuple[float, float, bool]]:
    """Phases (start, end, high) that cover [0, horizon_s), the cycle entered `offset_s` late.

    A cycle is low for `low_s`, then high for `high_s`.
    """
    phases = []
    start_s = -offset_s
    while start_s < horizon_s:
        for length_s, high in ((low_s, False), (high_s, True)):
            end_s = start_s + length_s
            if end_s > 0.0 and start_s < horizon_s:
                phases.append((max(start_s, 0.0), min(end_s, horizon_s), high))
            start_s = end_s
    return phases
