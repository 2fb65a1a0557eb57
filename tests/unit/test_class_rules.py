"""c_mu_reserved and sita against moments worked out by hand."""

import itertools
from typing import Any

import numpy as np
import pytest

from simulator.action import action_table, legal_actions
from simulator.observation import empty_observation
from simulator.policies import Policy, build_policy
from simulator.policies.dispatch.sita import intervals
from simulator.policies.registry import RULES
from simulator.replica import Replica
from simulator.scenario import ClassChoice, RequestClass, Scenario

WAITS = "wait"
FAST, SLOW = 0, 1
FREE = (1, 1)


def seed(replicas: int = 2, swapped: bool = False, **options: Any) -> Scenario:
    """The paper's classes, 2 + 5 b and 2 + 20 b ms, weights 200 and 20; `swapped`: slow is 0."""
    classes = (RequestClass("fast", 0.1, 200.0), RequestClass("slow", 0.5, 20.0))
    beta_s = (0.005, 0.020)
    order = (1, 0) if swapped else (0, 1)
    server = Replica((0.002, 0.002), tuple(beta_s[c] for c in order), (0.0, 0.0), 16)
    return Scenario(
        tuple(classes[c] for c in order), (server,) * replicas, (1, 2, 4, 8, 16), **options
    )


def decide(
    policy: Policy,
    scenario: Scenario,
    queue: tuple[int, ...],
    can_take: tuple[int, ...] = FREE,
    wait_s: tuple[float, ...] = (0.01, 0.02),
    remaining_s: tuple[float, ...] = (),
) -> object:
    """What a policy does in one lane: (replica, class, batch size) or "wait"."""
    waiting, takes = np.array([queue], float), np.array([can_take], float)
    observation = empty_observation(scenario, 1)._replace(
        queue_length=waiting,
        oldest_wait_s=np.where(waiting > 0, np.array([wait_s]), 0.0),
        can_take=takes,
        remaining_service_s=np.zeros(takes.shape)
        if remaining_s is None
        else np.array([remaining_s]),
    )
    table, parameters = action_table(scenario), scenario.parameters()
    mask = legal_actions(table, waiting, takes, parameters.max_batch_size)
    mask[:, 1:] &= parameters.serves[table.replica, table.request_class][1:]
    row = policy.action_probabilities(observation, mask)[0]
    assert sorted(row)[-2:] == [0.0, 1.0]
    action = int(row.argmax())
    if table.batch_size[action] == 0:
        return WAITS
    return (
        int(table.replica[action]),
        int(table.request_class[action]),
        int(table.batch_size[action]),
    )


# Fast is urgent: 200 / 7 ms against 20 / 22 ms. Replica 1 is reserved for it.
@pytest.mark.parametrize(
    ("queue", "can_take", "expected"),
    [
        ((0, 0), FREE, WAITS),
        ((3, 9), FREE, (1, FAST, 4)),  # urgent first, to the reserved replica
        ((3, 9), (1, 0), (0, FAST, 4)),  # or to another
        ((0, 9), FREE, (0, SLOW, 4)),
        ((0, 9), (0, 1), WAITS),  # the reserved replica stays idle
        ((1, 9), (0, 1), (1, FAST, 1)),
        ((3, 9), (0, 0), WAITS),
    ],
)
def test_c_mu_reserved_keeps_the_last_replica_for_the_urgent_class(queue, can_take, expected):
    scenario = seed()
    parameters = {"batch_size": {"fast": 8, "slow": 4}, "reserved_replicas": 1}
    policy = build_policy("c_mu_reserved", scenario, parameters)
    assert decide(policy, scenario, queue, can_take) == expected


def test_c_mu_reserved_keeps_as_many_as_it_is_told():
    scenario = seed(3)
    for reserved, able in [(1, (1, 1, 0)), (2, (1, 0, 0))]:
        parameters = {"batch_size": 4, "reserved_replicas": reserved}
        policy = build_policy("c_mu_reserved", scenario, parameters)
        for replica, may in enumerate(able):
            can_take = tuple(int(k == replica) for k in range(3))
            sent = decide(policy, scenario, (0, 9), can_take)
            assert sent == ((replica, SLOW, 4) if may else WAITS)


