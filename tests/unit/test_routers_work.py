"""The routers that add up batch latencies, in moments worked by hand."""

import math

import numpy as np
import pytest

from simulator.observation import Observation, ReplicaState, empty_observation
from simulator.policies import RULES, build_policy
from simulator.policies.route.expected_work import ExpectedWork, relative_speed
from simulator.replica import Replica, TokenModel, continuous_replica
from simulator.scenario import RequestClass, Scenario
from tests.unit.router_moments import ask

FAST, SLOW = 0, 1


def cluster(replicas: tuple[Replica, ...], weight=(1.0, 1.0)) -> Scenario:
    return Scenario(
        (RequestClass("fast", 0.1, weight[0]), RequestClass("slow", 0.5, weight[1])),
        replicas,
        (1, 2, 4),
        decision="route",
        queues="replica",
    )


# fast: 2 + 5 n ms, slow: 2 + 20 n ms; up to 4 a batch.
LINE = Replica((0.002, 0.002), (0.005, 0.020), (0.0, 0.0), 4)
TWO = cluster((LINE, LINE))


def moment(queue, head=FAST, remaining=None, arrived=None, size=1.0, rate=(0, 0)) -> Observation:
    """One lane; `queue` has the waiting of each class for each replica."""
    waiting = np.array([queue], float)
    empty = empty_observation(cluster((LINE,) * waiting.shape[1]), 1)
    remaining_s = empty.remaining_service_s if remaining is None else np.array([remaining])
    return empty._replace(
        queue_length=waiting.sum(axis=1),
        head_class=np.array([head]),
        head_size=np.array([size]),
        can_take=np.ones(remaining_s.shape),
        remaining_service_s=remaining_s,
        in_service=(remaining_s > 0) * 1.0,
        arrival_rate_rps=np.array([rate], float),
        replica_state=np.full(remaining_s.shape, ReplicaState.IDLE),
        in_flight=waiting.sum(axis=2) + (remaining_s > 0),
        replica_queue_length=waiting,
        clock_s=np.ones(1),
        arrived=np.array([[1, 0] if arrived is None else arrived]),
    )


def test_backlog_is_served_in_full_batches_and_one_that_is_not():
    observation = moment([(9, 0), (3, 2)], remaining=(0.0, 0.010))
    # Replica 0: two batches of 4 fast in 22 ms, one of 1 in 7. Replica 1: 10 + 17 + 42 ms.
    np.testing.assert_allclose(ExpectedWork(TWO).backlog_s(observation), [[0.051, 0.069]])


def test_the_request_s_own_work_is_the_step_of_the_backlog():
    work = ExpectedWork(TWO)
    # A fast one joins a batch of 1 for 5 ms; after 4, which are a full batch, it opens one for 7.
    np.testing.assert_allclose(work.own_s(moment([(1, 0), (4, 0)])), [[0.005, 0.007]])
    np.testing.assert_allclose(work.own_s(moment([(3, 0), (8, 5)], SLOW)), [[0.022, 0.020]])
    # Size 3: two more times 5 ms.
    np.testing.assert_allclose(work.own_s(moment([(1, 0), (4, 0)], size=3.0)), [[0.015, 0.017]])


def test_work_follows_the_latency_table_and_the_padding():
    table = Replica(
        (0.001, 0.001),
        (0.001, 0.001),
        (0.0, 0.0),
        4,
        latency_table=(((1, 0.010), (4, 0.016)), ((1, 0.100), (4, 0.100))),
    )
    padded = Replica((0.002, 0.002), (0.005, 0.020), (0.0, 0.0), 4, padded_batch_sizes=(2, 4))
    work = ExpectedWork(cluster((table, padded)))
    observation = moment([(5, 1), (3, 0)])
    # Table: 4 in 16 ms, 1 in 10, and 1 slow in 100. Padded: 3 cost as 4, 22 ms.
    np.testing.assert_allclose(work.backlog_s(observation), [[0.126, 0.022]])
    # 1 + 1 on the table is 12 ms, 2 more than 10; the padded fourth is free.
    np.testing.assert_allclose(work.own_s(observation), [[0.002, 0.0]], atol=1e-12)


def test_speed_is_requests_per_second_in_full_batches():
    # Each class in equal parts: (22 + 82) / 2 ms for 4; at half the speed twice that.
    np.testing.assert_allclose(relative_speed(cluster((LINE, LINE.at_speed(0.5)))), [1, 0.5])
    # Only fast: 22 ms for 4, against 52 on average.
    only = Replica((0.002, 0.002), (0.005, 0.020), (0.0, 0.0), 4, serves=(True, False))
    np.testing.assert_allclose(relative_speed(cluster((LINE, only))), [22 / 52, 1])


