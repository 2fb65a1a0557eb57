"""Numbers and rules in the words of the report."""

import math

import pytest

from pipeline.reporting.text import (
    ABSENT,
    gain,
    gain_interval,
    milliseconds,
    parameters_in_words,
    percent,
    plural,
    reward,
    rule_in_words,
    signed_percent,
)
from pipeline.validation.intervals import Interval


@pytest.mark.parametrize(
    ("value_s", "expected"),
    [
        (0.0, "0 ms"),
        (0.00123, "1.23 ms"),
        (0.0099949, "9.99 ms"),
        (0.0099951, "10.0 ms"),
        (0.0341, "34.1 ms"),
        (0.0999, "99.9 ms"),
        (0.09996, "100 ms"),
        (0.1234, "123 ms"),
        (12.3456, "12,346 ms"),
    ],
)
def test_times_have_three_digits_and_no_fraction_from_100_ms(value_s: float, expected: str) -> None:
    assert milliseconds(value_s) == expected


@pytest.mark.parametrize("absent", [None, math.nan, math.inf])
def test_what_is_absent_is_a_dash(absent: float | None) -> None:
    assert milliseconds(absent) == ABSENT
    assert percent(absent) == signed_percent(absent) == ABSENT
    assert reward(absent) == gain(absent) == ABSENT


def test_signs_are_told_with_a_real_minus() -> None:
    assert gain(0.5) == "+0.500"
    assert gain(-1234.5) == "\u22121,234.500"
    assert signed_percent(-0.031) == "\u22123.1%"
    assert gain_interval(Interval(0.0, -0.25, 0.25)) == "\u22120.250 to +0.250"


def test_parameters_carry_their_unit() -> None:
    parameters = {"max_batch_size": 16, "batch_timeout_s": 0.005}
    assert rule_in_words("batch_timeout", parameters) == (
        "batch_timeout (max batch size 16, batch timeout 5.00 ms)"
    )


def test_parameters_by_class_name_the_classes() -> None:
    assert parameters_in_words({"batch_size": {"fast": 8, "slow": 2}}) == (
        "batch size: fast 8 and slow 2"
    )


def test_a_rule_without_parameters_is_its_name() -> None:
    assert rule_in_words("uniform_random", {}) == "uniform_random"
    assert parameters_in_words({}) == "none"


def test_one_is_singular() -> None:
    assert plural(1, "window") == "1 window"
    assert plural(1200, "window") == "1,200 windows"


def test_parameters_that_are_not_set_or_long_are_told_in_few_letters() -> None:
    told = {"shares": None, "sizes": (), "weight": 0.123456, "rate_rps": 1234.5678, "count": 12345}
    assert parameters_in_words(told) == (
        "shares by its own rule, sizes none, weight 0.123, rate rps 1,235, count 12345"
    )
    assert parameters_in_words({"window_s": 33.6081, "grace_s": 60}) == "window 33.6 s, grace 60 s"
    assert parameters_in_words({"sizes": [1, 2.5], "last": True}) == "sizes 1/2.5, last yes"