def test_c_mu_reserved_reserves_nothing_that_another_class_depends_on():
    # Replica 2 alone serves slow, 0 and 1 serve fast: 1 is the last that can be reserved.
    both = seed(3)
    serves = ((True, False), (True, False), (False, True))
    server = both.replicas[0]
    replicas = tuple(
        Replica(server.alpha_s, server.beta_s, server.noise_cv, 16, serves=row) for row in serves
    )
    scenario = Scenario(both.request_classes, replicas, both.batch_sizes)
    policy = build_policy("c_mu_reserved", scenario, {"batch_size": 4, "reserved_replicas": 1})
    assert decide(policy, scenario, (0, 9), (0, 0, 1)) == (2, SLOW, 4)
    assert decide(policy, scenario, (3, 9), (1, 1, 1)) == (1, FAST, 4)
    # Served by both: replica 1 would be reserved, but slow has no other.
    rows = ((True, False), (True, True))
    replicas = tuple(
        Replica(server.alpha_s, server.beta_s, server.noise_cv, 16, serves=row) for row in rows
    )
    scenario = Scenario(both.request_classes, replicas, both.batch_sizes)
    policy = build_policy("c_mu_reserved", scenario, {"batch_size": 4, "reserved_replicas": 1})
    assert decide(policy, scenario, (0, 9), (1, 1)) == (1, SLOW, 4)


