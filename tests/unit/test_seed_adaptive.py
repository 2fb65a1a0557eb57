"""The article's scheduler as it is written, fault by fault, and what its fixed form does instead.

Decisions every 15 s, and a window and a cooldown of 60 s, as in the article: 4 intervals each.
"""

import dataclasses
from typing import Any

import numpy as np
import pytest

from simulator.conditions import SetPoints
from simulator.policies import build_policy
from simulator.policies.registry import fitting_rules
from simulator.policies.tune.jump_table import JumpTable, capacity_rps, memory_limit
from simulator.policies.tune.load_state import LoadState, thresholds_from, times_from
from simulator.replica import Replica, TokenModel, continuous_replica
from simulator.scenario import RequestClass, Scenario
from tests.unit.set_point_timelines import GPU, Told, tuned

SIZES = (1, 2, 4, 8, 16, 32, 64)
MENU = SetPoints(SIZES, replicas_on=(0, 1, 2, 3, 4))
INTERVAL_S = 15.0
FASTER_IDLE = {"idle_timeout_s": 60.0}


def article(
    form: str, on: int = 1, menu: SetPoints = MENU, gpu: Replica = GPU, **more: Any
) -> Told:
    scenario = tuned(menu, INTERVAL_S, initial=on, gpu=gpu)
    return Told(scenario, "seed_adaptive", on, form=form, **more)


def sizes(told: Told, *rates_rps: float, p95_s: float = 0.0) -> list[int]:
    """The batch sizes that follow on intervals with these arrival rates."""
    return [told.size(arrivals=rate * INTERVAL_S, p95_s=p95_s) for rate in rates_rps]


@pytest.mark.parametrize(
    ("rate_rps", "p95_s", "faithful", "fixed"),
    [
        (0.0, 5.1, LoadState.CRITICAL, LoadState.CRITICAL),
        (0.0, 5.0, LoadState.IDLE, LoadState.IDLE),
        (0.1, 3.0, LoadState.LOW, LoadState.LOW),
        (5.0, 2.0, LoadState.NORMAL, LoadState.NORMAL),
        (50.0, 2.0, LoadState.NORMAL, LoadState.NORMAL),
        (50.0, 2.1, LoadState.CRITICAL, LoadState.CRITICAL),
        (50.1, 2.1, LoadState.HIGH, LoadState.CRITICAL),  # the fault: warned, and raised
        (50.1, 2.0, LoadState.HIGH, LoadState.HIGH),
    ],
)
def test_load_states_in_the_order_of_the_article(rate_rps, p95_s, faithful, fixed) -> None:
    limits = thresholds_from({})
    for warning_first, expected in ((False, faithful), (True, fixed)):
        state = limits.load_state(np.array([rate_rps]), np.array([p95_s]), warning_first)
        assert state.tolist() == [expected]


def test_thresholds_and_times_that_are_not_given_keep_the_article_s_proportions() -> None:
    assert thresholds_from({}) == (50.0, 5.0, 0.0, 5.0, 2.0, 2.0)
    assert thresholds_from({"high_rps": 8.0, "p95_critical_s": 0.1})[1:5] == (
        pytest.approx((0.8, 0.0, 0.1, 0.04))
    )
    assert times_from({}) == (60.0, 60.0, 1800.0)
    assert times_from({"cooldown_s": 2.0}) == (2.0, 2.0, 60.0)


def test_faithful_starts_at_8_and_high_doubles_once_only() -> None:
    assert sizes(article("faithful"), *[20.0] * 3) == [8] * 3  # NORMAL from the start: no change
    assert sizes(article("faithful"), *[60.0] * 20) == [16] * 20


