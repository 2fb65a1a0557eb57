"""Logged against simulated response times: replay, load bands, percentiles, and who fails."""

from typing import Any

import numpy as np
import pytest

from pipeline.calibration.fidelity import (
    FidelityRow,
    describe_fidelity,
    fidelity_failures,
    fidelity_of_log,
    fidelity_rows,
    fidelity_warnings,
    load_bands,
    logged_policy,
    replay_response_s,
)
from pipeline.calibration.log import LoggedRun
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
TOLERANCE = {50: 0.15, 95: 0.25, 99: 0.35}
CAP = build_policy("static_cap", SCENARIO, {"batch_size": 4})


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


def test_load_bands_are_the_thirds_of_the_windows_by_the_work_that_arrives() -> None:
    # Six windows of 5 s with 1 to 6 units of work; the last one in a single large request.
    instants_s = [5.0 * window + 0.1 * place for window in range(5) for place in range(window + 1)]
    work_s = np.array([1.0] * len(instants_s) + [6.0])
    band = load_bands(arrivals([*instants_s, 26.0]), work_s)
    by_window = [0] * 1 + [0] * 2 + [1] * 3 + [1] * 4 + [2] * 5 + [2]
    assert band.tolist() == by_window


def test_rows_compare_percentiles_by_class_and_band_over_all_first() -> None:
    count = 101
    logged_s = np.concatenate([np.linspace(0.0, 1.0, count), np.full(2, 0.5)])
    requests = arrivals([0.0] * (count + 2), [0] * count + [1] * 2)
    # Three replays, 10 %, 20 % and 60 % slower: the median replay counts.
    simulated_s = np.outer([1.1, 1.6, 1.2], logged_s)
    band = np.array([0] * count + [2] * 2)
    rows = fidelity_rows(requests, NAMES, logged_s, simulated_s, band)
    assert [(row.request_class, row.band) for row in rows[::3]] == [
        ("fast", "all"),
        ("fast", "low"),
        ("slow", "all"),
        ("slow", "high"),
    ]
    assert [row.percentile for row in rows[:3]] == [50, 95, 99]
    assert [row.logged_s for row in rows[:3]] == pytest.approx([0.5, 0.95, 0.99])
    assert [row.simulated_s for row in rows[:3]] == pytest.approx([0.6, 1.14, 1.188])
    assert [row.error for row in rows] == pytest.approx([0.2] * 12)
    assert [row.requests for row in rows[::3]] == [count, count, 2, 2]


def test_shed_requests_have_no_part_in_the_percentiles() -> None:
    logged_s, simulated_s = np.array([0.1, NAN, 0.3]), np.array([[0.2, 0.6, NAN]])
    rows = fidelity_rows(arrivals([0.0] * 3), ("fast",), logged_s, simulated_s, np.zeros(3))
    median = rows[0]
    assert (median.logged_s, median.simulated_s) == pytest.approx((0.2, 0.4))
    assert median.requests == 2


def row(percentile: int, error: float, band: str = "all") -> FidelityRow:
    return FidelityRow("fast", band, percentile, 100, 0.1, 0.1 * (1.0 + error), error)


@pytest.mark.parametrize(
    ("percentile", "error", "fails"),
    [
        (50, 0.14, False),
        (50, -0.14, False),
        (50, 0.16, True),
        (50, -0.16, True),
        (95, 0.16, False),
        (99, 0.36, True),
        (99, NAN, True),
    ],
)
def test_a_percentile_fails_beyond_its_tolerance_on_either_side(
    percentile: int, error: float, fails: bool
) -> None:
    assert bool(fidelity_failures([row(percentile, error)], TOLERANCE)) == fails


def test_the_tolerance_is_asked_of_the_whole_log_alone() -> None:
    rows = [row(50, 0.9, band="high"), row(50, 0.0, band="low")]
    assert fidelity_failures(rows, TOLERANCE) == []
    (told,) = fidelity_warnings(rows, TOLERANCE)
    assert " at high load: " in told


def test_a_failure_says_what_was_logged_and_simulated() -> None:
    (told,) = fidelity_failures([row(95, 0.5), row(50, 0.0)], TOLERANCE)
    assert told == (
        "fast P95: logged 100.0 ms, simulated 150.0 ms, error +50.0% against a tolerance of 25%"
    )
    lines = describe_fidelity([row(95, 0.5), row(95, 0.5, band="low")])
    assert lines == ["fast P95: logged 100.0 ms, simulated 150.0 ms (+50.0%)"]


def test_a_class_that_the_simulator_never_answers_is_a_failure() -> None:
    nothing = np.full((2, 3), NAN)
    rows = fidelity_rows(arrivals([0.0] * 3), ("fast",), np.full(3, 0.1), nothing, np.zeros(3))
    assert len(fidelity_failures(rows, TOLERANCE)) == 3


def test_a_class_without_logged_answers_is_a_failure_not_a_gap() -> None:
    logged_s, simulated_s = np.full(3, NAN), np.full((2, 3), 0.1)
    rows = fidelity_rows(arrivals([0.0] * 3), ("fast",), logged_s, simulated_s, np.zeros(3))
    assert [(found.band, found.requests) for found in rows] == [("all", 0)] * 3
    assert len(fidelity_failures(rows, TOLERANCE)) == 3


def log_of(policy: Any, instants_s: list[float], response_s: list[float]) -> LoggedRun:
    """The batches of a log play no part in its replay."""
    unused: Any = None
    return LoggedRun({"policy": policy}, 10.0, arrivals(instants_s), np.array(response_s), unused)


def test_a_log_that_the_scenario_made_is_retold_without_error() -> None:
    parameters = {"max_batch_size": 4, "batch_timeout_s": 0.028}
    policy = {"name": "batch_timeout", "parameters": parameters}
    # The rule looks again every 5 ms: it sends after 30 ms. Alone a request then takes 20 ms, two
    # together 30 ms.
    run = log_of(policy, [0.0, 4.0, 4.0], [0.05, 0.06, 0.06])
    rows = fidelity_of_log(run, SCENARIO, 2, generator())
    overall = [found for found in rows if (found.request_class, found.band) == ("fast", "all")]
    assert [found.error for found in overall] == pytest.approx([0.0] * 3, abs=1e-9)


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