def test_least_work_left_finishes_the_request_first():
    policy = build_policy("least_work_left", TWO, {})
    # More pending requests on 0, but less work: 2 * 22 + 7 = 51 against 42 + 7 + 10 = 59 ms.
    observation = moment([(8, 0), (0, 2)], remaining=(0.0, 0.010))
    assert ask(policy, observation) == [1, 0]
    assert ask(policy, observation, [1]) == [0, 1]
    assert ask(policy, moment([(1, 1), (1, 1)])) == [0.5, 0.5]
    # The own step decides: an open batch of 3 fast (17 + 5) against a busy 16 ms and 7.
    assert ask(policy, moment([(3, 0), (0, 0)], remaining=(0.0, 0.016))) == [1, 0]


def test_least_work_left_counts_speed():
    policy = build_policy("least_work_left", cluster((LINE.at_speed(0.5), LINE)), {})
    # 14 ms on the idle slow one; 7 behind 6 on the fast one.
    assert ask(policy, moment([(0, 0), (0, 0)], remaining=(0.0, 0.006))) == [0, 1]
    assert ask(policy, moment([(0, 0), (0, 0)], remaining=(0.0, 0.008))) == [1, 0]


def test_sita_gives_each_class_its_replica_where_loads_are_equal():
    # A full batch costs 22 / 4 = 5.5 ms a fast one and 82 / 4 = 20.5 a slow one. Of 41 and 11
    # arrivals (40 + 1, 10 + 1) the loads are 225.5 each: the cut-off is between the classes.
    policy = build_policy("sita", TWO, {})
    arrived = [40, 10]
    assert ask(policy, moment([(9, 0), (0, 0)], FAST, arrived=arrived)) == [1, 0]
    assert ask(policy, moment([(0, 0), (0, 9)], SLOW, arrived=arrived)) == [0, 1]
    assert ask(policy, moment([(0, 0), (0, 0)], SLOW, arrived=arrived), [0]) == [1, 0]


def test_sita_splits_a_class_that_spans_two_replicas():
    # 82 fast (451 ms) and 11 slow (225.5): fast has 2/3 of the load, the cut-off is at 1/2,
    # so 3/4 of fast go to 0 and 1/4 to 1.
    policy = build_policy("sita", TWO, {})
    row = ask(policy, moment([(0, 0), (0, 0)], FAST, arrived=[81, 10]))
    assert row == pytest.approx([0.75, 0.25])
    assert ask(policy, moment([(0, 0), (0, 0)], SLOW, arrived=[81, 10])) == [0, 1]


def test_sita_cuts_by_speed_and_gives_the_slowest_the_smallest():
    # Speeds 1, 1/2, 1/2: replicas 1 and 2 share the first half of the load, 0 has the second.
    policy = build_policy("sita", cluster((LINE, LINE.at_speed(0.5), LINE.at_speed(0.5))), {})
    queue = [(0, 0)] * 3
    assert ask(policy, moment(queue, FAST, arrived=[40, 10])) == pytest.approx([0, 0.5, 0.5])
    assert ask(policy, moment(queue, SLOW, arrived=[40, 10])) == [1, 0, 0]
    # Replica 1 is down: its half goes to the nearest, 2.
    assert ask(policy, moment(queue, FAST, arrived=[40, 10]), [0, 2]) == [0, 0, 1]


def test_sita_with_a_tilt_leaves_the_large_an_emptier_replica():
    # Places -1/2 and 1/2: the shares of load are as exp(0.5 ln 3) to exp(-0.5 ln 3), 3/4 to 1/4.
    policy = build_policy("sita", TWO, {"tilt": -math.log(3)})
    row = ask(policy, moment([(0, 0), (0, 0)], SLOW, arrived=[40, 10]))
    assert row == pytest.approx([0.5, 0.5])  # slow is [1/2, 1] of the load, cut at 3/4


def test_sita_cuts_prompts_where_half_of_the_tokens_lie_below():
    tokens = TokenModel(0.01, 1e-5, 1e-4, 1e-8, 8, 100_000, 512)
    scenario = cluster((continuous_replica(2, tokens),) * 2)
    policy = build_policy("sita", scenario, {"mean_prompt_tokens": 1000, "prompt_cv": 1.0})
    # sigma^2 = ln 2, mu = ln 1000 - ln 2 / 2; half the tokens are in prompts up to
    # exp(mu + sigma^2) = 1000 sqrt(2) = 1414.2.
    assert ask(policy, moment([(0, 0), (0, 0)], size=1414)) == [1, 0]
    assert ask(policy, moment([(0, 0), (0, 0)], size=1415)) == [0, 1]
    sizes = np.random.default_rng(3).lognormal(
        math.log(1000) - math.log(2) / 2, math.sqrt(math.log(2)), 400_000
    )
    below = sizes[sizes < 1000 * math.sqrt(2)].sum() / sizes.sum()
    assert below == pytest.approx(0.5, abs=0.01)  # a standard error is about 0.002


