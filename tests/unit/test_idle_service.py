"""Service from end-to-end times: who met an idle system, and what that can tell."""

import numpy as np
import pytest

from pipeline.calibration.idle_service import fit_overlap, idle_service, in_flight


def alone_in_turn(service_s: np.ndarray, pause_s: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Requests that each leave before the next arrives."""
    arrival_s = np.concatenate([[0.0], np.cumsum(service_s + pause_s)[:-1]])
    return arrival_s, arrival_s + service_s


def drawn_service_s(count: int) -> np.ndarray:
    return np.random.default_rng(1).uniform(0.09, 0.11, count)


def test_an_arrival_finds_those_before_it_that_have_not_left() -> None:
    arrival_s = np.array([0.0, 1.0, 2.0, 5.0])
    departure_s = np.array([3.0, 1.5, 4.0, 6.0])
    np.testing.assert_array_equal(in_flight(arrival_s, departure_s), [0, 1, 1, 0])
    order = [2, 0, 3, 1]
    np.testing.assert_array_equal(in_flight(arrival_s[order], departure_s[order]), [1, 0, 0, 1])


def test_requests_of_one_instant_meet_each_other_and_one_that_leaves_then_is_gone() -> None:
    arrival_s = np.array([0.0, 1.0, 1.0, 2.0])
    departure_s = np.array([1.0, 2.0, 2.0, 2.0])  # the last took no time at all
    np.testing.assert_array_equal(in_flight(arrival_s, departure_s), [0, 1, 1, 0])


def test_a_replica_that_is_known_counts_its_own_requests_alone() -> None:
    arrival_s, departure_s = np.array([0.0, 1.0, 2.0]), np.array([5.0, 5.0, 5.0])
    found = in_flight(arrival_s, departure_s, np.array([0, 1, 0]))
    np.testing.assert_array_equal(found, [0, 0, 1])


def test_the_response_of_requests_that_met_an_idle_system_is_the_service() -> None:
    service_s = drawn_service_s(100)
    first_s, left_s = alone_in_turn(service_s)
    # A second request behind each: 10 ms later, served after it.
    arrival_s = np.concatenate([first_s, first_s + 0.01])
    departure_s = np.concatenate([left_s, left_s + 0.1])
    found = idle_service(arrival_s, departure_s, np.random.default_rng(1))
    assert (found.requests, found.share) == (100, 0.5)
    assert found.mean_s == pytest.approx(service_s.mean())
    assert found.floor_s == pytest.approx(np.quantile(service_s, 0.05))
    assert found.mean_interval_s.low < service_s.mean() < found.mean_interval_s.high
    assert found.noise_cv == pytest.approx(service_s.std(ddof=1) / service_s.mean())
    assert found.alone == 0  # company came during every stay
    assert np.isnan(found.alone_median_s)
    assert not found.waits
    assert found.identifiable == ("alpha_s + beta_s",)  # nothing on larger batches


def test_failed_requests_occupy_the_system_but_do_not_count() -> None:
    arrival_s, departure_s = alone_in_turn(drawn_service_s(60))
    answered = np.arange(60) % 2 == 0
    found = idle_service(arrival_s, departure_s, np.random.default_rng(1), answered=answered)
    assert (found.requests, found.alone) == (30, 30)


def test_sizes_that_differ_tell_overhead_and_marginal_cost_of_batches_of_one() -> None:
    size = np.random.default_rng(2).uniform(1.0, 20.0, 200)
    arrival_s, departure_s = alone_in_turn(0.05 + 0.01 * size)
    found = idle_service(arrival_s, departure_s, np.random.default_rng(1), size=size)
    assert found.fit is not None
    assert found.fit[:2] == pytest.approx((0.05, 0.01))
    assert found.noise_cv == pytest.approx(0.0, abs=1e-6)
    assert found.identifiable == ("alpha_s", "beta_s over size")
    assert not found.waits  # a wide spread, and all of it is size


def test_sizes_that_are_alike_tell_the_sum_alone() -> None:
    size = np.random.default_rng(2).uniform(10.0, 11.0, 200)
    arrival_s, departure_s = alone_in_turn(0.05 + 0.01 * size)
    found = idle_service(arrival_s, departure_s, np.random.default_rng(1), size=size)
    assert found.fit is None
    assert found.identifiable == ("alpha_s + beta_s",)


def test_a_server_that_waits_for_company_is_told_by_its_spread() -> None:
    # Four in five wait up to a batch timeout of 0.5 s; the floor is still the service.
    service_s = drawn_service_s(200)
    wait_s = np.where(np.arange(200) % 5 == 0, 0.0, 0.5)
    found = idle_service(*alone_in_turn(service_s + wait_s), np.random.default_rng(1))
    assert found.waits
    assert found.floor_s == pytest.approx(0.1, abs=0.01)
    assert found.median_s > 0.5


def test_a_log_that_is_never_idle_is_refused() -> None:
    arrival_s = 0.1 * np.arange(100)
    with pytest.raises(ValueError, match="requests = 1: of 100 requests met an idle system"):
        idle_service(arrival_s, arrival_s + 0.15, np.random.default_rng(1))


def test_times_that_cannot_be_are_refused() -> None:
    arrival_s, departure_s = alone_in_turn(drawn_service_s(30))
    unknown, early = departure_s.copy(), departure_s.copy()
    unknown[3], early[3] = np.nan, arrival_s[3] - 1.0
    with pytest.raises(ValueError, match="departure_s = 'nan': must be known"):
        idle_service(arrival_s, unknown, np.random.default_rng(1))
    with pytest.raises(ValueError, match=r"must not be before the arrival .*; 1 requests are"):
        idle_service(arrival_s, early, np.random.default_rng(1))


def test_the_overlap_gives_a_line_that_calls_itself_derived() -> None:
    # A request that finds n others takes 0.1 + 0.05 (1 + n): pairs, 10 ms apart.
    first_s = 10.0 * np.arange(50)
    arrival_s = np.concatenate([first_s, first_s + 0.01])
    departure_s = arrival_s + np.repeat([0.15, 0.20], 50)
    found = fit_overlap(arrival_s, departure_s)
    assert (found.alpha_s, found.beta_s) == pytest.approx((0.1, 0.05))
    assert found.origin == "derived"
