"""The measured table L(b): its points, and when it is chosen over the line."""

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from pipeline.calibration.latency_tables import (
    choose_latency,
    fit_latency_table,
    fit_profile,
    size_points,
)
from pipeline.calibration.log import LoggedBatches
from simulator.reference.latency import interpolated_s
from simulator.replica import Replica

TRACES = os.environ.get("TRACES_DIR")
needs_traces = pytest.mark.skipif(TRACES is None, reason="TRACES_DIR is not set")


def line_s(size: np.ndarray) -> np.ndarray:
    return np.asarray(0.004 + 0.0015 * size)


def stairs_s(size: np.ndarray) -> np.ndarray:
    """A kernel that pads to multiples of 8."""
    return np.asarray(0.010 * np.ceil(size / 8))


def logged(
    expected_s: np.ndarray, size: np.ndarray, seed: int, cv: float, start_s: float = 0.0
) -> LoggedBatches:
    count = len(size)
    sigma = np.sqrt(np.log1p(cv**2))
    z = np.random.default_rng(seed).standard_normal(count)
    return LoggedBatches(
        np.zeros(count, int),
        np.zeros(count, int),
        size,
        start_s + 0.02 * np.arange(count),
        expected_s * np.exp(sigma * z - sigma**2 / 2),
    )


def sizes(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, 17, count).astype(float)


def test_a_point_is_the_mean_of_the_batches_of_its_size() -> None:
    table = fit_latency_table(
        np.array([2.0, 1.0, 2.0, 1.0]), np.array([0.5, 0.1, 0.7, 0.3]), least_batches=2
    )
    assert table.size == (1.0, 2.0)
    assert table.latency_s == pytest.approx((0.2, 0.6))
    # Of two values d apart the standard deviation is d / sqrt 2, that of their mean d / 2.
    assert table.error_s == pytest.approx((0.1, 0.1))
    assert table.batches == (2, 2)


def test_sizes_with_few_batches_share_a_point_with_the_next() -> None:
    size = np.array([1.0, 1.0, 1.0, 2.0, 3.0, 3.0, 4.0, 5.0])
    np.testing.assert_array_equal(size_points(size, 3), [0, 0, 0, 1, 1, 1, 1, 1])
    np.testing.assert_array_equal(size_points(size, 2), [0, 0, 0, 1, 1, 1, 2, 2])
    table = fit_latency_table(size, 0.1 * size, least_batches=3)
    assert table.size == pytest.approx((1.0, 3.4))  # (2 + 3 + 3 + 4 + 5) / 5
    assert table.latency_s == pytest.approx((0.1, 0.34))


def test_fewer_batches_than_a_point_needs_are_one_point() -> None:
    table = fit_latency_table(np.array([1.0, 3.0]), np.array([0.1, 0.3]))
    assert (table.size, table.batches) == ((2.0,), (2,))
    np.testing.assert_allclose(table.expected_s(np.array([1.0, 9.0])), 0.2)


def test_a_thousand_sizes_make_at_most_128_points() -> None:
    size = np.random.default_rng(1).uniform(1.0, 500.0, 20_000)
    assert 100 < len(fit_latency_table(size, line_s(size)).size) <= 128


@pytest.mark.parametrize("last_s", [0.5, 0.2])  # rising and falling at its end
def test_the_table_is_interpolated_as_the_simulator_does_and_is_taken_by_a_replica(
    last_s: float,
) -> None:
    table = fit_latency_table(np.array([2.0, 4.0, 7.0]), np.array([0.1, 0.4, last_s]), 1)
    replica = Replica((0.1,), (0.1,), (0.0,), 16, latency_table=(table.points(),))
    asked = np.linspace(0.5, 12.0, 47)
    expected = [interpolated_s(replica.latency_table[0], size) for size in asked]
    np.testing.assert_allclose(table.expected_s(asked), expected, rtol=1e-12)


