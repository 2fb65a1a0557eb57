"""BATCH: its analytic tail against simulation, its fit by hand, and what a step of rates does."""

import math
from typing import Any

import numpy as np
import pytest

from simulator.action import action_table, legal_actions
from simulator.observation import Observation, empty_observation
from simulator.policies import build_policy
from simulator.policies.batch.batch_resolve import (
    BINS,
    TIMEOUT_SHARES,
    BatchResolve,
    fitted_arrivals,
)
from simulator.policies.batch.batch_tail import Candidates, best_set_point, formed_batches
from simulator.policies.registry import RULES
from simulator.replica import Replica
from simulator.scenario import ClassChoice, MixedBatches, RequestClass, Scenario

LINE_S = 0.002 + 0.005 * np.arange(1, 17)
SLO_S = 0.1
INTERVAL_S = 1.6  # bins of 0.1 s
ONE = Scenario(
    (RequestClass("only", SLO_S),), (Replica((0.002,), (0.005,), (0.0,), 16),), (1, 2, 4, 8, 16)
)


def simulated(
    rate_rps: float, timeout_s: float, latency_s: np.ndarray, within_s: float, seed: int
) -> np.ndarray:
    """Requests, latency and late requests of 40,000 batches that were formed: `[40000, 3]`."""
    generator, most = np.random.default_rng(seed), len(latency_s)
    gap_s = generator.exponential(1.0 / rate_rps, (40_000, most))
    gap_s[:, 0] = 0.0
    arrival_s = np.cumsum(gap_s, axis=1)  # after the first of the batch
    inside = arrival_s <= timeout_s
    size = inside.sum(axis=1)
    leaves_s = np.where(size == most, arrival_s[:, -1], timeout_s)
    response_s = leaves_s[:, None] - arrival_s + latency_s[size - 1][:, None]
    late = (inside & (response_s > within_s)).sum(axis=1)
    return np.column_stack([size, latency_s[size - 1], late])


@pytest.mark.parametrize(
    ("rate_rps", "timeout_s", "most", "within_s"),
    [
        (100.0, 0.05, 8, 0.08),
        (100.0, 0.05, 8, 0.06),
        (100.0, 0.05, 8, 0.03),  # full batches take longer than that
        (100.0, 0.05, 4, 0.04),
        (200.0, 0.03, 16, 0.05),
        (50.0, 0.10, 2, 0.03),
        (500.0, 0.10, 3, 0.02),
    ],
)
def test_tail_is_that_of_simulated_batches(rate_rps, timeout_s, most, within_s):
    latency_s = LINE_S[:most]
    formed = formed_batches(rate_rps, np.array([timeout_s]), latency_s, within_s)
    found = simulated(rate_rps, timeout_s, latency_s, within_s, seed=1)
    error = found.std(axis=0) / math.sqrt(len(found))
    for value, mean, deviation in zip(formed, found.mean(axis=0), error, strict=True):
        assert value[0] == pytest.approx(mean, abs=4.0 * deviation + 1e-12)


def test_tail_without_company_is_the_latency_of_one():
    for most, timeout_s in [(1, 0.05), (4, 0.0)]:
        for within_s, late in [(0.008, 0.0), (0.006, 1.0)]:  # L(1) = 7 ms
            formed = formed_batches(100.0, np.array([timeout_s]), LINE_S[:most], within_s)
            assert formed.requests[0] == pytest.approx(1.0)
            assert formed.busy_s[0] == pytest.approx(0.007)
            assert formed.late[0] == pytest.approx(late)


def test_no_batch_is_late_where_timeout_and_latency_fit_within():
    formed = formed_batches(100.0, np.array([0.0, 0.01, 0.02]), LINE_S[:8], 0.02 + 0.043)
    np.testing.assert_allclose(formed.late, 0.0, atol=1e-9)


def set_point(rates_rps: list[float], percentile: float = 0.95, replicas: int = 4) -> tuple:
    """The best (size, timeout) in an SLO of 100 ms."""
    sizes, timeout_s = np.array([1, 2, 4, 8, 16]), SLO_S * np.array(TIMEOUT_SHARES)
    candidates = Candidates(sizes, timeout_s, LINE_S)
    point = best_set_point(np.array(rates_rps), candidates, SLO_S, percentile, replicas)
    return int(sizes[point.place]), point.timeout_s


def test_best_set_point_is_the_cheapest_that_keeps_the_percentile_by_simulation():
    # Each request of a batch of b costs (2 + 5 b) / b ms: the fewer batches, the cheaper.
    size, timeout_s = set_point([100.0])
    costs = {}
    for b in (1, 2, 4, 8, 16):
        for tau in SLO_S * np.array(TIMEOUT_SHARES):
            found = simulated(100.0, tau, LINE_S[:b], SLO_S, seed=2).sum(axis=0)
            if found[2] / found[0] < 0.05:
                costs[b, tau] = found[1] / found[0]
    least = min(costs.values())
    assert costs[size, timeout_s] == pytest.approx(least, rel=0.005)


