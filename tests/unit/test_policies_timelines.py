"""Every rule against timelines written by hand: what waits and who is free, then what it does."""

import numpy as np
import pytest

from simulator.action import action_table, legal_actions
from simulator.observation import ReplicaState, empty_observation
from simulator.policies import Policy, build_policy
from simulator.replica import Replica
from simulator.scenario import ClassChoice, RequestClass, Scenario

WAITS = {"wait": 1.0}
FAST, SLOW = 0, 1


def cluster(
    class_choice: ClassChoice = ClassChoice.ANY,
    alpha_s: tuple[float, ...] = (0.002, 0.002),
    max_batch_size: tuple[int, ...] = (16, 16),
    weight: tuple[float, float] = (200.0, 20.0),
    menu: tuple[int, ...] = (1, 2, 4, 8, 16),
) -> Scenario:
    """Two classes of 5 and 20 ms a request; replicas that differ in alpha and maximum only."""
    return Scenario(
        request_classes=(
            RequestClass("fast", 0.1, weight[0]),
            RequestClass("slow", 0.5, weight[1]),
        ),
        replicas=tuple(
            Replica((alpha, alpha), (0.005, 0.020), (0.0, 0.0), largest)
            for alpha, largest in zip(alpha_s, max_batch_size, strict=True)
        ),
        batch_sizes=menu,
        class_choice=class_choice,
    )


def decide(
    policy: Policy,
    scenario: Scenario,
    queue: tuple[int, int],
    wait_s: tuple[float, float] = (0.001, 0.001),
    can_take: tuple[int, ...] = (1, 1),
    last_replica: int = -1,
    in_service: tuple[int, ...] = (0, 0),
    off: tuple[int, ...] = (),
) -> dict[object, float]:
    """What a policy does in one lane: {(replica, class, batch size) or "wait": probability}."""
    waiting = np.array([queue], float)
    oldest_wait_s = np.where(waiting > 0, np.array([wait_s]), 0.0)
    head = int(np.where(waiting > 0, oldest_wait_s, -1.0)[0].argmax()) if waiting.any() else -1
    takes = np.array([can_take], float)
    shown = np.where(takes > 0, ReplicaState.IDLE, ReplicaState.BUSY)
    observation = empty_observation(scenario, 1)._replace(
        queue_length=waiting,
        oldest_wait_s=oldest_wait_s,
        head_class=np.array([head]),
        head_size=np.ones(1),
        last_replica=np.array([last_replica]),
        can_take=takes,
        remaining_service_s=(1 - takes) * 0.01,
        in_service=np.array([in_service], float),
        utilization=1 - takes,
        replica_state=np.where(
            [replica in off for replica in range(len(can_take))], ReplicaState.OFF, shown
        ),
        in_flight=np.array([in_service], float),
    )
    table = action_table(scenario)
    mask = legal_actions(table, waiting, takes, scenario.parameters().max_batch_size)
    row = policy.action_probabilities(observation, mask)[0]
    meaning = zip(table.replica, table.request_class, table.batch_size, strict=True)
    named = [tuple(map(int, action)) if action[2] else "wait" for action in meaning]
    return {name: float(p) for name, p in zip(named, row, strict=True) if p > 0}


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ({"queue": (0, 0)}, WAITS),
        ({"queue": (3, 0)}, {(0, FAST, 4): 1.0}),  # 4 covers 3 and is clipped to it
        ({"queue": (5, 0)}, {(0, FAST, 4): 1.0}),  # 8 would pass the limit of 6: 4 is the largest
        ({"queue": (9, 1), "wait_s": (0.1, 0.2)}, {(0, SLOW, 1): 1.0}),  # head of the line
        ({"queue": (9, 1), "can_take": (0, 1), "wait_s": (0.2, 0.1)}, {(1, FAST, 4): 1.0}),
        ({"queue": (9, 1), "can_take": (0, 0)}, WAITS),
    ],
)
def test_static_cap_sends_the_head_of_line_up_to_its_limit(moment, expected):
    scenario = cluster()
    policy = build_policy("static_cap", scenario, {"batch_size": 6})
    assert decide(policy, scenario, **moment) == expected


def test_a_limit_above_the_menu_sends_the_largest_size():
    scenario = cluster()
    policy = build_policy("static_cap", scenario, {"batch_size": 1000})
    assert decide(policy, scenario, (40, 0)) == {(0, FAST, 16): 1.0}