@pytest.mark.parametrize(
    ("queue", "can_take", "expected"),
    [
        ((0, 0), FREE, WAITS),
        ((3, 9), FREE, (1, SLOW, 8)),  # slow has waited longer: its replica first
        ((3, 0), FREE, (0, FAST, 4)),
        ((3, 9), (1, 0), (0, FAST, 4)),  # the head of the line blocks nobody else
        ((0, 9), (1, 0), WAITS),
        ((3, 0), (0, 1), WAITS),
    ],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_sita_serves_fast_on_replica_0_and_slow_on_replica_1(queue, can_take, expected, swapped):
    scenario = seed(swapped=swapped)
    policy = build_policy("sita", scenario, {"batch_size": 8})
    wait_s = (0.01, 0.02)
    if swapped:  # the order is that of beta, whatever the number
        queue, wait_s = queue[::-1], wait_s[::-1]
        expected = WAITS if expected == WAITS else (expected[0], 1 - expected[1], expected[2])
    assert decide(policy, scenario, queue, can_take, wait_s) == expected


def test_sita_gives_a_heavy_class_several_replicas():
    # 5.25 and 20.25 ms a request in batches of 8. Four replicas, equal rates: 1 + 3. Fast ten times
    # as often, 52.5 : 20.25: 3 + 1.
    scenario = seed(4)
    for shares, of_fast in [(None, 1), ({"fast": 10.0, "slow": 1.0}, 3)]:
        policy = build_policy("sita", scenario, {"batch_size": 8, "shares": shares})
        for replica in range(4):
            can_take = tuple(int(k == replica) for k in range(4))
            served = FAST if replica < of_fast else SLOW
            assert decide(policy, scenario, (9, 9), can_take) == (replica, served, 8)


def test_c_mu_reserved_goes_behind_a_batch_only_where_that_is_done_first():
    # 4 slow take 82 ms on either replica. Replica 0 has 30 ms left, and may be sent another batch.
    scenario = seed(3, replica_backlog=1)
    parameters = {"batch_size": 4, "reserved_replicas": 1}
    policy = build_policy("c_mu_reserved", scenario, parameters)
    both = (1, 1, 0)
    assert decide(policy, scenario, (0, 9), both, remaining_s=(0.03, 0.0, 0.0)) == (1, SLOW, 4)
    assert decide(policy, scenario, (0, 9), both, remaining_s=(0.03, 0.05, 0.0)) == (0, SLOW, 4)


def test_mu_and_the_order_of_the_intervals_are_those_of_a_latency_table():
    # The lines, which no table has a use for, say the opposite: fast 2 s, slow 2 ms.
    line = seed()
    tables = (((1.0, 0.007), (16.0, 0.082)), ((1.0, 0.022), (16.0, 0.322)))
    server = Replica((1.0, 0.001), (1.0, 0.001), (0.0, 0.0), 16, latency_table=tables)
    scenario = Scenario(line.request_classes, (server,) * 2, line.batch_sizes)
    parameters = {"batch_size": 4, "reserved_replicas": 1}
    policy = build_policy("c_mu_reserved", scenario, parameters)
    assert decide(policy, scenario, (3, 9)) == (1, FAST, 4)
    policy = build_policy("sita", scenario, {"batch_size": 4})
    assert decide(policy, scenario, (3, 9), (1, 0)) == (0, FAST, 4)


def test_the_tuner_looks_for_shares_only_where_they_can_move_a_cut():
    assert set(RULES["sita"].space(seed(2)).axes) == {"batch_size.fast", "batch_size.slow"}
    axes = RULES["sita"].space(seed(3)).axes
    assert axes["shares.slow"].values == (1.0,)
    cuts = set()
    for share in axes["shares.fast"].values:  # 2 + 1 replicas or 1 + 2
        shares = {"fast": share, "slow": 1.0}
        policy = build_policy("sita", seed(3), {"batch_size": 8, "shares": shares})
        cuts.add(decide(policy, seed(3), (9, 9), (0, 1, 0)))
    assert cuts == {(1, FAST, 8), (1, SLOW, 8)}


def test_sita_goes_where_its_class_would_finish_first():
    base = seed(3)
    replicas = (base.replicas[0], base.replicas[0], base.replicas[0].at_speed(2.0))
    scenario = Scenario(base.request_classes, replicas, base.batch_sizes)
    policy = build_policy("sita", scenario, {"batch_size": 8})
    assert decide(policy, scenario, (0, 9), (1, 1, 1)) == (2, SLOW, 8)
    assert decide(policy, scenario, (0, 9), (1, 1, 0)) == (1, SLOW, 8)


def every_cut(classes: int, replicas: int):
    """All ways to cut classes and replicas into as many intervals, one side of each of length 1."""
    for count in range(1, min(classes, replicas) + 1):
        for by_class in itertools.combinations(range(1, classes), count - 1):
            for by_replica in itertools.combinations(range(1, replicas), count - 1):
                ends = [(0, *by_class, classes), (0, *by_replica, replicas)]
                sides = [list(itertools.starmap(range, itertools.pairwise(end))) for end in ends]
                cuts = list(zip(*sides, strict=True))
                if all(min(len(c), len(k)) == 1 for c, k in cuts):
                    yield cuts


def largest_load(load: np.ndarray, cuts) -> float:
    """The largest load of a replica; several share a class in proportion to their speeds."""
    loads = []
    for classes, replicas in cuts:
        if len(replicas) == 1:
            loads.append(sum(load[replicas[0], c] for c in classes))
        else:
            loads.append(1.0 / sum(1.0 / load[k, classes[0]] for k in replicas))
    return max(loads)


@pytest.mark.parametrize("shape", [(1, 3), (2, 2), (2, 4), (3, 3), (4, 2), (5, 3)])
def test_no_cut_has_a_smaller_largest_load(shape):
    generator = np.random.default_rng(sum(shape))
    for _ in range(20):
        load = generator.exponential(1.0, shape)
        found = largest_load(load, intervals(load))
        best = min(largest_load(load, cuts) for cuts in every_cut(shape[1], shape[0]))
        assert found == pytest.approx(best)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("c_mu_reserved", {"batch_size": 4, "reserved_replicas": 0}, "reserved_replicas = 0: must"),
        ("c_mu_reserved", {"batch_size": 4, "reserved_replicas": 2}, "reserved_replicas = 2: must"),
        ("c_mu_reserved", {"batch_size": 0, "reserved_replicas": 1}, "batch_size = 0: must"),
        ("sita", {"batch_size": 0}, "sita.batch_size = 0: must"),
        ("sita", {"batch_size": 4, "shares": {"fast": 1.0}}, "sita.shares = .*: needs one rate"),
        ("sita", {"batch_size": 4, "shares": {"fast": 1.0, "slow": 0.0}}, "sita.shares.slow = 0"),
    ],
)
def test_bad_parameters_are_refused_by_name(name, parameters, message):
    with pytest.raises(ValueError, match=message):
        build_policy(name, seed(), parameters)


@pytest.mark.parametrize("name", ["c_mu_reserved", "sita"])
def test_they_need_two_replicas_and_actions_that_name_the_class(name):
    assert "at least two" in (RULES[name].misfit(seed(1)) or "")
    assert "head_of_line" in (RULES[name].misfit(seed(class_choice=ClassChoice.HEAD_OF_LINE)) or "")
    assert RULES[name].misfit(seed()) is None
