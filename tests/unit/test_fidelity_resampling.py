"""Statistics of resampled logs, and the blocks and replays that a resample holds."""

import numpy as np
import pytest

from pipeline.calibration.fidelity.resampling import (
    Resamples,
    Sample,
    draw_resamples,
    of_drawn_replay,
)

NAN = float("nan")


def test_statistics_are_those_of_the_values_repeated_as_often_as_their_window_is_drawn() -> None:
    generator = np.random.default_rng(1)
    value, window = generator.exponential(1.0, 301), generator.integers(0, 7, 301)
    value[::50] = NAN  # shed
    weight = generator.integers(0, 4, (5, 7))
    found = Sample.of(value, window).statistics(weight)
    for row, drawn in zip(found, weight, strict=True):
        repeated = np.repeat(value, drawn[window])
        repeated = repeated[~np.isnan(repeated)]
        assert row[0] == pytest.approx(repeated.mean())
        assert row[1:] == pytest.approx(np.percentile(repeated, [50, 95, 99]))


def test_a_resample_without_a_value_has_no_statistics() -> None:
    sample = Sample.of(np.array([1.0, 2.0]), np.array([0, 0]))
    found = sample.statistics(np.array([[0, 3], [1, 0]]))
    assert np.isnan(found[0]).all()
    assert found[1, 0] == pytest.approx(1.5)
    assert np.isnan(Sample.of(np.array([NAN]), np.array([0])).statistics(np.ones((1, 2)))).all()


def test_each_resample_takes_the_values_of_its_own_replay() -> None:
    window = np.array([0, 1])
    replays = [Sample.of(np.array([1.0, 3.0]), window), Sample.of(np.array([10.0, 30.0]), window)]
    weight = np.array([[1, 1], [2, 0], [0, 2]])
    found = of_drawn_replay(replays, Resamples(weight, np.array([1, 0, 1]), 1))
    assert found[:, 0] == pytest.approx([20.0, 1.0, 30.0])


@pytest.mark.parametrize(
    ("response_s", "windows", "expected_s"),
    [
        (0.1, 72, 10.0),
        (11.0, 72, 25.0),  # two median responses, in whole windows
        (11.0, 9, 15.0),  # a third of the log at most
        (0.1, 2, 5.0),
        (NAN, 72, 10.0),
    ],
)
def test_a_block_is_10_s_or_two_responses_and_at_most_a_third_of_the_log(
    response_s: float, windows: int, expected_s: float
) -> None:
    generator = np.random.default_rng(3)
    found = draw_resamples(windows, np.full(5, response_s), 4, 50, generator)
    assert found.block_s == expected_s
    assert found.weight.shape == (50, windows)
    # As many whole blocks as the log is long, rounded up.
    assert (found.weight.sum(1) == -(-windows // found.block_windows) * found.block_windows).all()
    assert set(found.replay) == {0, 1, 2, 3}


def test_an_interval_needs_two_blocks_and_half_of_the_resamples() -> None:
    resamples = Resamples(np.ones((4, 6)), np.zeros(4, int), 2)
    error = np.array([0.1, 0.2, 0.3, 0.4])
    assert np.isnan(resamples.bounds(error, 2, 0.95).low)
    assert resamples.bounds(error, 3, 0.95).low >= 0.1
    assert np.isnan(resamples.bounds(np.array([0.1, NAN, NAN, NAN]), 6, 0.95).low)
