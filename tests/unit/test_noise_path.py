"""Noise that follows the batches of a log: how it is found there, and how it is drawn."""

import dataclasses
import math
import re

import numpy as np
import pytest
from scipy.special import ndtri

from pipeline.calibration.spells import fit_noise_path, fit_spells
from simulator.noise import NO_PATH, NoisePath, draw_noise
from simulator.replica import Replica
from simulator.scenario import RequestClass, Scenario

SCENARIO = Scenario(
    (RequestClass("only", 1.0),), (Replica((0.002,), (0.005,), (0.1,), 8),), (1, 2, 4)
)


def drawn(path: NoisePath, arrival_s: np.ndarray, seed: int = 6) -> np.ndarray:
    return draw_noise(arrival_s, 0.0, 1.0, np.random.default_rng(seed), path)


def fitted(residual: list[float], group: list[int]) -> NoisePath:
    at_s = np.arange(len(residual)) * 0.5
    return fit_noise_path(at_s, np.array(residual), np.array(group), least=2)


def slow_spell_path(batches: int = 1000, first: int = 400, last: int = 500) -> NoisePath:
    """A batch each second; the luck alternates, but one spell is slow throughout."""
    z = np.where(np.arange(batches) % 2 == 0, -0.5, 0.5)
    z[first:last] = 3.0
    return NoisePath(tuple(np.arange(float(batches)).tolist()), tuple(z.tolist()))


def test_path_holds_the_normal_score_of_each_batch_among_its_own_group() -> None:
    # Group 0 has residuals 3, 1, 2: ranks 3, 1, 2 of 3. Group 1 has 70, 50: ranks 2, 1 of 2.
    path = fitted([3.0, 1.0, 70.0, 2.0, 50.0], [0, 0, 1, 0, 1])
    shares = np.array([5 / 6, 1 / 6, 3 / 4, 3 / 6, 1 / 4])
    np.testing.assert_allclose(path.z, ndtri(shares), atol=5e-5)
    assert path.at_s == (0.0, 0.5, 1.0, 1.5, 2.0)


def test_equal_residuals_share_their_middle_score() -> None:
    assert fitted([1.0, 1.0, 1.0], [0, 0, 0]).z == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("at_s", "least"), [([], 2), ([1.0], 0), ([1.0, 2.0, 3.0], 4), ([1.0, 1.0, 1.0], 2)]
)
def test_no_path_from_too_few_batches_or_one_instant(at_s: list[float], least: int) -> None:
    ones = np.ones(len(at_s))
    assert fit_noise_path(np.array(at_s), ones, ones, least) == NO_PATH


def test_a_long_log_is_thinned_to_whole_stretches_that_keep_their_gaps() -> None:
    # 1,000 residuals in turn, every 10 ms: 20 stretches of 1,000 of the 200,000 batches.
    batches = 200_000
    residual = np.arange(batches) % 1000
    path = fit_noise_path(np.arange(batches) * 0.01, residual, np.zeros(batches))
    at_s, z = path.arrays
    assert len(z) == 20_000
    np.testing.assert_allclose(np.diff(at_s), 0.01, atol=2e-6)
    # Within a stretch the next residual follows; each of the 20 holds all of them once.
    np.testing.assert_allclose(z.reshape(20, 1000).mean(axis=1), 0.0, atol=1e-3)
    assert (np.diff(z.reshape(20, 1000), axis=1) > 0).mean() > 0.99


def test_draw_keeps_a_slow_spell_together_and_as_frequent_as_in_the_log() -> None:
    # The spell is 100 s of 1,000: so long and so often it is met, in one piece going around.
    z = drawn(slow_spell_path(), np.arange(0.0, 1000.0, 0.5))
    slow = z == 3.0
    assert slow.mean() == pytest.approx(0.1, abs=0.003)
    # The requests look from instants moved by 1 s, so windows of 10 s tell the edges of a spell:
    # there are two, where the thousand seconds are closed to a ring.
    in_spell = slow.reshape(100, 20).mean(axis=1) > 0.5
    assert np.count_nonzero(in_spell != np.roll(in_spell, 1)) == 2


