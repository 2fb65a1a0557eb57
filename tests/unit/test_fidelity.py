"""Logged against simulated: replay, load bands, rows by class and band, and who fails."""

from typing import Any

import numpy as np
import pytest

from pipeline.calibration.fidelity import (
    Fidelity,
    FidelityRules,
    Gate,
    Outcome,
    Replay,
    ReplayedPolicy,
    band_names,
    describe_fidelity,
    fidelity_failures,
    fidelity_of_log,
    from_json,
    largest_batch,
    load_bands,
    logged_policy,
    replay_batches,
    replay_response_s,
    to_json,
)
from pipeline.calibration.log import LoggedRequests, LoggedRun
from simulator.policies.registry import build_policy
from simulator.replica import Replica
from simulator.scenario import RequestClass, Scenario
from simulator.workload import Arrivals

SCENARIO = Scenario(
    (RequestClass("fast", 0.1), RequestClass("slow", 0.5)),
    (Replica((0.01, 0.02), (0.01, 0.02), (0.0, 0.0), 4),),
    batch_sizes=(1, 2, 4),
    queue_capacity=4,
)
NAMES = SCENARIO.class_names
NAN = float("nan")
GATE = Gate({"mean": 0.2, "p50": 0.15, "p95": 0.25, "p99": 0.35, "throughput": 0.1}, 50)
CAP = build_policy("static_cap", SCENARIO, {"batch_size": 4})
POLICY = ReplayedPolicy("static_cap", {"batch_size": 4}, 0.0, "declared")
STATISTICS = ["mean", "p50", "p95", "p99"]


def arrivals(instants_s: list[float], classes: list[int] | None = None) -> Arrivals:
    count = len(instants_s)
    return Arrivals(np.array(instants_s), np.array(classes or [0] * count), np.ones(count))


def generator() -> np.random.Generator:
    return np.random.default_rng(2)


def test_a_replay_gives_each_request_its_response_time_and_nan_where_shed() -> None:
    # Six at once, four places: four go together in 50 ms, two are shed; the slow one is alone.
    logged = arrivals([0.0] * 6 + [9.99], [0] * 6 + [1])
    found = replay_response_s(SCENARIO, CAP, logged, 10.0, 2, generator())
    expected = [0.05] * 4 + [NAN] * 2 + [0.04]  # the last answer comes after the end of the log
    assert found == pytest.approx(np.array([expected, expected]), nan_ok=True)


def test_replays_meet_other_noise_and_a_generator_repeats_them() -> None:
    noisy = Scenario(
        SCENARIO.request_classes,
        (Replica((0.01, 0.02), (0.01, 0.02), (0.3, 0.3), 4),),
        batch_sizes=(1, 2, 4),
    )
    policy = build_policy("static_cap", noisy, {"batch_size": 4})
    logged = arrivals([0.0, 1.0, 2.0])
    first, again = (replay_response_s(noisy, policy, logged, 3.0, 2, generator()) for _ in range(2))
    assert first.tolist() == again.tolist()
    assert first[0].tolist() != first[1].tolist()


def test_bands_are_named_by_their_edges_and_an_edge_belongs_to_the_middle() -> None:
    assert band_names((0.7, 1.0)) == ("< 0.7", "0.7-1", "> 1")
    bands = load_bands(np.array([0.69, 0.7, 1.0, 1.01, 0.0]), (0.7, 1.0), 25.0)
    assert bands.band.tolist() == [0, 1, 1, 2, 0]
    assert band_names((0.9,)) == ("<= 0.9", "> 0.9")
    assert load_bands(np.array([0.9, 0.91]), (0.9,), 10.0).band.tolist() == [0, 1]
    assert band_names(()) == ()


@pytest.mark.parametrize("edges", [(1.0, 0.7), (0.7, 0.7), (0.0, 1.0), (-1.0,), (float("inf"),)])
def test_edges_of_bands_that_do_not_ascend_from_0_are_refused(edges: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"bands = .*must be above 0 and ascend"):
        band_names(edges)