def test_fixed_doubles_after_each_cooldown_then_adds_replicas() -> None:
    told = article("fixed")
    # Means of the window: 30, 42.5, 46.7, 48.8 and from 75 s on 55. No jump: 55 < 2 * 30.
    assert sizes(told, 30, 55, 55, 55) == [8] * 4
    assert sizes(told, *[55] * 12) == [16] * 4 + [32] * 4 + [64] * 4
    assert [told.replicas(arrivals=55 * INTERVAL_S) for _ in range(12)] == [2] * 4 + [3] * 4 + [
        4
    ] * 4
    assert sizes(told, *[55] * 8) == [64] * 8
    # LOW: once a cooldown the size halves, and at the smallest a replica goes, down to keep-warm.
    told.ask(found={0: 2.0})
    quiet = [told.ask(arrivals=15.0)[[0, 3]].tolist() for _ in range(24)]
    assert quiet[-1] == [1.0, 1.0]
    assert [1.0, 4.0] in quiet
    assert [1.0, 2.0] in quiet


def test_faithful_delays_critical_by_the_cooldown_and_fixed_does_not() -> None:
    told = article("faithful")
    assert sizes(told, 60.0) == [16]  # HIGH at 15 s
    assert sizes(told, 60.0, 60.0, 60.0, p95_s=6.0) == [16] * 3
    assert sizes(told, 60.0, p95_s=6.0) == [8]  # 75 s
    assert sizes(told, *[60.0] * 8, p95_s=6.0) == [8] * 8  # and halves once only
    fixed = article("fixed", jump_table=[(50.0, 16)])
    assert sizes(fixed, 60.0) == [16]
    assert sizes(fixed, *[60.0] * 5, p95_s=6.0) == [8] * 4 + [4]


def test_faithful_raises_the_size_under_a_warned_p95_and_fixed_lowers_it() -> None:
    assert sizes(article("faithful"), 60.0, p95_s=3.0) == [16]
    assert sizes(article("fixed"), 60.0, p95_s=3.0) == [4]


def test_a_change_to_normal_moves_nothing_and_starts_a_cooldown_in_the_faithful_form() -> None:
    # LOW at 15 s; NORMAL at 75 s, with a mean of 40; HIGH only at 135 s, not at 90 s.
    told = article("faithful")
    assert sizes(told, 1, 40, 40, 40, 40) == [4] * 5
    assert sizes(told, 90, 90, 90, 90) == [4, 4, 4, 8]


def test_faithful_sees_no_p95_of_fewer_than_20_answers() -> None:
    assert sizes(article("faithful"), 19 / 15, p95_s=6.0) == [4]  # LOW
    told = article("faithful")
    # 20 arrived and one of them waits: 19 answers. LOW again, and not CRITICAL as with 20.
    told.ask(arrivals=20, waiting=1, p95_s=6.0)
    assert told.policy._memory["load_state"] == [LoadState.LOW]
    told = article("faithful")
    told.ask(arrivals=20, p95_s=6.0)
    assert told.policy._memory["load_state"] == [LoadState.CRITICAL]


def test_the_last_p95_is_forgotten_when_no_answers_follow() -> None:
    # 20 answers at 15 s are in the list of two windows until 120 s have passed: CRITICAL at 15, 75
    # s; IDLE is seen at 135 s, though the last 32 answers are as slow as ever.
    told = article("faithful")
    told.ask(arrivals=20, p95_s=6.0)
    states = []
    for _ in range(8):
        told.ask(p95_s=6.0)
        states.append(int(told.policy._memory["load_state"][0]))
    assert states == [LoadState.CRITICAL] * 7 + [LoadState.IDLE]


def test_faithful_scales_to_zero_beyond_the_idle_timeout_and_comes_back_with_all() -> None:
    told = article("faithful", on=3, times=FASTER_IDLE)
    # IDLE from 15 s on. 60 s later the cooldown is over but not more than the timeout.
    assert [told.replicas() for _ in range(5)] == [3] * 5
    assert [told.replicas() for _ in range(3)] == [0] * 3  # 90 s
    # The engine starts one at an arrival. One request in the window is a rate of 0: off again.
    assert told.replicas(arrivals=1, found={3: 1}) == 0
    assert told.replicas(arrivals=1, found={3: 1}) == 3  # two are 2 / 60 s: LOW
    assert told.set_points[0] == 4


