"""Noise that batches near in time share: how it is drawn, and how it is found in a log."""

import numpy as np
import pytest

from pipeline.calibration.spells import Spells, fit_spells
from simulator.noise import draw_noise

ARRIVAL_S = np.arange(200_000) * 0.01


def noise(share: float, time_s: float) -> np.ndarray:
    return draw_noise(ARRIVAL_S, share, time_s, np.random.default_rng(6))


@pytest.mark.parametrize(("share", "time_s"), [(0.0, 1.0), (0.4, 0.5), (0.9, 0.05)])
def test_noise_is_standard_normal_whatever_its_spells(share: float, time_s: float) -> None:
    z = noise(share, time_s)
    # Correlation leaves about span / (2 time) independent values of the spell.
    error = np.sqrt(share * 2 * time_s / 2000.0 + 1 / len(z))
    assert abs(z.mean()) < 4 * error
    assert abs(z.std() - 1.0) < 4 * error


def test_correlation_at_a_lag_is_share_times_exponential_decay() -> None:
    z = noise(0.4, 0.5)
    for steps in (1, 20, 50):
        found = float((z[steps:] * z[:-steps]).mean())
        assert found == pytest.approx(0.4 * np.exp(-steps * 0.01 / 0.5), abs=0.03)


def test_without_spells_the_draw_is_the_generator_s_own() -> None:
    expected = np.random.default_rng(6).standard_normal(len(ARRIVAL_S))
    np.testing.assert_array_equal(noise(0.0, 1.0), expected)


def test_fit_recovers_share_and_time_of_spells() -> None:
    spells = fit_spells(ARRIVAL_S, noise(0.4, 0.5))
    assert spells.share == pytest.approx(0.4, abs=0.04)
    assert spells.time_s == pytest.approx(0.5, rel=0.25)


def test_fit_finds_next_to_nothing_in_independent_noise() -> None:
    assert fit_spells(ARRIVAL_S, noise(0.0, 1.0)).share < 0.02


def test_too_few_batches_tell_nothing_of_spells() -> None:
    assert fit_spells(ARRIVAL_S[:20], noise(0.9, 1.0)[:20]) == Spells.none()