def log_of(
    policy: Any, instants_s: list[float], response_s: list[float], classes: list[int] | None = None
) -> LoggedRun:
    """The batches of a log play no part in its replay."""
    unused: Any = None
    system = {"policy": policy}
    logged = arrivals(instants_s, classes)
    return LoggedRun(system, 12.0, logged, np.array(response_s), unused)


def test_offered_load_is_the_service_time_that_arrives_at_the_largest_batch_of_the_policy() -> None:
    told = {"name": "static_cap", "parameters": {"batch_size": 2}}
    run = log_of(told, [0.0, 1.0, 6.0, 11.0], [0.1] * 4, [0, 1, 1, 0])
    replay = replay_batches(run, SCENARIO, 1, generator())
    assert replay.at_batch_size == {"fast": 2, "slow": 2}
    # A fast request is 10 / 2 + 10 ms of work, a slow one 20 / 2 + 20 ms; the last window has 2 s.
    assert replay.offered_load == pytest.approx([0.045 / 5, 0.030 / 5, 0.015 / 2])


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"max_batch_size": 2, "batch_timeout_s": 0.01}, {"fast": 2, "slow": 2}),
        ({"batch_size": {"fast": 4, "slow": 1}}, {"fast": 4, "slow": 1}),
        ({"batch_size": 99}, {"fast": 4, "slow": 4}),
        ({"batch_size": None}, {"fast": 4, "slow": 4}),
        (None, {"fast": 4, "slow": 4}),
    ],
)
def test_the_largest_batch_is_that_of_the_policy_or_of_the_replica(
    parameters: Any, expected: dict[str, int]
) -> None:
    assert largest_batch({"policy": {"name": "x", "parameters": parameters}}, SCENARIO) == expected


def test_batch_sizes_of_log_and_replay_are_counted_by_request() -> None:
    # Six at once: four go together, two are shed; one alone follows. The log had 2, 2 and 1.
    told = {"name": "static_cap", "parameters": {"batch_size": 4}}
    run = log_of(told, [0.0] * 6 + [4.0], [0.1] * 4 + [NAN] * 2 + [0.1])
    batch = np.array([0, 0, 1, 1, -1, -1, 2])
    nothing = np.full(7, NAN)
    requests = LoggedRequests(nothing, nothing, nothing, np.zeros(7), batch, batch >= 0)
    replay = replay_batches(run._replace(requests=requests), SCENARIO, 2, generator())
    assert replay.logged.batch_size is not None
    assert replay.simulated.batch_size is not None
    assert replay.logged.batch_size.tolist() == [2, 2, 2, 2, 0, 0, 1]
    assert replay.simulated.batch_size.tolist() == [[4, 4, 4, 4, 0, 0, 1]] * 2


def two_windows(logged_s: np.ndarray, simulated_s: np.ndarray, late: np.ndarray) -> Replay:
    """A log of 10 s; requests arrive at 1 s, `late [R]` ones at 6 s; loads 0.5 and 1.5."""
    arrival_s = np.where(late, 6.0, 1.0)
    instants = Arrivals(arrival_s, np.zeros(len(late), int), np.ones(len(late)))
    return Replay(
        ("fast",),
        10.0,
        instants,
        Outcome(arrival_s + logged_s, {"response_s": logged_s}),
        Outcome(arrival_s + simulated_s, {"response_s": simulated_s}),
        np.array([0.5, 1.5]),
        {"fast": 4},
    )


def compared(replay: Replay, gate: Gate = GATE) -> Fidelity:
    return fidelity_of_log(replay, POLICY, gate, FidelityRules(), generator())