def test_burstiness_and_a_stricter_percentile_shorten_the_timeout():
    relaxed, strict = set_point([50.0], 0.9), set_point([50.0], 0.995)
    assert strict[1] < relaxed[1]
    steady, bursty = set_point([40.0, 40.0]), set_point([4.0, 76.0])
    assert bursty[0] == steady[0] == 8
    assert bursty[1] < steady[1]


def test_an_overload_sends_the_largest_batches_without_a_timeout():
    # 16 requests take 82 ms: a replica carries 195 per second.
    assert set_point([400.0], replicas=1) == (16, 0.0)
    assert set_point([1.0, 399.0], replicas=1) == (16, 0.0)  # its busier phase does
    assert set_point([10.0], replicas=1) != (16, 0.0)


def counted(count: np.ndarray, time_s: np.ndarray) -> dict[str, np.ndarray]:
    """The memory of one lane and class after bins of `count` requests in `time_s`."""
    by_lane = {"bins": len(count), "time": time_s.sum(), "time_2": (time_s**2).sum()}
    by_class = {
        "count": count.sum(),
        "count_2": (count**2).sum(),
        "count_time": (count * time_s).sum(),
    }
    memory = {name: np.array([float(value)]) for name, value in by_lane.items()}
    return memory | {name: np.array([[float(value)]]) for name, value in by_class.items()}


def test_fit_is_the_rate_and_what_the_variance_has_beyond_poisson():
    # 16 bins of 2 s, 20 and 60 by turns: m = 20/s. sum (N - 40)^2 = 16 * 400; times 16 / 15, minus
    # 640 requests, over 16 * 4 s^2: s^2 = 96.67, s = 9.832 = 0.4916 m.
    counts = np.tile([20.0, 60.0], 8)
    rate_rps, excess = fitted_arrivals(counted(counts, np.full(16, 2.0)), np.array([0]))
    assert rate_rps[0, 0] == pytest.approx(20.0)
    assert excess[0, 0] == pytest.approx(0.4916, abs=1e-4)
    # Less than Poisson is taken as Poisson; more than the mean is cut at it; one bin says nothing.
    for count, expected in [(np.full(16, 40.0), 0.0), (np.r_[np.zeros(15), 900.0], 1.0)]:
        _, excess = fitted_arrivals(counted(count, np.full(16, 2.0)), np.array([0]))
        assert excess[0, 0] == expected
    _, excess = fitted_arrivals(counted(np.array([9.0]), np.array([2.0])), np.array([0]))
    assert excess[0, 0] == 0.0


def test_poisson_arrivals_seen_at_arrivals_look_poisson():
    # Bins end with the first arrival after 0.1 s. s^2, before it is cut at 0, has mean 0 and is
    # nearly symmetric (16 bins): 50 to 65 percent of the lanes show nothing.
    generator = np.random.default_rng(3)
    lanes, rate_rps = 2000, 300.0
    excess = np.zeros(lanes)
    for lane in range(lanes):
        arrival_s = np.cumsum(generator.exponential(1.0 / rate_rps, 900))
        ends, place = [0], 0
        while len(ends) <= BINS:
            before_s = arrival_s[place - 1] if place else 0.0
            place = int(np.searchsorted(arrival_s, before_s + 0.1)) + 1
            ends.append(place)
        ends_s = np.r_[0.0, arrival_s[np.array(ends[1:]) - 1]]
        memory = counted(np.diff(ends).astype(float), np.diff(ends_s))
        excess[lane] = fitted_arrivals(memory, np.array([0]))[1][0, 0]
    assert 0.5 < (excess == 0.0).mean() < 0.65
    assert excess.mean() < 0.1


def moment(
    scenario: Scenario, clock_s: np.ndarray, arrived: np.ndarray, waiting: float, wait_s: float
) -> tuple[Observation, np.ndarray]:
    """Lanes at `clock_s [B]`, with everything free and `waiting` requests of each class."""
    lanes, classes = arrived.shape
    observation = empty_observation(scenario, lanes)._replace(
        clock_s=clock_s,
        arrived=arrived,
        queue_length=np.full((lanes, classes), waiting),
        oldest_wait_s=np.full((lanes, classes), wait_s),
        head_class=np.zeros(lanes, np.int64),
        can_take=np.ones((lanes, len(scenario.replicas))),
    )
    mask = legal_actions(
        action_table(scenario),
        observation.queue_length,
        observation.can_take,
        scenario.parameters().max_batch_size,
    )
    return observation, mask