def test_first_policy_iteration_at_no_load_is_the_least_weighted_work():
    policy = build_policy("first_policy_iteration", TWO, {})
    assert ask(policy, moment([(8, 0), (0, 2)], remaining=(0.0, 0.010))) == [1, 0]
    assert ask(policy, moment([(1, 1), (1, 1)])) == [0.5, 0.5]


def later_cost(backlog_s, own_s, rate_rps, load):
    """The formula for weights 1, in plain Python."""
    later = rate_rps * (2 * backlog_s * own_s + own_s**2) / (2 * (1 - load))
    return backlog_s + own_s + later


def test_first_policy_iteration_spares_the_replica_that_others_need():
    # Speeds 1 and 1/2, so the split is 2/3 to 1/3. A slow request: 22 ms on 0 and 44 on 1.
    # Full batches of fast take 5.5 ms a request on 0, 11 on 1; rate r fast: loads 2 r / 3 * 5.5 ms
    # and r / 3 * 11 ms, equal.
    scenario = cluster((LINE, LINE.at_speed(0.5)))
    policy = build_policy("first_policy_iteration", scenario, {})
    for rate in (0.0, 100.0, 250.0):
        for busy_s in (0.0, 0.010, 0.016, 0.018, 0.020, 0.022, 0.024, 0.030):
            load = rate * 0.0055 * 2 / 3
            cost = [
                later_cost(busy_s, 0.022, rate * 2 / 3, load),
                later_cost(0.0, 0.044, rate / 3, load),
            ]
            observation = moment([(0, 0), (0, 0)], SLOW, remaining=(busy_s, 0.0), rate=(rate, 0))
            expected = [1, 0] if cost[0] < cost[1] else [0, 1]
            if abs(cost[0] - cost[1]) > 1e-12:
                assert ask(policy, observation) == expected
    # At 20 ms busy the own response is best on 0 (42 against 44 ms), but the others' are not.
    observation = moment([(0, 0), (0, 0)], SLOW, remaining=(0.020, 0.0), rate=(250, 0))
    assert ask(policy, observation) == [0, 1]
    assert ask(build_policy("least_work_left", scenario, {}), observation) == [1, 0]


def test_first_policy_iteration_weighs_those_who_come_later():
    # Later requests weigh nothing: the own response decides, at any rate.
    replicas = (LINE, LINE.at_speed(0.5))
    observation = moment([(0, 0), (0, 0)], SLOW, remaining=(0.020, 0.0), rate=(250, 0))
    policy = build_policy("first_policy_iteration", cluster(replicas, (0.0, 1.0)), {})
    assert ask(policy, observation) == [1, 0]


def test_a_load_above_the_limit_counts_as_the_limit():
    # Half of 400 a second at 5.5 ms is a load of 1.1, and 1 - 1.1 would favor the longer queue.
    parameters = {"max_load": 0.9, "arrival_rate_rps": {"fast": 400.0, "slow": 0.0}}
    policy = build_policy("first_policy_iteration", TWO, parameters)
    assert ask(policy, moment([(0, 0), (1, 0)])) == [1, 0]


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("sita", {"tilt": 11}, "sita.tilt = 11: .* at least -10, at most 10"),
        ("sita", {"mean_prompt_tokens": 0}, "mean_prompt_tokens = 0: .* above 0"),
        ("sita", {"prompt_cv": 0.0}, "prompt_cv = 0.0"),
        ("first_policy_iteration", {"max_load": 1.0}, "max_load = 1.0: .* at most 0.999"),
        ("first_policy_iteration", {"arrival_rate_rps": {"fast": 1}}, "one rate for each class"),
    ],
)
def test_bad_parameters_are_refused(name, parameters, message):
    with pytest.raises(ValueError, match=message):
        build_policy(name, TWO, parameters)


def test_what_a_scenario_cannot_have():
    tokens = TokenModel(0.01, 1e-5, 1e-4, 1e-8, 8, 100_000, 512)
    scenario = cluster((continuous_replica(2, tokens),) * 2)
    for name in ("least_work_left", "first_policy_iteration"):
        assert "whole batches" in RULES[name].misfit(scenario)
    one = Scenario(
        (RequestClass("only", 0.1),),
        (Replica((0.002,), (0.005,), (0.0,), 4),),
        (1,),
        decision="route",
        queues="replica",
    )
    assert "there is one" in RULES["sita"].misfit(one)
