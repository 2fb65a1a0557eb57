"""Levels over time: exact steps, and means where there are too many of them."""

import numpy as np
import polars as pl
import pytest

from pipeline.inspect.levels import (
    changes_within,
    most_in_service,
    service_changes,
    stacked_levels,
)
from pipeline.inspect.service import SERVICE


def changes_of(*rows: tuple[int, int, float, int]) -> pl.DataFrame:
    """Row, class, clock, amount."""
    schema = {"row": pl.Int64, "request_class": pl.Int64, "clock_s": pl.Float64, "amount": pl.Int64}
    return pl.DataFrame(rows, schema, orient="row")


def spans_of(*rows: tuple[int, int, float, float, int, int]) -> pl.DataFrame:
    """Replica, class, start, end, low, high."""
    return pl.DataFrame([(*row, row[-1], "completed") for row in rows], SERVICE, orient="row")


def test_classes_stand_on_each_other_from_change_to_change() -> None:
    changes = changes_of((0, 0, 1.0, 2), (0, 1, 2.0, 3), (0, 0, 3.0, -1))
    levels = stacked_levels(changes, 2, 0.0, 4.0, 100)
    assert levels.filter(pl.col("request_class") == 0).select("clock_s", "low", "high").rows() == [
        (0.0, 0.0, 0.0),
        (1.0, 0.0, 2.0),
        (2.0, 0.0, 2.0),
        (3.0, 0.0, 1.0),
        (4.0, 0.0, 1.0),
    ]
    assert levels.filter(pl.col("request_class") == 1).select("low", "high").rows() == [
        (0.0, 0.0),
        (2.0, 2.0),
        (2.0, 5.0),
        (1.0, 4.0),
        (1.0, 4.0),
    ]


def test_a_window_begins_with_the_sum_of_what_was_before() -> None:
    changes = changes_of((0, 0, 1.0, 2), (0, 0, 2.0, 3), (0, 0, 9.0, 1))
    levels = stacked_levels(changes, 1, 2.0, 4.0, 100)
    assert levels.select("clock_s", "high").rows() == [(2.0, 5.0), (4.0, 5.0)]


def test_what_changes_at_the_end_of_the_window_is_not_in_it() -> None:
    levels = stacked_levels(changes_of((0, 0, 1.0, 2), (0, 0, 4.0, -1)), 1, 0.0, 4.0, 100)
    assert levels["high"].to_list() == [0.0, 2.0, 2.0]


def test_changes_of_one_instant_leave_no_spike() -> None:
    changes = changes_of((0, 0, 1.0, 5), (0, 0, 1.0, -5))
    assert stacked_levels(changes, 1, 0.0, 2.0, 100)["high"].to_list() == [0.0, 0.0, 0.0]


def test_rows_have_levels_of_their_own() -> None:
    levels = stacked_levels(changes_of((3, 0, 1.0, 2), (1, 0, 1.0, 1)), 1, 0.0, 2.0, 100)
    assert levels.filter(pl.col("row") == 1)["high"].max() == 1.0
    assert levels.filter(pl.col("row") == 3)["high"].max() == 2.0


def test_too_many_changes_become_means_over_equal_parts() -> None:
    # Two for the first half second, one for the second, none for the third.
    changes = changes_of((0, 0, 0.0, 2), (0, 0, 0.5, -1), (0, 0, 1.0, -1), (0, 0, 1.5, 0))
    levels = stacked_levels(changes, 1, 0.0, 2.0, 2)
    assert levels.select("clock_s", "high").rows() == [(0.0, 1.5), (1.0, 0.0), (2.0, 0.0)]


def test_means_keep_the_area_under_the_level() -> None:
    generator = np.random.default_rng(3)
    start_s = generator.uniform(-1.0, 5.0, 200)
    end_s = start_s + generator.exponential(0.3, 200)
    spans = enumerate(zip(start_s, end_s, strict=True))
    rows = [(0, n % 3, s, e, 0, 1 + n % 4) for n, (s, e) in spans]
    area = sum((min(e, 5.0) - max(s, 0.0)) * high for _, _, s, e, _, high in rows if e > 0)
    for most in (7, 50, 1000):
        levels = stacked_levels(service_changes(spans_of(*rows)), 3, 0.0, 5.0, most)
        top = levels.filter(pl.col("request_class") == 2)
        steps = np.diff(top["clock_s"].to_numpy()) * top["high"].to_numpy()[:-1]
        assert steps.sum() == pytest.approx(area)
        assert (levels["high"] >= levels["low"]).all()
        assert (levels["low"] >= 0).all()


def test_nothing_changes_gives_no_levels() -> None:
    assert stacked_levels(changes_of(), 2, 0.0, 1.0, 10).is_empty()


def test_the_most_in_service_counts_what_overlaps_on_one_replica() -> None:
    spans = spans_of(
        (0, 0, 0.0, 2.0, 0, 3),
        (0, 1, 1.0, 2.0, 0, 2),
        (0, 0, 2.0, 3.0, 0, 4),
        (1, 0, 0.0, 3.0, 0, 1),
    )
    assert most_in_service(spans) == 5
    assert most_in_service(spans.clear()) == 0


def test_the_row_with_most_changes_within_the_window_counts() -> None:
    changes = changes_of(
        (0, 0, 1.0, 1), (1, 0, 1.0, 1), (1, 1, 1.0, 1), (1, 0, 2.0, 1), (1, 0, 5.0, 1)
    )
    assert changes_within(changes, 0.0, 4.0) == 2
    assert changes_within(changes, 6.0, 7.0) == 0
