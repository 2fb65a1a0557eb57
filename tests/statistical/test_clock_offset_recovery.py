"""A known offset lies in the interval that is stated for it, and drift is told from noise."""

from typing import Any

import numpy as np
import pytest

from pipeline.sources.clock_offset import Offset, estimate_offset
from tests.unit.clock_pairs import simulated

OFFSET_US, SEEDS = 3e6, 100
pytestmark = pytest.mark.slow


def found(**how: Any) -> list[Offset]:
    return [estimate_offset(simulated(seed, OFFSET_US, **how)) for seed in range(SEEDS)]


def covered(offsets: list[Offset], drift_ppm: float = 0.0) -> int:
    """How many intervals hold the true offset at the instant that they are stated for."""
    return sum(
        abs(offset.offset_us - (OFFSET_US + (offset.at_us - 5e8) * drift_ppm * 1e-6))
        <= offset.uncertainty_us
        for offset in offsets
    )


@pytest.mark.parametrize("count", [100, 2000])
@pytest.mark.parametrize("wrong", [0.0, 0.02])
def test_the_true_offset_is_in_the_interval(count, wrong) -> None:
    offsets = found(count=count, wrong=wrong)
    assert covered(offsets) >= 90
    assert all(offset.uncertainty_us < 400.0 for offset in offsets)  # 200 and what few pairs add
    # No drift is seen where there is none.
    assert sum(offset.drift_ppm != 0.0 for offset in offsets) <= 5


@pytest.mark.parametrize("drift_ppm", [2.0, 50.0])
def test_a_drift_is_detected_and_its_size_is_within_four_standard_errors(drift_ppm) -> None:
    offsets = found(drift_ppm=drift_ppm, wrong=0.02)
    assert all(offset.drift_ppm != 0.0 for offset in offsets)
    errors = np.array(
        [(offset.drift_ppm - drift_ppm) / offset.drift_error_ppm for offset in offsets]
    )
    assert np.count_nonzero(np.abs(errors) < 4.0) >= 90
    assert covered(offsets, drift_ppm) >= 90
