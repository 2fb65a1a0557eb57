"""The quality of hand-made requests: order, ties, duplicates, gaps, clock, classes and uses."""

import math
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.quality import order as order_module
from pipeline.quality.content import NO_CLASS, OTHERS, content_of
from pipeline.quality.order import Gap, distinct_before_spread, order_of, poisson_longest_us
from pipeline.quality.resolution import time_step_us
from pipeline.quality.uses import Others, uses_of
from pipeline.schema import POLARS_TYPES, TABLES

NOTHING = Others((), 0, 0)


def frame(table: str, rows: list[dict[str, Any]]) -> pl.LazyFrame:
    """Rows of a canonical table in its order; what is not given is null."""
    columns = TABLES[table].columns
    types = {name: POLARS_TYPES[column.type] for name, column in columns.items()}
    return pl.DataFrame(rows, schema=types).sort(*TABLES[table].order).lazy()


def requests(*rows: dict[str, Any], **shared: Any) -> pl.LazyFrame:
    """Completed requests of a source, in the order of the lines of one file."""
    base = {"source": "log", "file": 0, "status": "completed", **shared}
    return frame("requests", [{**base, "line": 1 + n, **row} for n, row in enumerate(rows)])


def arriving(*arrival_us: int, **shared: Any) -> pl.LazyFrame:
    return requests(*({"arrival_us": instant} for instant in arrival_us), **shared)


def content(table: pl.LazyFrame, batches: pl.LazyFrame | None = None, derived=()):
    order = order_of(table)
    batches = frame("batches", []) if batches is None else batches
    return content_of(table, batches, list(derived), (order.first_us, order.last_us))


def test_an_inversion_is_a_row_that_a_line_above_it_arrived_after() -> None:
    # 10 and 20 stand below 30; 40 is the largest so far.
    assert order_of(arriving(0, 30, 10, 20, 40)).inversions == 2
    assert order_of(arriving(0, 10, 10, 20)).inversions == 0


def test_lines_of_another_file_make_no_inversion() -> None:
    rows = [{"arrival_us": us, "file": file} for us, file in ((50, 0), (60, 0), (10, 1), (20, 1))]
    assert order_of(requests(*rows)).inversions == 0


def test_ties_are_rows_at_the_instant_of_the_one_before() -> None:
    order = order_of(arriving(0, 5, 5, 5, 9, 9))
    assert (order.rows, order.distinct_instants, order.ties, order.most_at_once) == (6, 3, 3, 3)


def test_duplicates_are_equal_in_all_but_file_and_line() -> None:
    rows = [
        {"arrival_us": 5, "prompt_tokens": 1},
        {"arrival_us": 5, "prompt_tokens": 2},
        {"arrival_us": 5, "prompt_tokens": 1},
        {"arrival_us": 5, "prompt_tokens": 1, "file": 1},
        {"arrival_us": 6, "prompt_tokens": 1},
        {"arrival_us": 6},
    ]
    assert order_of(requests(*rows)).duplicates == 2


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1000])
def test_blocks_do_not_change_what_is_counted(monkeypatch, block) -> None:
    monkeypatch.setattr(order_module, "BLOCK", block)
    generator = np.random.default_rng(4)
    arrival_us = generator.integers(0, 30, 60).tolist()
    files = generator.integers(0, 2, 60).tolist()
    tokens = generator.integers(0, 2, 60).tolist()
    table = requests(
        *(
            {"arrival_us": us, "file": file, "prompt_tokens": count}
            for us, file, count in zip(arrival_us, files, tokens, strict=True)
        )
    )
    found = order_of(table)
    highest = {0: -1, 1: -1}
    inversions = 0
    for us, file in zip(arrival_us, files, strict=True):
        inversions += us < highest[file]
        highest[file] = max(highest[file], us)
    assert found.inversions == inversions > 0
    at = Counter(arrival_us)
    assert (found.distinct_instants, found.most_at_once) == (len(at), max(at.values()))
    assert found.duplicates == 60 - len(set(zip(arrival_us, tokens, strict=True)))
    instants = sorted(at)
    gaps = [Gap(a, b - a) for a, b in pairwise(instants)]
    assert list(found.gaps.longest) == sorted(gaps, key=lambda g: (-g.length_us, g.start_us))[:5]


def test_the_longest_gaps_are_named_and_compared_with_poisson() -> None:
    # 1000 gaps of 100 us and one of 100 ms: mean (100 x 1000 + 100000) / 1001.
    regular = [100 * k for k in range(1001)]
    gaps = order_of(arriving(*regular, regular[-1] + 100_000)).gaps
    assert gaps.longest[0] == Gap(100_000, 100_000)
    assert gaps.mean_us == pytest.approx(200_000 / 1001)
    assert gaps.beyond_poisson == 1
    # All n gaps are below x with probability (1 - exp(-x / mean))^n.
    limit = gaps.poisson_longest_us
    assert (1 - math.exp(-limit / gaps.mean_us)) ** 1001 == pytest.approx(0.99)


def test_the_longest_of_poisson_gaps_is_below_the_limit_in_99_of_100_logs() -> None:
    longest = np.random.default_rng(1).exponential(50.0, (4000, 200)).max(axis=1)
    below = np.mean(longest < poisson_longest_us(50.0, 200))
    assert abs(below - 0.99) < 4 * math.sqrt(0.99 * 0.01 / 4000)