def deep_window_mean(z: np.ndarray) -> float:
    """The 99th percentile of the means of 20 values in turn: how deep the slow seconds are."""
    return float(np.quantile(z.reshape(-1, 20).mean(axis=1), 0.99))


def test_path_keeps_rare_deep_spells_which_correlation_alone_does_not_tell() -> None:
    # Every 40 s, 2 s are slow by 2.5 standard deviations of the luck, and a batch takes 50 ms.
    batches, generator = 20_000, np.random.default_rng(4)
    at_s = np.arange(batches) * 0.05
    residual = generator.standard_normal(batches) + np.where(at_s % 40.0 < 2.0, 2.5, 0.0)
    path = fit_noise_path(at_s, residual, np.zeros(batches))
    spells = fit_spells(at_s, (residual - residual.mean()) / residual.std())
    logged = deep_window_mean(np.array(path.z))
    resampled = deep_window_mean(drawn(path, at_s))
    smooth = draw_noise(at_s, spells.share, spells.time_s, np.random.default_rng(6))
    # A mean of 20 in a spell varies by some 0.7 / sqrt(20) = 0.16. Of the windows, 5 % lie in a
    # spell, or 2.5 % where they straddle its edges: the 99th percentile is their 80th or 60th,
    # 0.59 * 0.16 = 0.1 apart, with a standard error of about 1.4 * 0.16 / sqrt(25) = 0.045.
    assert resampled == pytest.approx(logged, abs=0.1 + 4 * 0.045)
    assert deep_window_mean(smooth) < 0.75 * logged


def test_episodes_start_at_random_places_of_the_path() -> None:
    path = slow_spell_path()
    first = [drawn(path, np.zeros(1), seed)[0] == 3.0 for seed in range(2000)]
    # A share of 0.1, with a standard error of sqrt(0.1 * 0.9 / 2000).
    assert np.mean(first) == pytest.approx(0.1, abs=4 * math.sqrt(0.09 / 2000))


def test_requests_between_two_batches_do_not_all_share_the_luck_of_one() -> None:
    path = slow_spell_path(first=0, last=0)
    z = drawn(path, np.linspace(0.0, 0.01, 4000))
    # Moved by a normal of one gap, they meet several batches, slower and faster ones.
    assert np.mean(z == 0.5) == pytest.approx(0.5, abs=0.1)
    assert set(z.tolist()) == {-0.5, 0.5}


def test_an_empty_path_changes_no_draw() -> None:
    arrival_s = np.arange(50) * 0.1
    generators = [np.random.default_rng(3) for _ in range(2)]
    before = draw_noise(arrival_s, 0.4, 0.5, generators[0])
    np.testing.assert_array_equal(before, draw_noise(arrival_s, 0.4, 0.5, generators[1], NO_PATH))


@pytest.mark.parametrize(
    ("at_s", "z", "message"),
    [
        ((0.0, 1.0), (0.0,), "length of noise_path.z = 1: needs one for each of the 2 instants"),
        ((0.0,), (0.0,), "noise_path.at_s = (0.0,): needs at least two instants, or none"),
        ((0.0, math.inf), (0.0, 0.0), "noise_path.at_s = inf: must be finite"),
        ((0.0, 1.0), (0.0, math.nan), "noise_path.z = nan: must be finite"),
        ((1.0, 0.0), (0.0, 0.0), "noise_path.at_s = (1.0, 0.0): must ascend"),
        ((1.0, 1.0), (0.0, 0.0), "noise_path.at_s = (1.0, 1.0): must not be one instant alone"),
    ],
)
def test_a_path_that_could_not_be_is_refused(
    at_s: tuple[float, ...], z: tuple[float, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        NoisePath(at_s, z)


def test_a_scenario_has_a_path_or_spells_and_neither_by_default() -> None:
    assert not SCENARIO.noise_path.exists
    path = slow_spell_path()
    assert dataclasses.replace(SCENARIO, noise_path=path).noise_path.exists
    with pytest.raises(ValueError, match=r"spell_share = 0\.4: must be 0: noise_path has"):
        dataclasses.replace(SCENARIO, noise_path=path, spell_share=0.4)
