"""Requests drawn from counts and from rates."""

import gzip

import numpy as np
import pytest

from pipeline.sources.drawing import SPREADS, filled_arrivals, spread_within, text_rows

WIDTH_US = 60_000_000


def test_equidistant_arrivals_are_in_the_middle_of_equal_parts():
    # Two in window 0: at 1/4 and 3/4 of it; none in window 1; one in window 2: in its middle.
    arrivals_us = spread_within(
        np.array([2, 0, 1]), WIDTH_US, "equidistant", np.random.default_rng(0)
    )
    assert arrivals_us.tolist() == [15_000_000, 45_000_000, 150_000_000]


@pytest.mark.parametrize("spread", SPREADS)
def test_each_window_keeps_its_count_and_arrivals_are_sorted(spread):
    counts = np.random.default_rng(1).integers(0, 6, size=200)
    arrivals_us = spread_within(counts, WIDTH_US, spread, np.random.default_rng(2))
    assert np.bincount(arrivals_us // WIDTH_US, minlength=200).tolist() == counts.tolist()
    assert (np.diff(arrivals_us) >= 0).all()


def test_counts_of_zero_give_no_arrivals():
    for spread in SPREADS:
        drawn = spread_within(
            np.zeros(3, dtype=np.int64), WIDTH_US, spread, np.random.default_rng(0)
        )
        assert drawn.tolist() == []


def test_exponential_arrivals_begin_with_their_window():
    arrivals_us = spread_within(np.array([3, 2]), WIDTH_US, "exponential", np.random.default_rng(0))
    assert arrivals_us[[0, 3]].tolist() == [0, WIDTH_US]


def test_uniform_arrivals_are_uniform_in_their_window():
    # The mean of n uniform values is 1/2 with a standard error of sqrt(1/12n); 4 of them here.
    count = 20_000
    arrivals_us = spread_within(np.array([count]), WIDTH_US, "uniform", np.random.default_rng(3))
    assert abs(arrivals_us.mean() / WIDTH_US - 0.5) < 4 / np.sqrt(12 * count)


@pytest.mark.parametrize("family", ["Gamma", "Weibull"])
@pytest.mark.parametrize("shape", [0.01, 0.5, 20.0])
def test_a_window_is_filled_with_its_count_in_order(family, shape):
    arrivals_s = filled_arrivals(family, shape, 1000, 600.0, np.random.default_rng(4))
    assert len(arrivals_s) == 1000
    assert (np.diff(arrivals_s) >= 0).all()
    assert arrivals_s[0] >= 0
    assert arrivals_s[-1] < 600


@pytest.mark.parametrize(
    ("family", "shape", "cv"),
    [("Gamma", 4.0, 0.5), ("Gamma", 0.25, 2.0), ("Weibull", 1.0, 1.0), ("Weibull", 0.5, 5**0.5)],
)
def test_gaps_keep_the_coefficient_of_variation_of_their_shape(family, shape, cv):
    # Gamma: 1 / sqrt(shape). Weibull of shape 1 is exponential; of shape 1/2: mean 2, second moment
    # gamma(1 + 4) = 24, so cv^2 = 24 / 4 - 1 = 5. The tolerance of 5 % is over 4 standard errors at
    # 200,000 gaps, the heaviest tail included.
    arrivals_s = filled_arrivals(family, shape, 200_000, 600.0, np.random.default_rng(5))
    gaps_s = np.diff(arrivals_s)
    assert gaps_s.std() / gaps_s.mean() == pytest.approx(cv, rel=0.05)


def test_rows_have_the_lines_of_the_file_and_blank_ones_are_none(tmp_path):
    path = tmp_path / "rows.csv.gz"
    with gzip.open(path, "wb") as file:
        file.write(b'\xef\xbb\xbfa, b\r\n\r\n"1,5",\xff\r\n')
    assert list(text_rows(path)) == [(1, ["a", "b"]), (3, ["1,5", r"\xff"])]


def test_a_packed_file_that_is_cut_is_one_error(tmp_path):
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" * 1000)[:-12])
    with pytest.raises(ValueError, match=r"rows\.csv\.gz: not a whole packed file"):
        list(text_rows(path))


def test_a_cell_or_line_that_is_too_long_is_one_error(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x" * 200_000)
    with pytest.raises(ValueError, match="not readable as CSV"):
        list(text_rows(path))
    path.write_text("x," * (1 << 22) + "\n")
    with pytest.raises(ValueError, match="is of more than 8 MiB"):
        list(text_rows(path))