def test_fixed_keeps_replicas_warm_instead() -> None:
    told = article("fixed", on=3, times=FASTER_IDLE)
    assert [told.replicas() for _ in range(8)] == [3] * 5 + [1] * 3
    warmer = article("fixed", on=3, times=FASTER_IDLE, keep_warm_replicas=2)
    assert [warmer.replicas() for _ in range(8)] == [3] * 5 + [2] * 3
    cold = article("fixed", on=3, times=FASTER_IDLE, keep_warm_replicas=0)
    assert [cold.replicas() for _ in range(8)] == [3] * 5 + [0] * 3
    assert cold.replicas(arrivals=1, found={3: 1}) == 1  # one request is traffic


def test_a_load_jump_goes_to_the_size_that_keeps_up_without_waiting_for_the_cooldown() -> None:
    # 64 / 178 ms = 360 a second from one replica; 32 / 114 ms = 281; 16 / 82 ms = 195 < 200.
    told = article("fixed")
    assert sizes(told, 1.0, 200.0) == [4, 32]
    faithful = article("faithful")
    assert sizes(faithful, 1.0, 200.0, 200.0, 200.0, 200.0) == [4, 4, 4, 4, 8]
    # Two replicas of 8 / 66 ms = 121 serve 242.
    assert sizes(article("fixed", on=2), 1.0, 200.0) == [4, 8]


def test_a_load_jump_beyond_the_largest_size_adds_the_replicas_that_are_missing() -> None:
    told = article("fixed")
    assert told.ask(arrivals=15.0)[[0, 3]].tolist() == [4, 1]
    assert told.ask(arrivals=900 * INTERVAL_S)[[0, 3]].tolist() == [64, 3]  # 3 * 360 > 900


def test_a_given_jump_table_says_which_size() -> None:
    table = [(40.0, 16), (150.0, 100)]
    assert sizes(article("fixed", jump_table=table), 20.0, 60.0) == [8, 16]
    assert sizes(article("fixed", jump_table=table), 20.0, 160.0) == [8, 64]  # the menu's most
    assert sizes(article("fixed", jump_table=table), 45.0) == [8]  # not HIGH, so no jump


def test_fixed_adds_replicas_at_the_memory_limit_and_faithful_does_not_know_it() -> None:
    gpu = dataclasses.replace(GPU, memory_gib=20.0, request_memory_gib=(1.0,))
    assert memory_limit(tuned(MENU, gpu=gpu)) == 20
    told = article("fixed", gpu=gpu)
    told.ask(arrivals=30 * INTERVAL_S)
    moved = [told.ask(arrivals=55 * INTERVAL_S)[[0, 3]].tolist() for _ in range(11)]
    assert moved == [[8, 1]] * 3 + [[16, 1]] * 4 + [[16, 2]] * 4
    faithful = article("faithful", gpu=gpu, default_batch_size=16)
    assert sizes(faithful, 60.0) == [32]


def test_the_rule_goes_on_from_the_size_it_meant_where_the_menu_has_holes() -> None:
    told = article("fixed", menu=SetPoints((4, 50)))
    assert sizes(told, 30, 55, 55, 55) == [4] * 4  # 8, and 4 is nearer than 50
    assert sizes(told, *[55] * 8) == [4] * 4 + [50] * 4  # 16 at 75 s; 32 is nearer to 50


def test_the_rule_goes_on_from_what_someone_else_has_set() -> None:
    told = article("faithful")
    assert sizes(told, 20.0) == [8]
    assert told.size(arrivals=200 * INTERVAL_S, found={0: 32.0}) == 64  # mean 110: HIGH
    assert told.size(arrivals=0, found={0: 2.0}) == 2


def test_replicas_stay_with_a_scenario_that_has_no_menu_for_them() -> None:
    told = article("fixed", menu=SetPoints(SIZES))
    assert sizes(told, *[60] * 30)[-1] == 64
    assert article("faithful", menu=SetPoints(SIZES)).ask().tolist() == [8.0, 0.0, 64.0, 1.0]


