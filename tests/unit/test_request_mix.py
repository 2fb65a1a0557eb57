"""Shares, sizes and tokens of request classes: by hand, and back from draws."""

import json
import math

import numpy as np
import pytest

from pipeline.calibration.request_mix import (
    QUANTILES,
    fit_distribution,
    fit_request_mix,
    from_json,
    rank_correlation,
    to_json,
    wilson_interval,
)
from simulator.sizes import Constant, Distribution, Empirical, Lognormal, Quantiles

NONE = np.zeros(0, int)


def test_the_wilson_interval_of_none_of_n_ends_at_z2_over_n_plus_z2() -> None:
    # p = 0: (z^2 / 2n +- z * z / 2n) / (1 + z^2 / n) is 0 and z^2 / (n + z^2).
    z2 = 1.959963984540054**2
    assert wilson_interval(0, 50) == pytest.approx((0.0, z2 / (50 + z2)))
    assert wilson_interval(50, 50) == pytest.approx((50 / (50 + z2), 1.0))


def test_the_wilson_bounds_lie_z_standard_errors_from_the_share() -> None:
    # By definition |p - bound| = z sqrt(bound (1 - bound) / n) at both bounds.
    for bound in wilson_interval(30, 100, 0.9):
        error = 1.6448536269514722 * math.sqrt(bound * (1 - bound) / 100)
        assert abs(0.3 - bound) == pytest.approx(error)


def test_the_rank_correlation_gives_ties_their_mean_rank() -> None:
    # Ranks 1.5, 1.5, 3 and 1, 2, 3: covariance 1.5, variances 1.5 and 2.
    found = rank_correlation(np.array([5, 5, 9]), np.array([1, 2, 7]))
    assert found == pytest.approx(1.5 / math.sqrt(1.5 * 2.0))
    assert math.isnan(rank_correlation(np.array([5, 5, 5]), np.array([1, 2, 7])))
    assert math.isnan(rank_correlation(None, np.array([1, 2, 7])))


def test_each_class_has_its_share_its_sizes_and_its_tokens() -> None:
    request_class = np.array([0, 1, 1, 0, 1, 1, 1, 1])
    prompt = np.array([10, 20, 30, 10, 20, 20, 20, 30])
    output = np.array([1, 2, 3, 1, 2, 2, 2, 3])
    fast, slow = fit_request_mix(("fast", "slow"), request_class, np.ones(8), prompt, output)
    assert (fast.share.share, fast.share.requests) == (0.25, 2)
    assert (slow.share.low, slow.share.high) == wilson_interval(6, 8)
    assert fast.sizes.size == Constant(1.0)
    assert fast.sizes.prompt_tokens == Constant(10.0)
    assert slow.sizes.prompt_tokens == Empirical((20.0, 30.0), (4.0, 2.0))
    assert slow.token_rank_correlation == pytest.approx(1.0)
    assert math.isnan(fast.token_rank_correlation)


def test_requests_without_tokens_have_no_token_distributions() -> None:
    (only,) = fit_request_mix(("all",), np.zeros(3, int), np.array([1.0, 2.0, 2.0]), NONE, NONE)
    assert only.sizes.prompt_tokens is None
    assert only.sizes.output_tokens is None
    assert only.sizes.size == Empirical((1.0, 2.0), (1.0, 2.0))


def test_lognormal_amounts_come_back_as_the_lognormal_they_were_drawn_from() -> None:
    truth = Lognormal(300.0, 0.8)
    found = fit_distribution(truth.draw(20_000, np.random.default_rng(3)))
    assert isinstance(found, Lognormal)
    # Of log amounts: sigma^2 = log 1.64; the mean has relative error sigma / sqrt(n) and more.
    assert found.mean == pytest.approx(300.0, rel=4 * 0.8 / math.sqrt(20_000))
    assert found.cv == pytest.approx(0.8, rel=0.05)


def test_amounts_of_two_humps_come_back_as_their_quantiles() -> None:
    generator = np.random.default_rng(4)
    humps = np.where(generator.random(5_000) < 0.5, 100.0, 1000.0)
    amounts = humps * generator.uniform(0.9, 1.1, 5_000)
    found = fit_distribution(amounts)
    assert isinstance(found, Quantiles)
    assert len(found.levels) == QUANTILES
    for level in (0.25, 0.75):
        place = found.levels.index(level)
        assert found.values[place] == pytest.approx(np.quantile(amounts, level))


def test_a_lognormal_must_stand_the_test_on_later_amounts() -> None:
    # 64 values are counted one by one; 65 are judged as a continuous distribution.
    assert isinstance(fit_distribution(np.arange(1, 65)), Empirical)
    assert not isinstance(fit_distribution(np.tile(np.arange(1, 66), 50)), Empirical)


@pytest.mark.parametrize(
    "distribution",
    [
        Constant(2.0),
        Lognormal(10.0, 0.5),
        Empirical((1.0, 2.0), (3.0, 4.0)),
        Empirical((1.0, 2.0)),
        Quantiles((0.0, 0.5, 1.0), (1.0, 1.0, 3.0)),
    ],
    ids=lambda distribution: type(distribution).__name__,
)
def test_a_distribution_survives_its_json_form(distribution: Distribution) -> None:
    text = json.dumps(to_json(distribution), allow_nan=False)
    assert from_json(json.loads(text)) == distribution


def test_what_cannot_be_a_mix_is_refused_by_field_and_value() -> None:
    ones, zeros = np.ones(3), np.zeros(3, int)
    with pytest.raises(ValueError, match=r"request_class\[1\] = 2: must be in 0..1"):
        fit_request_mix(("a", "b"), np.array([0, 2, 1]), ones, NONE, NONE)
    with pytest.raises(ValueError, match=r"class_names = 'b': the log has no request"):
        fit_request_mix(("a", "b"), zeros, ones, NONE, NONE)
    with pytest.raises(ValueError, match=r"len\(size\) = 2: must be 3"):
        fit_request_mix(("a",), zeros, ones[:2], NONE, NONE)
    with pytest.raises(ValueError, match=r"output_tokens\[2\] = 0.0: must be finite and above 0"):
        fit_request_mix(("a",), zeros, ones, np.array([1, 2, 3]), np.array([1, 2, 0]))
    with pytest.raises(ValueError, match=r"size\[0\] = nan: must be finite"):
        fit_request_mix(("a",), zeros, np.array([np.nan, 1, 1]), NONE, NONE)
    with pytest.raises(ValueError, match=r"kind = 'pareto': must be one of constant"):
        from_json({"kind": "pareto"})
