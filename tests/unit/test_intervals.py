"""Bootstrap intervals: coverage, degenerate cases, and what a window is."""

import numpy as np
import pytest
from scipy.stats import norm

from pipeline.validation.intervals import expanded_tail, mean_interval

REPETITIONS = 300


def generator() -> np.random.Generator:
    return np.random.default_rng(4)


def covered(windows: int, confidence: float, alternative: str) -> float:
    """The share of intervals that hold the known mean 3 of normal window means."""
    draws = generator()
    held = 0
    for _ in range(REPETITIONS):
        values = draws.normal(3.0, 2.0, windows)
        found = mean_interval(values, np.arange(windows), confidence, 500, draws, alternative)
        held += found.low <= 3.0 <= found.high
    return held / REPETITIONS


def test_95_percent_intervals_cover_a_known_mean_in_about_95_percent_of_300_repetitions() -> None:
    standard_error = np.sqrt(0.95 * 0.05 / REPETITIONS)
    assert abs(covered(18, 0.95, "two-sided") - 0.95) < 3 * standard_error


@pytest.mark.slow
@pytest.mark.parametrize(("confidence", "alternative"), [(0.95, "two-sided"), (0.95, "greater")])
@pytest.mark.parametrize("windows", [8, 40])
def test_intervals_cover_a_known_mean_with_few_windows_too(
    windows: int, confidence: float, alternative: str
) -> None:
    # Not expanded, eight windows cover some 89 %: five standard errors below.
    standard_error = np.sqrt(confidence * (1 - confidence) / REPETITIONS)
    assert covered(windows, confidence, alternative) > confidence - 3 * standard_error


def test_the_expansion_undoes_what_few_windows_do_to_the_tails() -> None:
    # n = 2: Student's t with one degree of freedom is Cauchy, its quartile is -1.
    assert expanded_tail(0.25, 2) == pytest.approx(norm.cdf(-np.sqrt(2.0)))
    assert expanded_tail(0.025, 18) < 0.025
    assert expanded_tail(0.025, 100_000) == pytest.approx(0.025, rel=1e-3)


def test_a_one_sided_bound_at_97_5_percent_is_that_of_the_95_percent_interval() -> None:
    values = generator().exponential(1.0, 20)
    both = mean_interval(values, np.arange(20), 0.95, 500, generator())
    one = mean_interval(values, np.arange(20), 0.975, 500, generator(), "greater")
    assert one.low == pytest.approx(both.low)
    assert one.mean == both.mean
    assert one.high == np.inf


def test_more_confidence_lowers_the_one_sided_bound() -> None:
    values = generator().normal(1.0, 1.0, 20)
    lows = [
        mean_interval(values, np.arange(20), level, 500, generator(), "greater").low
        for level in (0.4, 0.9, 0.95, 0.99)
    ]
    assert lows == sorted(lows, reverse=True)
    assert lows[0] > values.mean()  # below one half the bound is above the mean


def test_identical_policies_give_a_zero_width_interval_at_0() -> None:
    reward = generator().normal(5.0, 1.0, 12)
    found = mean_interval(reward - reward, np.arange(12), 0.95, 100, generator())
    assert found == (0.0, 0.0, 0.0)


def test_a_gain_that_is_the_same_everywhere_is_sure() -> None:
    found = mean_interval(np.full(12, 0.5), np.arange(12), 0.95, 100, generator(), "greater")
    assert found == (0.5, 0.5, np.inf)


def test_showing_the_same_windows_again_does_not_narrow_the_interval() -> None:
    values, window = generator().normal(0.0, 1.0, 10), np.arange(10)
    once = mean_interval(values, window, 0.95, 500, generator())
    eight_times = mean_interval(np.tile(values, 8), np.tile(window, 8), 0.95, 500, generator())
    assert eight_times == pytest.approx(once)


def test_equal_generators_give_equal_intervals() -> None:
    values = generator().normal(0.0, 1.0, 10)
    first, second = (mean_interval(values, np.arange(10), 0.95, 200, generator()) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("values", "window", "message"),
    [
        ([1.0, np.nan, 2.0], [0, 1, 2], "values: must be finite"),
        ([1.0, 2.0], [0, 0], "window: an interval needs at least two windows"),
        ([1.0, 2.0, 3.0], [0, 0, 1], r"every window must be shown equally often, not \[2, 1\]"),
    ],
)
def test_what_tells_nothing_of_the_mean_is_refused(
    values: list[float], window: list[int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        mean_interval(np.array(values), np.array(window), 0.95, 100, generator())


def test_two_windows_give_an_interval_between_them() -> None:
    found = mean_interval(np.array([1.0, 2.0]), np.arange(2), 0.95, 200, generator())
    assert found == (1.5, 1.0, 2.0)