@pytest.mark.parametrize(
    ("step_us", "offset_us"), [(1, 0), (1000, 0), (1000, 123), (1_000_000, 999), (300_000_000, 7)]
)
def test_the_step_of_a_clock_is_found_whatever_its_remainder(step_us, offset_us) -> None:
    # Of 1000 draws some hundred are no multiple of ten steps.
    ticks = np.random.default_rng(2).integers(0, 10_000, 1000)
    assert time_step_us(ticks * step_us + offset_us) == step_us


def test_one_percent_of_the_instants_may_lie_between_the_steps() -> None:
    ticks = np.random.default_rng(2).integers(0, 10_000, 1000) * 1000
    ticks[:9] += 1
    assert time_step_us(ticks) == 1000
    ticks[:11] += 1
    assert time_step_us(ticks) == 1


def test_few_instants_tell_no_step() -> None:
    assert time_step_us(np.array([0, 1000, 2000])) is None
    assert order_of(arriving(0, 1000)).step_us is None


def test_instants_before_a_spread_are_those_of_the_coarse_clock() -> None:
    # Seconds 3, 3, 4 and 7 of the clock, spread over 1 s; time 0 is the first, 3.25 s.
    table = arriving(0, 500_000, 900_000, 4_400_000)
    assert distinct_before_spread(table, 1_000_000, 3_250_000) == 3


def test_no_request_has_no_order() -> None:
    assert order_of(requests()) is None


def test_classes_and_outcomes_are_counted_most_frequent_first() -> None:
    rows = [
        {"arrival_us": 0, "request_class": "slow"},
        {"arrival_us": 1, "request_class": "fast", "status": "shed"},
        {"arrival_us": 2, "request_class": "fast"},
        {"arrival_us": 3},
    ]
    found = content(requests(*rows))
    assert list(found.classes.items()) == [("fast", 2), (NO_CLASS, 1), ("slow", 1)]
    assert found.status == {"completed": 3, "shed": 1}


def test_rare_classes_are_together_and_nothing_is_lost() -> None:
    rows = [{"arrival_us": k, "request_class": f"c{k % 30:02d}"} for k in range(65)]
    found = content(requests(*rows))
    assert len(found.classes) == 21
    assert found.more_classes == 10
    assert found.classes[OTHERS] == 10 * 2  # c00 to c04 have three each, all others two
    assert sum(map(sum, found.rate.requests.values())) == 65


def test_the_rate_has_at_most_sixty_windows_of_a_round_length() -> None:
    seconds = (0, 1, 99, 100, 299, 300)
    rate = content(arriving(*(second * 1_000_000 for second in seconds), request_class="x")).rate
    assert rate.window_s == 10.0  # 5 s would make 61
    assert [n for n, rows in enumerate(rate.requests["x"]) if rows] == [0, 9, 10, 29, 30]
    assert rate.requests["x"][0] == 2
    assert len(rate.whole_windows()["x"]) == 30


def test_coverage_is_of_the_completed_requests() -> None:
    rows = [
        {"arrival_us": 0, "departure_us": 5, "dispatch_us": 1},
        {"arrival_us": 1, "departure_us": 6},
        {"arrival_us": 2, "status": "shed"},
    ]
    facts = content(requests(*rows), derived=["service"]).facts
    assert facts["response"] == ("measured", 1.0)
    assert facts["service"] == ("derived", 0.5)
    assert facts["tokens"] == ("absent", 0.0)


def test_a_log_of_arrivals_and_tokens_calibrates_these_alone() -> None:
    table = arriving(*range(0, 100, 3), prompt_tokens=5, output_tokens=7, request_class="chat")
    uses = uses_of(order_of(table), content(table), NOTHING)
    assert {name for name, use in uses.items() if use.possible} == {
        "arrivals",
        "class_mix",
        "tokens",
    }
    assert uses["fidelity_check"].reason == "no response time is stated to compare with"


def test_times_from_end_to_end_tell_service_of_an_idle_system_only() -> None:
    table = arriving(*range(50), departure_us=1000)
    uses = uses_of(order_of(table), content(table), NOTHING)
    assert uses["service_of_one"].possible
    assert "idle system" in uses["service_of_one"].reason
    assert not uses["service_by_batch"].possible


def test_batches_of_one_size_tell_no_line_over_sizes() -> None:
    shared = {"dispatch_us": 100, "departure_us": 200, "replica": "r"}
    pair = [{"arrival_us": k, "batch_id": k // 2, **shared} for k in range(8)]
    same = requests(*pair)
    uses = uses_of(order_of(same), content(same), NOTHING)
    assert uses["service_by_batch"] == (False, "all 4 batches are of 2")
    assert uses["service_of_one"] == (False, "the smallest batch is of 2")
    assert uses["routing_policy"] == (False, "one replica: there is nothing to route")
    unlike = requests(*pair, {"arrival_us": 9, "batch_id": 9, **shared, "replica": "s"})
    uses = uses_of(order_of(unlike), content(unlike), NOTHING)
    assert uses["service_by_batch"] == (True, "5 batches of 1 to 2 requests")
    assert uses["routing_policy"].possible


def test_a_profile_calibrates_service_and_nothing_else() -> None:
    uses = uses_of(None, None, Others((1, 2, 8), 0, 0))
    assert {name for name, use in uses.items() if use.possible} == {
        "service_by_batch",
        "service_of_one",
    }


def test_a_clock_coarser_than_the_mean_gap_tells_rates_only() -> None:
    instants = np.sort(np.random.default_rng(1).integers(0, 100, 2000)) * 1_000_000
    table = arriving(*instants.tolist())
    reason = uses_of(order_of(table), content(table), NOTHING)["arrivals"].reason
    assert "the clock's step of 1 s is longer than the mean gap of 0.0" in reason