def test_a_replica_with_a_smaller_maximum_gets_a_smaller_batch():
    scenario = cluster(max_batch_size=(3, 16))
    policy = build_policy("static_cap", scenario, {"batch_size": 8})
    assert decide(policy, scenario, (7, 0)) == {(0, FAST, 2): 1.0}
    assert decide(policy, scenario, (7, 0), can_take=(0, 1)) == {(1, FAST, 8): 1.0}


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ({"queue": (0, 0)}, WAITS),
        ({"queue": (7, 0), "wait_s": (0.009, 0.0)}, WAITS),
        ({"queue": (8, 0), "wait_s": (0.009, 0.0)}, {(0, FAST, 8): 1.0}),  # full
        ({"queue": (9, 0), "wait_s": (0.009, 0.0)}, {(0, FAST, 8): 1.0}),
        ({"queue": (1, 0), "wait_s": (0.010, 0.0)}, {(0, FAST, 1): 1.0}),  # time is up
        ({"queue": (8, 3), "wait_s": (0.001, 0.009)}, {(0, FAST, 8): 1.0}),  # head not ready
        ({"queue": (8, 3), "wait_s": (0.001, 0.011)}, {(0, SLOW, 4): 1.0}),  # longest of two ready
        ({"queue": (8, 3), "wait_s": (0.001, 0.011), "can_take": (0, 1)}, {(1, SLOW, 4): 1.0}),
        ({"queue": (8, 3), "can_take": (0, 0)}, WAITS),
    ],
)
def test_batch_timeout_waits_for_a_full_batch_or_the_timeout(moment, expected):
    scenario = cluster()
    parameters = {"max_batch_size": 8, "batch_timeout_s": 0.010}
    policy = build_policy("batch_timeout", scenario, parameters)
    assert decide(policy, scenario, **moment) == expected


def test_batch_timeout_under_head_of_line_looks_at_the_head_class_alone():
    scenario = cluster(ClassChoice.HEAD_OF_LINE)
    parameters = {"max_batch_size": 8, "batch_timeout_s": 0.010}
    policy = build_policy("batch_timeout", scenario, parameters)
    assert decide(policy, scenario, (8, 3), wait_s=(0.001, 0.009)) == WAITS
    assert decide(policy, scenario, (8, 3), wait_s=(0.001, 0.010)) == {(0, -1, 4): 1.0}
    assert decide(policy, scenario, (8, 3), wait_s=(0.009, 0.001)) == {(0, -1, 8): 1.0}


def test_a_timeout_of_zero_never_waits():
    scenario = cluster()
    parameters = {"max_batch_size": 8, "batch_timeout_s": 0.0}
    policy = build_policy("batch_timeout", scenario, parameters)
    assert decide(policy, scenario, (1, 0), wait_s=(0.0, 0.0)) == {(0, FAST, 1): 1.0}


@pytest.mark.parametrize(
    ("on_busy", "last_replica", "can_take", "expected"),
    [
        ("skip", -1, (1, 1, 1), 0),
        ("skip", 0, (1, 1, 1), 1),
        ("skip", 2, (1, 1, 1), 0),
        ("skip", 0, (1, 0, 1), 2),
        ("skip", 0, (1, 0, 0), 0),
        ("skip", 0, (0, 0, 0), None),
        ("blocking", -1, (1, 1, 1), 0),
        ("blocking", 2, (1, 1, 1), 0),
        ("blocking", 0, (1, 0, 1), None),  # replica 1 is busy and its turn is waited for
        ("blocking", 0, (0, 1, 0), 1),
        ("blocking", 2, (0, 1, 1), None),
    ],
)
def test_round_robin_takes_turns(on_busy, last_replica, can_take, expected):
    scenario = cluster(alpha_s=(0.002,) * 3, max_batch_size=(16,) * 3)
    policy = build_policy("round_robin", scenario, {"batch_size": 4, "on_busy": on_busy})
    chosen = decide(
        policy, scenario, (4, 0), can_take=can_take, last_replica=last_replica, in_service=(0, 0, 0)
    )
    assert chosen == (WAITS if expected is None else {(expected, FAST, 4): 1.0})