def test_the_line_is_chosen_for_a_line_however_strong_the_noise() -> None:
    train_size, unseen_size = sizes(3000, 1), sizes(3000, 2)
    train = logged(line_s(train_size), train_size, 3, cv=0.4)
    unseen = logged(line_s(unseen_size), unseen_size, 4, cv=0.4, start_s=60.0)
    choice = choose_latency(train, unseen, np.random.default_rng(1))
    assert choice.kind == "line"
    # Mean absolute error is 30 % here; the systematic part is what is left of the fit's error.
    assert choice.line_error < 0.03
    assert "the line fits within 5%" in choice.reason
    np.testing.assert_array_equal(
        choice.expected_s(unseen_size), choice.line.expected_s(unseen_size)
    )


def test_what_chance_adds_is_no_part_of_the_systematic_error() -> None:
    # The means of 16 sizes of 600 batches with a CV of 0.4 miss by 0.4 sqrt(16 / 600) = 6.5 %.
    squares = []
    for seed in range(20):
        size, unseen_size = sizes(20_000, seed), sizes(600, 100 + seed)
        train = logged(line_s(size), size, 200 + seed, cv=0.4)
        unseen = logged(line_s(unseen_size), unseen_size, 300 + seed, cv=0.4)
        choice = choose_latency(train, unseen, np.random.default_rng(seed), resamples=100)
        squares.append(choice.line_error**2)
    assert np.sqrt(np.mean(squares)) < 0.04


def test_the_table_is_chosen_for_stairs_and_the_error_of_the_line_is_that_of_its_shape() -> None:
    train_size, unseen_size = sizes(4000, 1), sizes(4000, 2)
    train = logged(stairs_s(train_size), train_size, 3, cv=0.2)
    unseen = logged(stairs_s(unseen_size), unseen_size, 4, cv=0.2, start_s=80.0)
    choice = choose_latency(train, unseen, np.random.default_rng(1))
    assert choice.kind == "table"
    assert choice.gain.low > 0.0
    shape = 1.0 - stairs_s(unseen_size) / choice.line.expected_s(unseen_size)
    assert choice.line_error == pytest.approx(np.sqrt((shape**2).mean()), rel=0.05)
    assert choice.table_error < 0.02
    np.testing.assert_allclose(
        choice.expected_s(np.arange(1.0, 17.0)), stairs_s(np.arange(1.0, 17.0)), rtol=0.05
    )


def test_a_shift_of_all_latencies_after_the_training_split_chooses_no_table() -> None:
    train_size, unseen_size = sizes(3000, 1), sizes(3000, 2)
    train = logged(line_s(train_size), train_size, 3, cv=0.1)
    slower = logged(1.2 * line_s(unseen_size), unseen_size, 4, cv=0.1, start_s=60.0)
    choice = choose_latency(train, slower, np.random.default_rng(1))
    assert choice.line_error == pytest.approx(0.2, abs=0.02)
    assert choice.table_error == pytest.approx(0.2, abs=0.02)
    assert choice.kind == "line"
    assert "not surely better" in choice.reason


def test_too_few_held_out_batches_choose_the_line_and_say_so() -> None:
    size = sizes(1000, 1)
    train = logged(stairs_s(size), size, 3, cv=0.1)
    few = LoggedBatches(*(column[:49] for column in train))
    choice = choose_latency(train, few, np.random.default_rng(1))
    assert choice.kind == "line"
    assert np.isnan(choice.line_error)
    assert choice.reason.startswith("49 batches held out, too few")


def test_a_profile_of_a_line_is_the_line_with_the_noise_of_its_deviations() -> None:
    size = np.arange(1.0, 33.0)
    choice = fit_profile(size, line_s(size), 0.1 * line_s(size))
    assert choice.kind == "line"
    assert choice.line[:3] == pytest.approx((0.004, 0.0015, 0.1))
    assert choice.line_error == pytest.approx(0.0, abs=1e-9)
    assert np.isnan(fit_profile(size, line_s(size)).line.noise_cv)


