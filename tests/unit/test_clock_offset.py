"""The offset between two clocks: what nested spans allow, computed by hand."""

import math

import numpy as np
import pytest

from pipeline.sources.clock_offset import Pairs, estimate_offset, in_words
from tests.unit.clock_pairs import MANY, pairs, simulated

NAN = math.nan


def test_the_offset_is_the_middle_of_what_all_pairs_allow() -> None:
    # Lower ends 100 - 40 = 60 and 500 - 430 = 70; upper ends 300 - 200 = 100 and 900 - 815 = 85.
    found = estimate_offset(pairs((100, 300, 40, 200), (500, 900, 430, 815)))
    assert (found.offset_us, found.uncertainty_us) == (77.5, 7.5)
    assert (found.pairs, found.violating) == (2, 0)
    assert found.drift_ppm == 0.0
    assert math.isnan(found.drift_tested_ppm)


def test_a_pair_that_was_not_answered_bounds_the_offset_from_below_only() -> None:
    found = estimate_offset(pairs((100, 300, 40, 200), (500, NAN, 420, NAN)))
    assert (found.offset_us, found.uncertainty_us) == (90.0, 10.0)  # 80 to 100


def test_without_an_answered_pair_nothing_bounds_the_offset() -> None:
    with pytest.raises(ValueError, match="answered in both logs = 0: must be at least 1"):
        estimate_offset(pairs((100, NAN, 40, NAN)))


def test_pairs_that_do_not_nest_with_the_others_are_outvoted_and_counted() -> None:
    good = [(1000.0 * k, 1000.0 * k + 400, 1000.0 * k - 60, 1000.0 * k + 320) for k in range(98)]
    # Each allows 60 to 80. One fits 200 to 210 only; of one the engine's span is the longer.
    bad = [(98_000, 98_310, 97_800, 98_100), (99_000, 99_100, 98_900, 99_200)]
    found = estimate_offset(pairs(*good, *bad))
    assert (found.violating, found.violating_share) == (2, 0.02)
    assert found.offset_us == 70.0
    assert found.uncertainty_us == 10.0


def test_where_pairs_contradict_each_other_the_uncertainty_is_not_that_of_the_best_point() -> None:
    # Stamps are jittered by more than the shortest delays, so that no offset fits all.
    generator = np.random.default_rng(3)
    made = simulated(3, 5e6)
    jitter = generator.normal(0, 300, (2, MANY))
    made = made._replace(
        engine_arrival_us=made.engine_arrival_us + jitter[0],
        engine_departure_us=made.engine_departure_us + jitter[1],
    )
    found = estimate_offset(made)
    assert 0 < found.violating_share < 0.15
    assert abs(found.offset_us - 5e6) <= found.uncertainty_us


def test_clocks_that_round_need_their_step_as_tolerance() -> None:
    # The engine's end is rounded up by 30: it lies 10 after the gateway's at every offset.
    rounded = pairs((0, 100, 10, 120))
    assert estimate_offset(rounded).violating == 1
    found = estimate_offset(rounded, tolerance_us=30.0)
    assert found.violating == 0
    assert found.offset_us - found.uncertainty_us == -10.0 - 30.0
    assert found.offset_us + found.uncertainty_us == -20.0 + 30.0


def test_a_drift_is_found_with_its_size_and_taken_off() -> None:
    found = estimate_offset(simulated(1, -7.5e6, drift_ppm=40.0))
    assert abs(found.drift_ppm - 40.0) < 4 * found.drift_error_ppm
    assert found.violating_share < 0.01
    instants = np.array([0.0, 5e8, 1e9])
    true = instants * (1 + 40e-6) - 7.5e6 - 5e8 * 40e-6
    assert np.abs(found.on_gateway_clock(instants) - true).max() < 500.0


def test_a_steady_clock_has_no_drift() -> None:
    found = estimate_offset(simulated(2, 1e6))
    assert found.drift_ppm == 0.0
    assert abs(found.drift_tested_ppm) < 4 * found.drift_error_ppm
    # The fastest way there and back take 200 us each at least: no more is known of the offset.
    assert 200.0 <= found.uncertainty_us < 220.0
    assert abs(found.offset_us - 1e6) < 20.0


def test_delays_without_any_noise_show_no_drift() -> None:
    starts = np.arange(200) * 1e6
    found = estimate_offset(Pairs(starts, starts + 900.0, starts + 300 - 77, starts + 400 - 77))
    # From 77 - 300 to 77 + 500.
    assert (found.offset_us, found.uncertainty_us, found.drift_ppm) == (177.0, 400.0, 0.0)
    assert "no drift found (+0.00 ± 0.00 ppm)" in in_words(found)


def test_the_estimate_is_told_with_its_uncertainty_and_what_does_not_fit() -> None:
    told = in_words(estimate_offset(pairs((100, 300, 40, 200), (500, 900, 430, 814))))
    assert "the engine's clock +0.000078 s is the gateway's, within 0.000008 s" in told  # 70 to 86
    assert "0 of 2 pairs (0.00%) do not nest" in told
    assert "too few pairs to test for drift" in told