def test_a_replica_that_is_off_has_no_turn_in_a_blocking_round():
    scenario = cluster(alpha_s=(0.002,) * 3, max_batch_size=(16,) * 3)
    policy = build_policy("round_robin", scenario, {"batch_size": 4, "on_busy": "blocking"})
    moment = {"can_take": (1, 0, 0), "last_replica": 0, "in_service": (0, 0, 0)}
    assert decide(policy, scenario, (4, 0), off=(1, 2), **moment) == {(0, FAST, 4): 1.0}
    assert decide(policy, scenario, (4, 0), off=(1,), **moment) == WAITS


@pytest.mark.parametrize("name", ["random_replica", "shortest_queue"])
def test_idle_replicas_share_the_probability_equally(name):
    scenario = cluster(alpha_s=(0.002,) * 3, max_batch_size=(16, 16, 2))
    policy = build_policy(name, scenario, {"batch_size": 4})
    chosen = decide(policy, scenario, (3, 0), can_take=(1, 1, 1), in_service=(0, 0, 0))
    assert chosen == pytest.approx({(0, FAST, 4): 1 / 3, (1, FAST, 4): 1 / 3, (2, FAST, 2): 1 / 3})
    chosen = decide(policy, scenario, (3, 0), can_take=(0, 1, 1), in_service=(5, 0, 0))
    assert chosen == {(1, FAST, 4): 0.5, (2, FAST, 2): 0.5}
    assert decide(policy, scenario, (3, 0), can_take=(0, 0, 0), in_service=(5, 1, 1)) == WAITS
    assert decide(policy, scenario, (0, 0), can_take=(1, 1, 1), in_service=(0, 0, 0)) == WAITS


def test_shortest_queue_counts_what_was_sent_where_a_busy_replica_can_take_another():
    scenario = cluster(alpha_s=(0.002,) * 3, max_batch_size=(16,) * 3)
    policy = build_policy("shortest_queue", scenario, {"batch_size": 4})
    chosen = decide(policy, scenario, (4, 0), can_take=(1, 1, 1), in_service=(8, 2, 2))
    assert chosen == {(1, FAST, 4): 0.5, (2, FAST, 4): 0.5}


def test_shortest_queue_first_knows_replica_0_only():
    scenario = cluster()
    policy = build_policy("shortest_queue_first", scenario, {"batch_size": 4})
    assert decide(policy, scenario, (4, 0)) == {(0, FAST, 4): 1.0}
    assert decide(policy, scenario, (4, 0), can_take=(0, 1), in_service=(4, 0)) == WAITS
    assert decide(policy, scenario, (0, 0)) == WAITS


def test_fifo_goes_where_the_batch_would_finish_first():
    # 4 fast: 2 + 20 ms on replica 1, 9 + 20 on replica 0.
    scenario = cluster(alpha_s=(0.009, 0.002))
    policy = build_policy("fifo", scenario, {"batch_size": 4})
    assert decide(policy, scenario, (4, 0)) == {(1, FAST, 4): 1.0}
    assert decide(policy, scenario, (4, 0), can_take=(1, 0)) == {(0, FAST, 4): 1.0}
    assert decide(policy, scenario, (4, 1), wait_s=(0.1, 0.2)) == {(1, SLOW, 1): 1.0}
    assert decide(policy, scenario, (4, 0), can_take=(0, 0)) == WAITS
    assert decide(policy, scenario, (0, 0)) == WAITS


def test_fifo_counts_the_batch_that_the_replica_would_really_get():
    # 8 waiting: replica 0 takes 2 in 9 + 10 = 19 ms; replica 1 takes 8 in 2 + 40 = 42 ms.
    scenario = cluster(alpha_s=(0.009, 0.002), max_batch_size=(2, 16))
    policy = build_policy("fifo", scenario, {"batch_size": 8})
    assert decide(policy, scenario, (8, 0)) == {(0, FAST, 2): 1.0}
    # 2 waiting: 19 ms against 2 + 10 = 12 ms.
    assert decide(policy, scenario, (2, 0)) == {(1, FAST, 2): 1.0}


def test_fifo_counts_a_batch_that_the_queue_cannot_fill_as_what_it_sends():
    # 5 waiting: replica 0 takes 4 in 9 + 20 = 29 ms; replica 1 all 5 by size 8, 2 + 25 = 27 ms.
    scenario = cluster(alpha_s=(0.009, 0.002), max_batch_size=(4, 8), menu=(4, 8))
    policy = build_policy("fifo", scenario, {"batch_size": 8})
    assert decide(policy, scenario, (5, 0)) == {(1, FAST, 8): 1.0}