def test_a_rule_that_begins_in_mid_episode_takes_the_rate_so_far() -> None:
    told = article("fixed")
    told.clock_s, told.arrived = 985.0, 9850.0  # 10 a second for 66 intervals: no jump from 0
    assert sizes(told, 10.0) == [8]


def test_under_continuous_batching_max_num_seqs_moves() -> None:
    tokens = TokenModel(0.01, 1e-5, 1e-4, 1e-8, 64, 100_000, 512)
    gpu = continuous_replica(1, tokens)
    told = article("faithful", menu=SetPoints(max_num_seqs=SIZES), gpu=gpu)
    assert told.ask(arrivals=60 * INTERVAL_S)[[0, 2]].tolist() == [64, 16]
    fixed = article("fixed", menu=SetPoints(max_num_seqs=SIZES), gpu=gpu)
    assert fixed.ask(arrivals=60 * INTERVAL_S)[2] == 64  # no L(b) to look a jump up in
    sized = tuned(SetPoints(SIZES), gpu=gpu)
    assert "seed_adaptive" not in fitting_rules(sized)


def test_capacity_is_averaged_over_the_classes_that_a_replica_serves() -> None:
    both = Replica((0.05, 0.15), (0.002, 0.002), (0.0, 0.0), 8)
    first = dataclasses.replace(both, serves=(True, False))
    classes = (RequestClass("first", 1.0), RequestClass("second", 1.0))
    scenario = Scenario(classes, (both, first), (1, 8, 16))
    # One takes 102 ms on average, 8 take 116 ms; of the first class alone 52 ms and 66 ms.
    one, eight = [0.0, 1 / 0.102, 1 / 0.052], [0.0, 8 / 0.116, 8 / 0.066]
    expected = np.cumsum([one, eight, eight], axis=1).T  # 16 count as 8
    np.testing.assert_allclose(capacity_rps(scenario, [1, 8, 16]), expected, rtol=1e-12)


def test_the_derived_table_gives_the_smallest_size_then_the_fewest_replicas() -> None:
    # 1 / 52 ms = 19 a second from each of four replicas, 8 / 66 ms = 121.
    table = JumpTable(tuned(MENU), [1, 8], None)
    size, on = table.look_up(np.array([19.0, 20.0, 200.0, 999.0]), np.array([1, 1, 1, 0]))
    assert (size.tolist(), on.tolist()) == ([1, 8, 8, 8], [1, 1, 2, 4])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"form": "new"}, "form = 'new': must be one of faithful, fixed"),
        ({"default_batch_size": 0}, "default_batch_size = 0"),
        ({"thresholds": {"qps": 1}}, "thresholds.qps = 1: no such parameter; it has: high_rps"),
        ({"thresholds": {"low_rps": 51.0}}, "thresholds.low_rps = 51.0: must be from idle_rps 0"),
        ({"thresholds": {"p95_warning_s": 6}}, "thresholds.p95_warning_s = 6.0: must be at most"),
        ({"thresholds": {"high_rps": "a"}}, "thresholds.high_rps = 'a': must be finite"),
        ({"thresholds": {"jump_factor": 1.0}}, "thresholds.jump_factor = 1.0: must be above 1"),
        ({"times": {"cooldown_s": -1.0}}, "times.cooldown_s = -1.0"),
        ({"times": {"window_s": 0.0}}, "times.window_s = 0.0"),
        ({"keep_warm_replicas": 5}, "keep_warm_replicas = 5: must be at most 4"),
        ({"jump_table": []}, r"jump_table = \[\]: needs pairs of ascending rates"),
        ({"jump_table": [(2.0, 8), (1.0, 4)]}, "needs pairs of ascending rates"),
        ({"jump_table": [(2.0, 0)]}, "jump_table = 0: must be a whole number"),
    ],
)
def test_parameters_out_of_range_are_refused(parameters, message) -> None:
    with pytest.raises(ValueError, match=message):
        build_policy("seed_adaptive", tuned(MENU), parameters)