def sizes_asked(rule: BatchResolve, scenario: Scenario, *at: Any) -> list[int]:
    """The batch size that the rule asks for in each lane, 0 for WAIT."""
    rows = rule.action_probabilities(*moment(scenario, *at))
    return action_table(scenario).batch_size[rows.argmax(axis=1)].tolist()


def test_it_solves_again_after_a_step_of_the_arrival_rate():
    # Regular arrivals, seen every 0.1 s: no burstiness. Lane 0 steps from 20 to 80 per second after
    # 1.6 s, lane 1 the other way. Solved for the upper end of a step of a sixteenth of a doubling.
    def upper(rate_rps: float) -> float:
        return 2.0 ** (math.ceil(16 * math.log2(rate_rps)) / 16)

    slow, quick = (set_point([upper(rate)] * 2, replicas=1) for rate in (20.0, 80.0))
    print(f"20/s: {slow}, 80/s: {quick}")
    assert slow != quick
    rule = BatchResolve(ONE, INTERVAL_S)
    rule.reset(2)
    assert sizes_asked(rule, ONE, np.zeros(2), np.zeros((2, 1)), 16.0, 0.0) == [16, 16]
    # Until the end of the first interval: the largest size, no timeout.
    assert sizes_asked(rule, ONE, np.full(2, 0.05), np.zeros((2, 1)), 1.0, 0.0) == [1, 1]
    arrived, rates_rps = np.zeros((2, 1)), np.array([[20.0], [80.0]])
    for tick in range(1, 36):
        arrived = arrived + rates_rps * 0.1
        if tick == 17:
            rates_rps = rates_rps[::-1]
        clock_s = np.full(2, 0.1 * tick + 1e-9 * tick)
        sizes_asked(rule, ONE, clock_s, arrived, 0.0, 0.0)
        if tick in (17, 35):
            expected = (slow, quick) if tick == 17 else (quick, slow)
            for lane, (size, timeout_s) in enumerate(expected):
                for wait_s, due in [(timeout_s - 1e-6, size == 1), (timeout_s + 1e-6, True)]:
                    asked = sizes_asked(rule, ONE, clock_s, arrived, 1.0, wait_s)
                    assert (asked[lane] > 0) == due
                assert sizes_asked(rule, ONE, clock_s, arrived, 16.0, 0.0)[lane] == size


def test_a_class_without_arrivals_keeps_what_it_had():
    rule = BatchResolve(ONE, INTERVAL_S)
    rule.reset(1)
    for clock_s in np.arange(0.0, 5.0, 0.1):
        sizes_asked(rule, ONE, np.array([clock_s]), np.zeros((1, 1)), 0.0, 0.0)
    assert sizes_asked(rule, ONE, np.array([5.0]), np.zeros((1, 1)), 16.0, 0.0) == [16]
    assert sizes_asked(rule, ONE, np.array([5.0]), np.zeros((1, 1)), 1.0, 0.0) == [1]


def test_lanes_with_the_same_arrivals_share_one_solution(monkeypatch):
    solved = []
    module = "simulator.policies.batch.batch_resolve.best_set_point"
    monkeypatch.setattr(module, lambda *given: solved.append(given) or best_set_point(*given))
    rule = BatchResolve(ONE, INTERVAL_S)
    for _ in range(2):  # nor does a new episode solve again
        rule.reset(50)
        for tick in range(40):
            clock_s = np.full(50, 0.1 * tick + 1e-9 * tick)
            sizes_asked(rule, ONE, clock_s, np.full((50, 1), 3.0 * tick), 0.0, 0.0)
    assert len(solved) == 1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"interval_s": 0.0}, "batch_resolve.interval_s = 0.0: must be"),
        ({"interval_s": 1.0, "percentile": 1.0}, "batch_resolve.percentile = 1.0: must be above 0"),
        ({"interval_s": 1.0, "percentile": True}, "batch_resolve.percentile = True"),
    ],
)
def test_bad_parameters_are_refused_by_name(parameters, message):
    with pytest.raises(ValueError, match=message):
        build_policy("batch_resolve", ONE, parameters)


def test_it_needs_the_batch_latency_of_one_class():
    mixed = Scenario(
        (RequestClass("fast", 0.1), RequestClass("slow", 0.5)),
        (Replica((0.002, 0.002), (0.005, 0.02), (0.0, 0.0), 16),),
        (1, 2, 4),
        class_choice=ClassChoice.HEAD_OF_LINE,
        mixed=MixedBatches.SLOWEST,
    )
    assert "mixed batches" in (RULES["batch_resolve"].misfit(mixed) or "")
    assert RULES["batch_resolve"].misfit(ONE) is None