def test_equal_replicas_tie_to_the_lowest_number_under_fifo():
    scenario = cluster()
    assert decide(build_policy("fifo", scenario, {"batch_size": 4}), scenario, (4, 0)) == {
        (0, FAST, 4): 1.0
    }


@pytest.mark.parametrize(
    ("weight", "queue", "expected"),
    [
        ((200.0, 20.0), (1, 9), {(0, FAST, 1): 1.0}),  # 200 / 7 ms against 20 / 22 ms
        ((200.0, 20.0), (0, 9), {(0, SLOW, 4): 1.0}),
        ((20.0, 200.0), (9, 1), {(0, SLOW, 1): 1.0}),  # 20 / 7 ms against 200 / 22 ms
        ((0.0, 1.0), (9, 9), {(0, SLOW, 4): 1.0}),
        ((0.0, 1.0), (9, 0), {(0, FAST, 8): 1.0}),  # a weight of 0 goes last, not never
        ((200.0, 20.0), (0, 0), WAITS),
    ],
)
def test_c_mu_serves_the_largest_product_first_within_its_limit(weight, queue, expected):
    scenario = cluster(weight=weight)
    policy = build_policy("c_mu", scenario, {"batch_size": {"fast": 8, "slow": 4}})
    assert decide(policy, scenario, queue, wait_s=(0.001, 0.9)) == expected


def test_c_mu_breaks_equal_products_by_the_longest_wait():
    scenario = Scenario(
        (RequestClass("fast", 0.1, 1.0), RequestClass("slow", 0.5, 2.0)),  # 1 / 0.5 s = 2 / 1 s
        (Replica((0.25, 0.5), (0.25, 0.5), (0.0, 0.0), 16),) * 2,
        (1, 2, 4, 8),
    )
    policy = build_policy("c_mu", scenario, {"batch_size": 8})
    assert decide(policy, scenario, (1, 1), wait_s=(0.1, 0.2)) == {(0, SLOW, 1): 1.0}
    assert decide(policy, scenario, (1, 1), wait_s=(0.2, 0.1)) == {(0, FAST, 1): 1.0}


def test_c_mu_takes_mu_from_the_fastest_replica_and_sends_to_the_free_one():
    # On replica 1 slow takes 1 ms, so its product is 20 / 1 ms against fast's 200 / 22 ms.
    scenario = Scenario(
        (RequestClass("fast", 0.1, 200.0), RequestClass("slow", 0.5, 20.0)),
        (
            Replica((0.002, 0.5), (0.020, 0.5), (0.0, 0.0), 16),
            Replica((0.002, 0.0), (0.020, 0.001), (0.0, 0.0), 16),
        ),
        (1, 2, 4),
    )
    policy = build_policy("c_mu", scenario, {"batch_size": 1})
    assert decide(policy, scenario, (3, 3)) == {(1, SLOW, 1): 1.0}
    assert decide(policy, scenario, (3, 3), can_take=(1, 0)) == {(0, SLOW, 1): 1.0}
    assert decide(policy, scenario, (3, 0)) == {(0, FAST, 1): 1.0}


def test_uniform_random_covers_every_legal_action_and_wait():
    scenario = cluster(max_batch_size=(2, 16), menu=(1, 2, 4))
    policy = build_policy("uniform_random", scenario, {})
    chosen = decide(policy, scenario, (1, 0), can_take=(1, 0))
    assert chosen == pytest.approx({"wait": 1 / 3, (0, FAST, 1): 1 / 3, (0, FAST, 2): 1 / 3})
    assert decide(policy, scenario, (0, 0)) == WAITS


@pytest.mark.parametrize("name", ["static_cap", "round_robin", "fifo", "shortest_queue_first"])
def test_head_of_line_actions_leave_the_class_to_the_queue(name):
    scenario = cluster(ClassChoice.HEAD_OF_LINE)
    policy = build_policy(name, scenario, {"batch_size": 4})
    assert decide(policy, scenario, (9, 2), wait_s=(0.1, 0.2)) == {(0, -1, 2): 1.0}
    assert decide(policy, scenario, (9, 2), wait_s=(0.2, 0.1)) == {(0, -1, 4): 1.0}
