"""Times to the first token and between tokens, by class."""

import numpy as np
import pytest

from simulator.environment import RequestRecords
from simulator.metrics import token_metrics
from simulator.state import RequestStatus


def records(
    ttft_s: np.ndarray, tpot_s: np.ndarray, output_tokens: np.ndarray, request_class: int = 0
) -> RequestRecords:
    """Answered requests with these token times, one a second."""
    count = len(ttft_s)
    arrival_s = np.arange(count, dtype=float)
    first_token_s = arrival_s + ttft_s
    return RequestRecords(
        lane=np.arange(count) % 2,
        request_class=np.full(count, request_class),
        arrival_s=arrival_s,
        dispatch_s=arrival_s,
        departure_s=first_token_s + tpot_s * (output_tokens - 1),
        status=np.full(count, RequestStatus.COMPLETED),
        replica=np.zeros(count, int),
        first_token_s=first_token_s,
        output_tokens=output_tokens,
    )


def test_percentiles_lie_between_the_values_in_order() -> None:
    # 101 values a, a + d, ... , a + 100 d: the q-th percentile is a + q d.
    steps = np.random.default_rng(0).permutation(101)
    metrics = token_metrics(
        records(0.5 + 0.01 * steps, 0.002 * (1 + steps[::-1]), np.full(101, 5)), 0
    )
    assert metrics[:3] == pytest.approx((1.0, 1.45, 1.49))
    assert metrics[3:] == pytest.approx((0.102, 0.192, 0.2))


def test_a_request_of_one_token_has_no_time_per_token() -> None:
    metrics = token_metrics(
        records(np.array([1.0, 3.0]), np.array([9.0, 0.25]), np.array([1, 2])), 0
    )
    assert metrics.ttft_p50_s == 2.0
    assert metrics.tpot_p50_s == metrics.tpot_p99_s == 0.25


def test_only_answered_requests_of_the_class_count() -> None:
    own = records(np.array([1.0, 7.0, 8.0]), np.array([0.5, 7.0, 7.0]), np.array([3, 3, 3]))
    own.status[1:] = RequestStatus.IN_SERVICE, RequestStatus.SHED
    own.departure_s[1:] = np.nan
    other = records(np.array([5.0]), np.array([5.0]), np.array([3]), request_class=1)
    both = RequestRecords(*map(np.concatenate, zip(own, other, strict=True)))
    assert token_metrics(both, 0) == (1.0, 1.0, 1.0, 0.5, 0.5, 0.5)
    assert token_metrics(both, 1) == (5.0,) * 6


def test_without_answered_requests_all_are_nan() -> None:
    none = np.zeros(0)
    assert np.isnan(token_metrics(records(none, none, none), 0)).all()


def test_whole_batches_have_no_token_times() -> None:
    whole = records(np.full(3, np.nan), np.zeros(3), np.zeros(3, int))
    assert np.isnan(token_metrics(whole, 0)).all()