def test_rows_compare_statistics_by_band_over_all_first() -> None:
    count = 101
    logged_s = np.concatenate([np.linspace(0.0, 1.0, count), np.full(3, 0.5)])
    late = np.arange(count + 3) >= count
    # Three replays, 10 %, 20 % and 60 % slower: the median replay counts.
    fidelity = compared(two_windows(logged_s, np.outer([1.1, 1.6, 1.2], logged_s), late))
    rows = [row for row in fidelity.rows if row.metric == "response_s"]
    assert [row.band for row in rows[::4]] == ["all", "< 0.7", "> 1"]
    assert [row.statistic for row in rows[:4]] == STATISTICS
    assert [row.logged for row in rows[4:8]] == pytest.approx([0.5, 0.5, 0.95, 0.99])
    assert [row.simulated for row in rows[4:8]] == pytest.approx([0.6, 0.6, 1.14, 1.188])
    assert [row.error for row in rows] == pytest.approx([0.2] * 12)
    assert [row.requests for row in rows[::4]] == [count + 3, count, 3]
    shares = [(band.name, band.share) for band in fidelity.bands]
    assert shares == [("< 0.7", 0.5), ("0.7-1", 0.0), ("> 1", 0.5)]


def test_the_interval_reaches_over_the_replays() -> None:
    logged_s = np.linspace(0.1, 1.0, 100)
    fidelity = compared(
        two_windows(logged_s, np.outer([0.9, 1.0, 1.2], logged_s), np.arange(100) % 2 == 0)
    )
    median = next(row for row in fidelity.rows if row.statistic == "p50")
    assert (median.low, median.high) == pytest.approx((-0.1, 0.2))


def test_a_replay_that_is_the_log_has_no_error_and_no_interval() -> None:
    logged_s = np.random.default_rng(0).exponential(1.0, 200)
    fidelity = compared(two_windows(logged_s, logged_s[None], np.arange(200) >= 90))
    for row in fidelity.rows:
        if row.band == "all":
            assert (row.error, row.low, row.high) == (0.0, 0.0, 0.0)


def test_throughput_counts_departures_in_the_time_of_the_band_whenever_they_arrived() -> None:
    # Logged: departures at 2, 3, 7 and 8 s; simulated: at 2, 6, 7 and 11 s, after the log.
    logged_s = np.array([1.0, 2.0, 6.0, 2.0])
    simulated_s = np.array([[1.0, 5.0, 6.0, 5.0]])
    fidelity = compared(two_windows(logged_s, simulated_s, np.array([False] * 3 + [True])))
    rows = {row.band: row for row in fidelity.rows if row.metric == "throughput_rps"}
    assert (rows["all"].logged, rows["all"].simulated) == pytest.approx((0.4, 0.3))
    assert (rows["< 0.7"].logged, rows["< 0.7"].simulated) == pytest.approx((0.4, 0.2))
    assert (rows["> 1"].logged, rows["> 1"].simulated) == pytest.approx((0.4, 0.4))
    assert rows["all"].error == pytest.approx(-0.25)


def test_batch_sizes_are_compared_by_their_mean_and_the_distance_of_their_shares() -> None:
    # Logged: two batches of 2 and one of 1; simulated: one of 4 and one of 1.
    replay = two_windows(np.full(5, 0.1), np.full((1, 5), 0.1), np.zeros(5, bool))
    replay = replay._replace(
        logged=replay.logged._replace(batch_size=np.array([2, 2, 2, 2, 1])),
        simulated=replay.simulated._replace(batch_size=np.array([[4, 4, 4, 4, 1]])),
    )
    mean, distance = [r for r in compared(replay).rows if r.metric == "batch_size"][:2]
    assert (mean.logged, mean.simulated) == pytest.approx((5 / 3, 5 / 2))
    # Shares by size 1, 2, 4: (1/3, 2/3, 0) against (1/2, 0, 1/2).
    assert distance.error == pytest.approx(0.5 * (1 / 6 + 2 / 3 + 1 / 2))


