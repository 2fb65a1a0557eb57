"""A trace replayed as overlapping windows over lanes tells what one lane tells."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.environment import Environment, RequestRecords
from simulator.metrics import class_metrics
from simulator.observation import Observation
from simulator.policies import Policy, build_policy
from simulator.replica import Replica
from simulator.reward import paper_reward
from simulator.rollout import run_episodes
from simulator.scenario import RequestClass, Scenario
from simulator.state import Recording, RequestStatus
from simulator.windows import Windows, merged_records, split_windows
from simulator.workload import Arrivals, RecordedWorkload, Workload

SPAN_S = 64.0
COOLDOWN_S = 4.0
FINEST_S = 2.0**-10  # sums of multiples of it are exact in floating point


def cluster(batch_sizes: tuple[int, ...], queue_capacity: int = 100) -> Scenario:
    """Two replicas; b requests take 16 + 4 b of the finest times, or twice that if slow."""
    classes = (RequestClass("fast", 0.1), RequestClass("slow", 0.5))
    alpha_s, beta_s = (16 * FINEST_S, 32 * FINEST_S), (4 * FINEST_S, 8 * FINEST_S)
    replica = Replica(alpha_s, beta_s, (0.0, 0.0), batch_sizes[-1])
    return Scenario(classes, (replica, replica), batch_sizes, queue_capacity)


def poisson_trace(rate_rps: float, seed: int, finest_s: float = FINEST_S) -> Arrivals:
    """Poisson arrivals over the span at whole multiples of `finest_s`, the classes drawn evenly."""
    generator = np.random.default_rng(seed)
    count = generator.poisson(rate_rps * SPAN_S)
    arrival_s = np.sort(generator.uniform(0.0, SPAN_S, count)) // finest_s * finest_s
    return Arrivals(arrival_s, generator.integers(0, 2, count), np.ones(count))


def replay(
    scenario: Scenario, workload: Workload | list[Workload], horizon_s: float, policy: Policy
) -> RequestRecords:
    """The records of one episode in each lane."""
    lanes = len(workload) if isinstance(workload, list) else 1
    environment = Environment(
        scenario,
        workload,
        lanes,
        horizon_s,
        paper_reward(scenario),
        np.random.default_rng(0),
        recording=Recording(requests=True),
    )
    run_episodes(environment, policy, np.random.default_rng(0))
    return environment.request_records()


def replay_both(
    scenario: Scenario, arrivals: Arrivals, lanes: int, warmup_s: float, policy: Policy
) -> tuple[Windows, RequestRecords, RequestRecords]:
    """The windows, their merged records, and those of one lane that replays the whole trace."""
    windows = split_windows(arrivals, SPAN_S, lanes, warmup_s, COOLDOWN_S)
    records = replay(scenario, list(windows.workloads), windows.horizon_s, policy)
    alone = replay(scenario, RecordedWorkload(arrivals), SPAN_S + COOLDOWN_S, policy)
    return windows, merged_records(windows, records), alone


def empty_instants_s(records: RequestRecords) -> np.ndarray:
    """The arrivals of one lane that found nothing in the system."""
    last_departure_s = np.fmax.accumulate(np.concatenate([[0.0], records.departure_s[:-1]]))
    return records.arrival_s[records.arrival_s >= last_departure_s]


def test_requests_after_an_empty_moment_depart_at_the_very_instants_of_one_lane() -> None:
    # FIFO, batches of one: as a window begins with less work, it is empty whenever the one lane is
    # (Kiefer and Wolfowitz 1955); from then on the two are the same system.
    scenario = cluster((1,))
    policy = build_policy("static_cap", scenario, {"batch_size": 1})
    # Service takes 30 finest times on average: offered load 64 * 30 / 1024 / 2 = 0.94.
    arrivals, lanes = poisson_trace(64.0, seed=4), 8
    windows, merged, alone = replay_both(scenario, arrivals, lanes, 1.0, policy)
    empty_s = empty_instants_s(alone)
    in_warmup = 0
    for lane in range(lanes):
        edge_s, end_s = windows.start_s[lane] + windows.counted_s[lane]
        first_empty_s = empty_s[empty_s >= windows.start_s[lane]].min(initial=np.inf)
        in_warmup += first_empty_s < edge_s
        same = (alone.arrival_s >= max(edge_s, first_empty_s)) & (alone.arrival_s < end_s)
        np.testing.assert_array_equal(merged.arrival_s[same], alone.arrival_s[same])
        np.testing.assert_array_equal(merged.dispatch_s[same], alone.dispatch_s[same])
        np.testing.assert_array_equal(merged.departure_s[same], alone.departure_s[same])
    assert 1 < in_warmup < lanes  # both kinds of window occur
    assert (merged.departure_s != alone.departure_s).any()  # of requests before such a moment


def test_where_every_warm_up_has_an_empty_moment_all_requests_are_those_of_one_lane() -> None:
    scenario = cluster((1, 2, 4, 8))
    policy = build_policy(
        "batch_timeout", scenario, {"max_batch_size": 4, "batch_timeout_s": 0.0187}
    )
    arrivals = poisson_trace(20.0, seed=4, finest_s=1e-9)
    windows, merged, alone = replay_both(scenario, arrivals, 6, 2.0, policy)
    for lane in range(1, 6):
        edge_s = windows.start_s[lane] + windows.counted_s[lane, 0]
        empty_s = empty_instants_s(alone)
        assert ((empty_s >= windows.start_s[lane]) & (empty_s < edge_s)).any()
    assert (merged.status == RequestStatus.COMPLETED).all()
    for field in ("request_class", "status", "lane"):
        np.testing.assert_array_equal(getattr(merged, field), getattr(alone, field))
    for field in ("arrival_s", "dispatch_s", "departure_s"):
        # Instants up to 68 s have an ulp of 1.4e-14 s; a chain of services adds up a few of them.
        np.testing.assert_allclose(getattr(merged, field), getattr(alone, field), atol=1e-11)


class RateFollower:
    """Sends up to 8 where requests come faster than `limit_rps`, else up to 2: it has a memory."""

    name = "rate_follower"

    def __init__(self, scenario: Scenario, limit_rps: float) -> None:
        self._small, self._large = (
            build_policy("static_cap", scenario, {"batch_size": size}) for size in (2, 8)
        )
        self._limit_rps = limit_rps

    def reset(self, lanes: int) -> None:
        """Nothing to forget."""

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        busy = observation.arrival_rate_rps.sum(axis=1) > self._limit_rps
        return np.where(
            busy[:, None],
            self._large.action_probabilities(observation, action_mask),
            self._small.action_probabilities(observation, action_mask),
        )


def test_metrics_of_a_loaded_cluster_are_those_of_one_lane_after_a_warm_up_alone() -> None:
    # The rule's memory fades as exp(-t / 1 s): after 8 s of warm-up 0.03 % of it is left.
    scenario = cluster((1, 2, 4, 8), queue_capacity=12)
    arrivals = poisson_trace(120.0, seed=5)
    policy = RateFollower(scenario, 120.0)
    _, merged, alone = replay_both(scenario, arrivals, 4, 8.0, policy)
    _, without_warmup, _ = replay_both(scenario, arrivals, 4, 0.0, policy)
    for request_class in range(2):
        ours, theirs, cold = (
            class_metrics(records, request_class, 0.1, SPAN_S)
            for records in (merged, alone, without_warmup)
        )
        assert ours.offered == theirs.offered == cold.offered
        assert ours.in_system == theirs.in_system == 0
        assert theirs.shed_fraction > 0.01  # the queue fills up
        assert ours.shed_fraction == pytest.approx(theirs.shed_fraction, abs=0.001)
        assert cold.shed_fraction != pytest.approx(theirs.shed_fraction, abs=0.001)
        for field in ("mean", "p50", "p95", "p99"):
            name = f"response_{field}_s"
            assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=0.01)
            assert getattr(cold, name) != pytest.approx(getattr(theirs, name), rel=0.01)


@given(
    instants=st.lists(st.floats(0.0, 10.0, exclude_max=True), max_size=30),
    lanes=st.integers(1, 12),
    warmup_s=st.floats(0.0, 12.0),
    cooldown_s=st.sampled_from([0.0, 0.3, 20.0]),
)
@settings(max_examples=200, deadline=None)
def test_every_request_is_counted_once_by_a_lane_in_which_it_arrives(
    instants: list[float], lanes: int, warmup_s: float, cooldown_s: float
) -> None:
    edge_s = np.arange(1, lanes + 1) * 10.0 / lanes
    # On every edge, and at the last instant before it, where rounding could lose a request.
    arrival_s = np.sort([*instants, *edge_s[:-1], *np.nextafter(edge_s, 0.0)])
    mark = np.arange(len(arrival_s)) + 1.0  # the size tells which request it is
    arrivals = Arrivals(arrival_s, np.zeros(len(mark), int), mark)
    windows = split_windows(arrivals, 10.0, lanes, warmup_s, cooldown_s)
    counted = []
    for lane, workload in enumerate(windows.workloads):
        drawn = workload.draw(windows.horizon_s, np.random.default_rng(0))
        first, end = windows.counted_request[lane]
        assert end <= len(drawn.arrival_s)
        counted.append(drawn.size[first:end])
        low_s, high_s = windows.counted_s[lane]
        assert low_s == pytest.approx(min(warmup_s, 10.0 * lane / lanes))  # none before the trace
        start_s = windows.start_s[lane]
        whole = (arrival_s >= start_s) & (arrival_s < start_s + windows.horizon_s)
        np.testing.assert_array_equal(drawn.size, mark[whole])  # the cool-down is as busy as ever
        clock_s = drawn.arrival_s[first:end]
        assert ((clock_s >= low_s - 1e-12) & (clock_s <= high_s + 1e-12)).all()
    np.testing.assert_array_equal(np.concatenate(counted), mark)


def test_a_lane_that_has_not_run_through_its_counted_part_is_refused() -> None:
    scenario = cluster((1,))
    windows = split_windows(poisson_trace(20.0, seed=6), SPAN_S, 4, 2.0, COOLDOWN_S)
    policy = build_policy("static_cap", scenario, {"batch_size": 1})
    records = replay(scenario, list(windows.workloads), 10.0, policy)
    with pytest.raises(ValueError, match="lane 0 counts requests up to"):
        merged_records(windows, records)
    records = replay(scenario, [*windows.workloads, *windows.workloads], 10.0, policy)
    with pytest.raises(ValueError, match=r"records\.lane = 7: the windows have 4 lanes"):
        merged_records(windows, records)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"warmup_s": -0.1}, "warmup_s = -0.1: must be finite and at least 0"),
        ({"cooldown_s": float("nan")}, "cooldown_s = nan: must be finite and at least 0"),
        ({"lanes": 0}, "lanes = 0: must be at least 1"),
        ({"span_s": 0.0}, "span_s = 0.0: must be positive and finite"),
        ({"span_s": 3.0}, "span_s = 3.0: must be above the last arrival_s 3.0"),
        ({"arrival_s": [3.0, 1.0]}, r"arrival_s\[1\] = 1.0: must be ascending"),
    ],
)
def test_bad_windows_are_refused_with_field_value_and_rule(change: dict, rule: str) -> None:
    given_values = {"span_s": 4.0, "lanes": 2, "warmup_s": 1.0, "cooldown_s": 1.0} | change
    arrival_s = np.array(given_values.pop("arrival_s", [1.0, 3.0]))
    arrivals = Arrivals(arrival_s, np.zeros(2, int), np.ones(2))
    with pytest.raises(ValueError, match=rule):
        split_windows(arrivals, **given_values)
