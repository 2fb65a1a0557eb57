"""Nexus, Symphony and Clockwork against timelines by hand. Times below are in ms."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from simulator.action import SHED, action_table, legal_actions
from simulator.conditions import DispatchDelay
from simulator.observation import empty_observation
from simulator.policies import Policy, build_policy
from simulator.policies.registry import RULES
from simulator.replica import Replica
from simulator.scenario import ClassChoice, MixedBatches, RequestClass, Scenario

WAITS = "wait"
FAST, SLOW = 0, 1


def one_class(
    menu: tuple[int, ...] = (1, 2, 4, 8),
    replicas: int = 1,
    noise_cv: float = 0.0,
    **options: Any,
) -> Scenario:
    """L(b) = 10 + 10 b, SLO 110: L of 1 .. 8 is 20, 30, 40, 50, 60, 70, 80, 90."""
    return Scenario(
        (RequestClass("only", 0.110),),
        (Replica((0.010,), (0.010,), (noise_cv,), 8),) * replicas,
        menu,
        **({"may_shed": True} | options),
    )


def two_classes(replicas: int = 1, **options: Any) -> Scenario:
    """Fast as `one_class`; slow L(b) = 10 + 20 b (30, 50, 70, 90), SLO 200."""
    return Scenario(
        (RequestClass("fast", 0.110), RequestClass("slow", 0.200)),
        (Replica((0.010, 0.010), (0.010, 0.020), (0.0, 0.0), 8),) * replicas,
        (1, 2, 4, 8),
        **({"may_shed": True} | options),
    )


def decide(
    policy: Policy,
    scenario: Scenario,
    queue: tuple[int, ...],
    wait_ms: tuple[float, ...],
    can_take: tuple[int, ...] = (1,),
    remaining_ms: tuple[float, ...] = (0.0,),
) -> object:
    """What a policy does in one lane: (replica, class, batch size), ("shed", class) or "wait"."""
    waiting, takes = np.array([queue], float), np.array([can_take], float)
    wait_s = np.where(waiting > 0, np.array([wait_ms]) / 1000, 0.0)
    head = int(np.where(waiting > 0, wait_s, -1.0)[0].argmax())
    observation = empty_observation(scenario, 1)._replace(
        queue_length=waiting,
        oldest_wait_s=wait_s,
        head_class=np.array([head if waiting.any() else -1]),
        can_take=takes,
        remaining_service_s=np.array([remaining_ms]) / 1000,
    )
    table = action_table(scenario)
    mask = legal_actions(table, waiting, takes, scenario.parameters().max_batch_size)
    row = policy.action_probabilities(observation, mask)[0]
    assert sorted(row)[-2:] == [0.0, 1.0]
    action = int(row.argmax())
    request_class, size = int(table.request_class[action]), int(table.batch_size[action])
    if size == SHED:
        return ("shed", request_class)
    return (int(table.replica[action]), request_class, size) if size else WAITS


# --- Nexus: bmax = 4, the largest with L(4) = 50 <= 110 / 2 -----------------------------------


@pytest.mark.parametrize(
    ("queue", "wait_ms", "expected"),
    [
        (0, 0.0, WAITS),
        (6, 59.0, (0, 0, 4)),  # 51 left, L(4) = 50
        (6, 61.0, ("shed", 0)),  # 49 left
        # Three have waited 91, 81, 79: L(3) = 40 is too long for the first (19 left). It is shed.
        (3, 91.0, ("shed", 0)),
        (2, 81.0, ("shed", 0)),  # the queue fills no more than 2 now: L(2) = 30 > 29 left
        (1, 79.0, (0, 0, 1)),  # and now 1: L(1) = 20 < 31 left
        (3, 69.0, (0, 0, 4)),  # 41 left: 4 is clipped to 3, L(3) = 40
        (9, 1.0, (0, 0, 4)),  # never above the bound
    ],
)
def test_nexus_sliding_window_drops_heads_that_the_whole_batch_would_make_late(
    queue, wait_ms, expected
):
    scenario = one_class()
    policy = build_policy("nexus_early_drop", scenario, {})
    assert decide(policy, scenario, (queue,), (wait_ms,)) == expected


@pytest.mark.parametrize(
    ("queue", "wait_ms", "expected"),
    [
        (6, 59.0, (0, 0, 4)),
        (6, 61.0, (0, 0, 2)),  # 49 left: L(4) = 50 does not fit, L(2) = 30 does
        (6, 81.0, (0, 0, 1)),  # 29 left
        (6, 91.0, ("shed", 0)),  # 19 left, L(1) = 20
        (3, 69.0, (0, 0, 4)),  # 41 left, L(3) = 40
        (3, 71.0, (0, 0, 2)),  # 39 left
    ],
)
def test_nexus_earliest_shrinks_the_batch_until_the_head_survives(queue, wait_ms, expected):
    scenario = one_class()
    policy = build_policy("nexus_early_drop", scenario, {"variant": "earliest"})
    assert decide(policy, scenario, (queue,), (wait_ms,)) == expected


def test_nexus_bound_counts_the_deviation_and_the_network_and_gives_way_to_a_given_size():
    # (1 + 0.2) L(4) = 60 > 55 >= 1.2 L(2) = 36
    scenario = one_class(noise_cv=0.2)
    policy = build_policy("nexus_early_drop", scenario, {})
    assert decide(policy, scenario, (8,), (1.0,)) == (0, 0, 2)
    # 12 of network: (110 - 12) / 2 = 49 < L(4); the head may wait 98 - L(2) = 68.
    scenario = one_class(dispatch_delay=DispatchDelay(constant_s=0.010, mean_s=0.002))
    policy = build_policy("nexus_early_drop", scenario, {})
    assert decide(policy, scenario, (8,), (67.0,)) == (0, 0, 2)
    assert decide(policy, scenario, (8,), (69.0,)) == ("shed", 0)
    scenario = one_class()
    policy = build_policy("nexus_early_drop", scenario, {"max_batch_size": 8})
    assert decide(policy, scenario, (8,), (19.0,)) == (0, 0, 8)  # 91 left, L(8) = 90
    assert decide(policy, scenario, (8,), (21.0,)) == ("shed", 0)


def test_nexus_sends_the_smallest_size_where_the_bound_allows_none():
    scenario = one_class(menu=(8,))  # L(8) = 90 > 55
    policy = build_policy("nexus_early_drop", scenario, {})
    assert decide(policy, scenario, (8,), (1.0,)) == (0, 0, 8)


def test_nexus_serves_the_class_whose_head_is_due_first_and_where_it_would_finish_first():
    scenario = two_classes(replicas=2)
    policy = build_policy("nexus_early_drop", scenario, {})
    free = {"can_take": (1, 1), "remaining_ms": (0.0, 0.0)}
    # Due in 60 and 61: fast, although slow has waited longer. bmax of slow: L(4) = 90 <= 100.
    assert decide(policy, scenario, (4, 4), (50.0, 139.0), **free) == (0, FAST, 4)
    # Due in 60 and 59: slow, which 4 of would make late (90): the head is shed.
    assert decide(policy, scenario, (4, 4), (50.0, 141.0), **free) == ("shed", SLOW)
    pair = (scenario.replicas[0], scenario.replicas[0].at_speed(2.0))
    quick = replace(scenario, replicas=pair)
    policy = build_policy("nexus_early_drop", quick, {})
    assert decide(policy, quick, (4, 0), (50.0, 0.0), **free) == (1, FAST, 4)


def test_nexus_counts_what_is_left_of_a_batch_that_it_would_go_behind():
    scenario = one_class(replica_backlog=1)
    for variant, late in [("sliding_window", ("shed", 0)), ("earliest", (0, 0, 2))]:
        policy = build_policy("nexus_early_drop", scenario, {"variant": variant})
        assert decide(policy, scenario, (4,), (39.0,), remaining_ms=(20.0,)) == (0, 0, 4)  # 70
        assert decide(policy, scenario, (4,), (41.0,), remaining_ms=(20.0,)) == late


# --- Symphony: last instant d - L(b), window from d - L(b + 1) --------------------------------


@pytest.mark.parametrize(
    ("queue", "wait_ms", "expected"),
    [
        (0, 0.0, WAITS),
        (2, 69.0, WAITS),  # a third could come until 110 - L(3) = 70
        (2, 71.0, (0, 0, 2)),
        (1, 79.0, WAITS),
        (1, 81.0, (0, 0, 1)),
        (3, 61.0, (0, 0, 4)),  # from 110 - L(4) = 60 on: 4 is clipped to 3
        (8, 1.0, (0, 0, 8)),  # full
        (11, 1.0, (0, 0, 8)),
        (4, 65.0, (0, 0, 2)),  # 45 left: later than 110 - L(4) = 60, L(2) = 30 is the largest
        (4, 91.0, ("shed", 0)),  # 19 left, L(1) = 20
    ],
)
def test_symphony_holds_a_batch_while_one_more_could_be_served_in_time(queue, wait_ms, expected):
    scenario = one_class()
    policy = build_policy("symphony_defer", scenario, {"max_batch_size": 8})
    assert decide(policy, scenario, (queue,), (wait_ms,)) == expected


def test_symphony_sends_early_where_one_more_tick_would_pass_the_last_instant():
    # Two waiting: last instant 110 - L(2) = 80. A tick of 25 passes it from 55 on, before 70.
    scenario = one_class(tick_s=0.025)
    policy = build_policy("symphony_defer", scenario, {"max_batch_size": 8})
    assert decide(policy, scenario, (2,), (54.0,)) == WAITS
    assert decide(policy, scenario, (2,), (56.0,)) == (0, 0, 2)


def test_symphony_slack_brings_the_deadline_forward_but_sheds_only_what_misses_its_slo():
    scenario = one_class()
    policy = build_policy("symphony_defer", scenario, {"max_batch_size": 8, "slack_s": 0.02})
    assert decide(policy, scenario, (2,), (49.0,)) == WAITS
    assert decide(policy, scenario, (2,), (51.0,)) == (0, 0, 2)
    assert decide(policy, scenario, (2,), (89.0,)) == (0, 0, 2)  # 21 left, alone in time: all go
    assert decide(policy, scenario, (2,), (91.0,)) == ("shed", 0)


def test_symphony_sends_what_is_late_where_nothing_may_be_shed():
    scenario = one_class(may_shed=False)
    policy = build_policy("symphony_defer", scenario, {"max_batch_size": 8})
    assert decide(policy, scenario, (4,), (91.0,)) == (0, 0, 4)


def test_symphony_takes_the_class_with_the_earliest_last_instant_and_the_lowest_free_replica():
    scenario = two_classes(replicas=3)
    policy = build_policy("symphony_defer", scenario, {"max_batch_size": 8})
    free = {"can_take": (0, 1, 1), "remaining_ms": (9.0, 0.0, 0.0)}
    # Two fast after 71: last instant in 9. Two slow: L(3) = 70, window from 130, last 150.
    assert decide(policy, scenario, (2, 2), (71.0, 129.0), **free) == (1, FAST, 2)
    assert decide(policy, scenario, (2, 2), (71.0, 142.0), **free) == (1, SLOW, 2)  # last in 8
    assert decide(policy, scenario, (2, 2), (69.0, 131.0), **free) == (1, SLOW, 2)
    assert decide(policy, scenario, (2, 2), (69.0, 129.0), **free) == WAITS
    busy = {"can_take": (0, 0, 0), "remaining_ms": (9.0, 9.0, 9.0)}
    assert decide(policy, scenario, (2, 2), (71.0, 142.0), **busy) == WAITS


def test_symphony_under_head_of_line_looks_at_the_head_class_alone():
    scenario = two_classes(class_choice=ClassChoice.HEAD_OF_LINE)
    policy = build_policy("symphony_defer", scenario, {"max_batch_size": 8})
    assert decide(policy, scenario, (2, 2), (75.0, 129.0)) == WAITS
    assert decide(policy, scenario, (2, 2), (75.0, 74.0)) == (0, -1, 2)
    assert decide(policy, scenario, (2, 2), (175.0, 174.0)) == ("shed", -1)


@pytest.mark.parametrize(
    ("queue", "wait_ms", "expected"),
    [
        ((0, 0), (0.0, 0.0), WAITS),
        ((3, 0), (1.0, 0.0), (0, FAST, 4)),  # never waits; 4 is clipped to 3
        # Fast: 70 left, start by 70 - 40 = 30. Slow: 100 left, start by 100 - 50 = 50.
        ((3, 2), (40.0, 100.0), (0, FAST, 4)),
        # Slow: 65 left, start by 65 - 50 = 15 for two: before 30.
        ((3, 2), (40.0, 135.0), (0, SLOW, 2)),
        # Slow is due 5 later than fast, but two of it must start by 75 - 50 = 25, one fast by 50.
        ((1, 2), (40.0, 125.0), (0, SLOW, 2)),
        # Slow: 45 left; two would have had to start 5 ago, one by 15.
        ((3, 2), (40.0, 155.0), (0, SLOW, 1)),
        ((3, 2), (40.0, 171.0), ("shed", SLOW)),  # 29 left, L(1) = 30
        ((3, 2), (95.0, 171.0), ("shed", FAST)),  # both miss, by 5 and by 1
        ((3, 0), (75.0, 0.0), (0, FAST, 2)),  # 35 left: L(3) = 40, L(2) = 30
    ],
)
def test_clockwork_takes_the_earliest_start_by_that_can_be_met(queue, wait_ms, expected):
    scenario = two_classes()
    policy = build_policy("clockwork", scenario, {})
    assert decide(policy, scenario, queue, wait_ms) == expected


def test_clockwork_gives_a_replica_work_only_shortly_before_it_is_done():
    scenario = two_classes(replicas=2, replica_backlog=1)
    policy = build_policy("clockwork", scenario, {})
    both = {"can_take": (1, 1)}
    assert decide(policy, scenario, (3, 0), (1.0, 0.0), remaining_ms=(4.0, 6.0), **both)[0] == 0
    assert decide(policy, scenario, (3, 0), (1.0, 0.0), remaining_ms=(4.0, 2.0), **both)[0] == 1
    assert decide(policy, scenario, (3, 0), (1.0, 0.0), remaining_ms=(6.0, 6.0), **both) == WAITS
    # 43 left: three must start by 3, the batch can at 4; two by 13.
    sent = decide(policy, scenario, (3, 0), (67.0, 0.0), remaining_ms=(4.0, 6.0), **both)
    assert sent == (0, FAST, 2)
    policy = build_policy("clockwork", scenario, {"schedule_ahead_s": 0.01})
    assert decide(policy, scenario, (3, 0), (1.0, 0.0), remaining_ms=(9.0, 11.0), **both)[0] == 0


def test_clockwork_waits_for_a_busy_fast_replica_rather_than_shed_or_be_late():
    # 19 left: replica 0 would take L(1) = 20, replica 1 takes 10 and is busy.
    scenario = one_class()
    pair = (scenario.replicas[0], scenario.replicas[0].at_speed(2.0))
    scenario = replace(scenario, replicas=pair)
    policy = build_policy("clockwork", scenario, {})
    moment = {"can_take": (1, 0), "remaining_ms": (0.0, 3.0)}
    assert decide(policy, scenario, (1,), (91.0,), **moment) == WAITS
    assert decide(policy, scenario, (1,), (101.0,), **moment) == ("shed", 0)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("nexus_early_drop", {"variant": "late"}, "nexus_early_drop.variant = 'late': must be"),
        ("nexus_early_drop", {"max_batch_size": 0}, "max_batch_size = 0: must be at least 1"),
        ("symphony_defer", {"max_batch_size": 2.5}, "max_batch_size = 2.5: must be a whole"),
        ("symphony_defer", {"max_batch_size": 2, "slack_s": -1.0}, "slack_s = -1.0: must be"),
        ("clockwork", {"schedule_ahead_s": float("nan")}, "schedule_ahead_s = nan: must be"),
    ],
)
def test_bad_parameters_are_refused_by_name(name, parameters, message):
    with pytest.raises(ValueError, match=message):
        build_policy(name, one_class(), parameters)


def test_rules_that_shed_need_a_scenario_that_may_and_all_need_one_latency():
    for name in ("nexus_early_drop", "clockwork"):
        assert "may_shed is false" in (RULES[name].misfit(one_class(may_shed=False)) or "")
    mixed = two_classes(class_choice=ClassChoice.HEAD_OF_LINE, mixed=MixedBatches.SUM)
    for name in ("nexus_early_drop", "clockwork", "symphony_defer"):
        assert RULES[name].misfit(one_class()) is None
        assert "mixed batches" in (RULES[name].misfit(mixed) or "")