def test_shed_requests_have_no_part_in_the_statistics() -> None:
    logged_s, simulated_s = np.array([0.1, NAN, 0.3]), np.array([[0.2, 0.6, NAN]])
    rows = compared(two_windows(logged_s, simulated_s, np.zeros(3, bool))).rows
    median = next(row for row in rows if row.statistic == "p50")
    assert (median.logged, median.simulated) == pytest.approx((0.2, 0.4))
    assert median.requests == 2


def test_a_line_for_each_class_and_load_tells_the_errors() -> None:
    logged_s = np.linspace(0.1, 1.0, 100)
    fidelity = compared(two_windows(logged_s, 1.1 * logged_s[None], np.arange(100) >= 50))
    first, overall, *_ = describe_fidelity(fidelity)
    assert "under static_cap (declared); offered load at batch size fast 4" in first
    assert "0.7-1 0% of the time" in first
    assert overall.startswith("fast, all loads (100 requests): P50 +10.0% [+10%, +10%], P95 +10.0%")


def test_a_class_that_the_simulator_never_answers_is_a_failure() -> None:
    fidelity = compared(two_windows(np.full(3, 0.1), np.full((2, 3), NAN), np.zeros(3, bool)))
    assert not fidelity.passed
    # Four statistics of time and the throughput over all; three requests are too few for a band.
    assert len(fidelity_failures(fidelity.rows, GATE)) == 5


def test_a_class_without_logged_answers_is_a_failure_not_a_gap() -> None:
    fidelity = compared(two_windows(np.full(3, NAN), np.full((2, 3), 0.1), np.zeros(3, bool)))
    assert {(found.band, found.requests) for found in fidelity.rows} == {("all", 0)}
    assert len(fidelity_failures(fidelity.rows, GATE)) == 5


def test_a_log_that_the_scenario_made_is_retold_without_error() -> None:
    parameters = {"max_batch_size": 4, "batch_timeout_s": 0.028}
    policy = {"name": "batch_timeout", "parameters": parameters}
    # The rule looks again every 5 ms: it sends after 30 ms. Alone a request then takes 20 ms, two
    # together 30 ms.
    run = log_of(policy, [0.0, 4.0, 4.0], [0.05, 0.06, 0.06])
    rows = compared(replay_batches(run, SCENARIO, 2, generator())).rows
    overall = [found for found in rows if (found.request_class, found.band) == ("fast", "all")]
    assert [found.error for found in overall] == pytest.approx([0.0] * 5, abs=1e-9)


def test_fidelity_survives_its_json_form_and_without_rows_it_is_refused() -> None:
    logged_s = np.linspace(0.1, 1.0, 100)
    fidelity = compared(two_windows(logged_s, 1.1 * logged_s[None], np.arange(100) >= 50))
    assert len(fidelity.quantiles) > 20
    # NaN is not equal to itself: compared as text.
    assert repr(from_json(to_json(fidelity))) == repr(fidelity)
    with pytest.raises(ValueError, match="has no row"):
        from_json({**to_json(fidelity), "rows": []})


def test_the_logged_policy_is_the_rule_with_its_share_of_chance() -> None:
    told = {"name": "static_cap", "parameters": {"batch_size": 2}}
    assert logged_policy(SCENARIO, {"policy": told}).name == "static_cap"
    mixed = logged_policy(SCENARIO, {"policy": {**told, "epsilon": 0.1}})
    assert mixed.name == "static_cap+eps0.1"
    nulls = {"name": "uniform_random", "parameters": None, "epsilon": None}
    assert logged_policy(SCENARIO, {"policy": nulls}).name == "uniform_random"


@pytest.mark.parametrize("told", [None, "fifo", {"parameters": {}}])
def test_a_log_that_does_not_name_its_policy_is_refused(told: Any) -> None:
    with pytest.raises(ValueError, match=r"system\.json: needs policy\.name"):
        logged_policy(SCENARIO, {"policy": told})