def test_a_profile_that_bends_is_a_table_of_all_that_was_measured() -> None:
    size = np.arange(1.0, 33.0)
    choice = fit_profile(size, 0.001 * size**2)
    assert choice.kind == "table"
    assert choice.line.alpha_s >= 0.0
    # Between neighbors the table interpolates: over by ((b-1)^2 + (b+1)^2) / 2 - b^2 = 1 part in
    # b^2 + 1 of what it says, at sizes 2 to 31.
    inner = size[1:-1]
    assert choice.table_error == pytest.approx((1.0 / (inner**2 + 1.0)).mean(), rel=1e-6)
    assert choice.table.size == tuple(size)


def test_repeated_rows_of_a_profile_are_averaged_and_count_once() -> None:
    size = np.array([1.0, 2.0, 2.0, 4.0, 8.0])
    table = fit_profile(size, np.array([0.1, 0.15, 0.25, 0.4, 0.8])).table
    assert table.latency_s == pytest.approx((0.1, 0.2, 0.4, 0.8))
    assert table.batches == (1, 2, 1, 1)


def test_the_sizes_to_hold_out_may_be_given() -> None:
    size = np.array([1.0, 2.0, 3.0, 4.0])
    # Without size 4 the line is b / 10 and the table goes on by 0.1: both say 0.4, twice too slow.
    choice = fit_profile(
        size, np.array([0.1, 0.2, 0.3, 0.2]), held_out=np.array([False, False, False, True])
    )
    assert (choice.line_error, choice.table_error) == pytest.approx((0.5, 0.5))
    with pytest.raises(ValueError, match="must leave two sizes"):
        fit_profile(size, 0.1 * size, held_out=np.array([True, True, True, False]))


def test_a_profile_too_short_to_hold_out_from_is_its_table() -> None:
    choice = fit_profile(np.array([1.0, 8.0]), np.array([0.1, 0.4]))
    assert choice.kind == "table"
    assert np.isnan(choice.line_error)
    with pytest.raises(ValueError, match="at least two sizes"):
        fit_profile(np.ones(3), np.full(3, 0.1))


def test_a_negative_deviation_is_refused() -> None:
    with pytest.raises(ValueError, match=r"deviation_s = -0\.1: must be finite, at least 0"):
        fit_profile(np.array([1.0, 2.0]), np.array([0.1, 0.2]), np.array([0.1, -0.1]))


def nexus_profile(path: Path) -> np.ndarray:
    """Rows of batch, latency, deviation: us as seconds."""
    lines = iter(path.read_text().splitlines())
    for line in lines:
        if line.startswith("batch,"):
            break
    rows = []
    for line in lines:
        cells = line.split(",")
        if len(cells) != 4:
            break
        rows.append([float(cell) for cell in cells])
    return np.array(rows)[:, :3] * [1.0, 1e-6, 1e-6]


@needs_traces
def test_nexus_profiles_have_an_overhead_and_fit_within_five_percent_or_are_tables() -> None:
    paths = sorted(Path(str(TRACES)).glob("nexus-profiles/TITAN_X_Pascal/*.txt"))
    assert [len(nexus_profile(path)) for path in paths] == [174, 512, 24]
    for path in paths:
        choice = fit_profile(*nexus_profile(path).T)
        print(path.stem, choice.line, choice.reason)
        assert choice.line.alpha_s > 0.0
        assert choice.kind == ("line" if choice.line_error < 0.05 else "table")


@needs_traces
def test_splitwise_prompt_times_are_tables_and_no_overhead_is_negative() -> None:
    path = Path(str(TRACES)) / "splitwise-sim" / "perf_model.csv"
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["token_size"] == "128"]
    keys = sorted({(r["model"], r["hardware"], r["tensor_parallel"]) for r in rows})
    for key in keys:
        of_key = [r for r in rows if (r["model"], r["hardware"], r["tensor_parallel"]) == key]
        of_key = [r for r in of_key if r["prompt_size"] == "512"]
        batch = np.array([float(r["batch_size"]) for r in of_key])
        for column in ("prompt_time", "token_time"):
            latency_s = np.array([float(r[column]) for r in of_key]) / 1e3
            choice = fit_profile(batch, latency_s)
            print(*key, column, f"alpha {choice.line.alpha_s:.4f} s:", choice.kind, choice.reason)
            assert choice.line.alpha_s >= 0.0
            assert column != "prompt_time" or choice.kind == "table"
