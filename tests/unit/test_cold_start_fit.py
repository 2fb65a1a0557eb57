"""Cold starts: their fit, its intervals, and those that a log of batches gives away."""

import math

import numpy as np
import pytest

from pipeline.calibration.cold_starts import (
    CONSTANT,
    LOGNORMAL,
    OTHER,
    cold_starts_of_log,
    fit_cold_starts,
)


def test_the_lognormal_fit_is_that_of_the_logarithms() -> None:
    # Logarithms -1, 0, 1: m = 0, s^2 = 1, so mean = exp(1/2) and cv = sqrt(e - 1).
    fit = fit_cold_starts(np.exp([-1.0, 0.0, 1.0]))
    assert fit.distribution == LOGNORMAL
    assert fit.cold_start_s == pytest.approx(math.exp(0.5))
    assert fit.cv == pytest.approx(math.sqrt(math.e - 1.0))
    # Cox: 1/2 +- t sqrt(1/3 + 1/4), t = 4.3027 with 2 degrees of freedom.
    half = 4.302653 * math.sqrt(1 / 3 + 1 / 4)
    assert fit.mean_interval_s == pytest.approx((math.exp(0.5 - half), math.exp(0.5 + half)))
    # s^2 between 2 / 7.3778 and 2 / 0.0506.
    low, high = math.sqrt(math.expm1(2 / 7.377759)), math.sqrt(math.expm1(2 / 0.050636))
    assert fit.cv_interval == pytest.approx((low, high), rel=1e-3)


def test_its_intervals_cover_mean_and_cv_in_at_least_ninety_of_a_hundred_seeds() -> None:
    mean_s, cv, covered = 8.0, 0.6, np.zeros(2)
    sigma = math.sqrt(math.log1p(cv**2))
    for seed in range(100):
        z = np.random.default_rng(seed).standard_normal(30)
        fit = fit_cold_starts(mean_s * np.exp(sigma * z - sigma**2 / 2))
        for place, (truth, interval) in enumerate(
            [(mean_s, fit.mean_interval_s), (cv, fit.cv_interval)]
        ):
            low, high = interval
            covered[place] += fit.distribution != LOGNORMAL or low <= truth <= high
    assert (covered >= 90).all(), covered


def test_equal_cold_starts_are_constant() -> None:
    fit = fit_cold_starts(np.array([4.99, 5.0, 5.01] * 10))
    assert (fit.distribution, fit.starts) == (CONSTANT, 30)
    assert fit.cold_start_s == pytest.approx(5.0)
    assert fit.mean_interval_s == pytest.approx((5.0, 5.0), abs=0.01)


def test_what_has_two_humps_is_neither_and_keeps_its_moments() -> None:
    values_s = np.concatenate([np.full(50, 1.0), np.full(50, 9.0)])
    fit = fit_cold_starts(values_s)
    assert fit.distribution == OTHER
    assert fit.cold_start_s == pytest.approx(5.0)
    assert fit.cv == pytest.approx(values_s.std(ddof=1) / 5.0)
    assert np.isnan(fit.cv_interval).all()


def test_a_single_cold_start_has_no_finite_interval() -> None:
    fit = fit_cold_starts(np.array([3.0]))
    assert (fit.cold_start_s, fit.cv) == (3.0, 0.0)
    assert fit.mean_interval_s == (0.0, math.inf)


@pytest.mark.parametrize(
    ("values_s", "message"),
    [
        ([], r"len\(cold_start_s\) = 0: needs at least one"),
        ([1.0, 0.0], r"cold_start_s\[1\] = 0.0: must be finite and above 0"),
        ([np.nan], r"cold_start_s\[0\] = nan: must be finite and above 0"),
    ],
)
def test_what_is_no_cold_start_is_refused(values_s: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit_cold_starts(np.array(values_s))


def timeline(cold_s: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """20 rounds of 100 batches of 10 ms on 2 replicas, a minute apart; each first takes longer."""
    replica, dispatch_s, departure_s = [], [], []
    for round_number in range(20):
        for number in (0, 1):
            clock_s = 60.0 * round_number
            for batch in range(100):
                service_s = 0.010 + (cold_s if batch == 0 else 0.0005 * (batch % 3))
                replica.append(number)
                dispatch_s.append(clock_s)
                departure_s.append(clock_s + service_s)
                clock_s += service_s
    order = np.argsort(dispatch_s, kind="stable")
    columns = (np.array(column)[order] for column in (replica, dispatch_s, departure_s))
    replica_, dispatch_, departure_ = columns
    return replica_, dispatch_, departure_, np.full(len(order), 0.010)


def test_cold_starts_are_what_first_batches_take_beyond_expectation() -> None:
    found = cold_starts_of_log(*timeline(2.0), idle_s=10.0)
    assert (found.candidates, len(found.cold_start_s)) == (40, 40)
    np.testing.assert_allclose(found.cold_start_s, 2.0)
    assert found.text.startswith("40 of 40 first batches took more than 1.50 times")


def test_nothing_is_claimed_where_first_batches_are_like_the_others() -> None:
    found = cold_starts_of_log(*timeline(0.0), idle_s=10.0)
    assert len(found.cold_start_s) == 0
    assert found.text.startswith("0 of 40 first batches")
    assert found.text.endswith("too few to call them cold starts")


def test_batches_after_short_pauses_are_no_candidates() -> None:
    found = cold_starts_of_log(*timeline(2.0), idle_s=100.0)  # rounds are a minute apart
    assert found.candidates == 2  # the first batch of each replica
    assert len(found.cold_start_s) == 0


def test_nothing_is_claimed_without_warm_batches_to_compare_with() -> None:
    columns = [column[:200] for column in timeline(2.0)]
    found = cold_starts_of_log(*columns, idle_s=10.0)
    assert found.text == "198 warm batches are too few to say how slow a warm batch can be"


def test_slow_first_batches_are_no_cold_starts_where_others_are_as_slow() -> None:
    replica, dispatch_s, departure_s, expected_s = timeline(0.030)
    slow = np.arange(len(replica)) % 5 == 0  # a fifth of all batches takes as long
    found = cold_starts_of_log(
        replica, dispatch_s, np.where(slow, dispatch_s + 0.040, departure_s), expected_s, 10.0
    )
    assert len(found.cold_start_s) == 0


def test_a_few_slow_first_batches_of_many_may_be_chance() -> None:
    # 1000 of 5000 batches follow a pause. Of these 6 take 3 times as long, of the 4000 others 4:
    # 0.6 % is less than 10 times 0.1 %.
    after_pause = np.arange(5000) % 5 == 0
    service_s = np.full(5000, 0.010)
    service_s[np.flatnonzero(after_pause)[100:700:100]] = 0.030
    service_s[np.flatnonzero(~after_pause)[1000:3000:500]] = 0.030
    dispatch_s = np.cumsum(np.where(after_pause, 30.0, 0.1))
    found = cold_starts_of_log(
        np.zeros(5000, int), dispatch_s, dispatch_s + service_s, np.full(5000, 0.010), 10.0
    )
    assert (found.candidates, len(found.cold_start_s)) == (1000, 0)
    assert found.text.startswith("6 of 1000 first batches took more than 1.50 times")


@pytest.mark.parametrize("idle_s", [0.0, -1.0, math.nan])
def test_a_pause_that_is_no_pause_is_refused(idle_s: float) -> None:
    with pytest.raises(ValueError, match="idle_s"):
        cold_starts_of_log(*timeline(2.0), idle_s=idle_s)
