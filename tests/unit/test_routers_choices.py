"""The routers that need no more than counts and turns, in moments and sequences worked by hand."""

from itertools import combinations

import numpy as np
import pytest

from simulator.observation import Observation, ReplicaState, empty_observation
from simulator.policies import build_policy
from simulator.policies.route.choose_replica import (
    emptiest,
    least_of_some,
    shares_of_subsets,
)
from simulator.replica import Replica
from simulator.scenario import RequestClass, Scenario
from tests.unit.router_moments import ask, fresh_router


def cluster(speeds: tuple[float, ...] = (1.0, 1.0, 1.0)) -> Scenario:
    """One class, batches of up to 4 in 2 + 5 n ms at speed 1."""
    replica = Replica((0.002,), (0.005,), (0.0,), 4)
    return Scenario(
        (RequestClass("only", 0.1),),
        tuple(replica.at_speed(speed) for speed in speeds),
        (1, 2, 4),
        decision="route",
        queues="replica",
    )


def moment(pending, queue=None, number=1, last=-1, **fields) -> Observation:
    """One lane at its decision `number`; of the pending, those not in `queue` are in service."""
    pending = np.array([pending], float)
    waiting = np.zeros(pending.shape) if queue is None else np.array([queue], float)
    return empty_observation(cluster((1.0,) * pending.shape[1]), 1)._replace(
        **{
            "queue_length": np.array([[waiting.sum()]]),
            "head_class": np.zeros(1, int),
            "head_size": np.ones(1),
            "last_replica": np.array([last]),
            "can_take": np.ones(pending.shape),
            "in_service": pending - waiting,
            "replica_state": np.where(pending > 0, ReplicaState.BUSY, ReplicaState.IDLE),
            "in_flight": pending,
            "replica_queue_length": waiting[:, :, None],
            "clock_s": np.array([float(number)]),
            "arrived": np.array([[number]]),
            **{name: np.array([value]) for name, value in fields.items()},
        }
    )


def router(name: str, scenario: Scenario | None = None, **parameters):
    return fresh_router(name, scenario or cluster(), parameters)


GRAIN = 2.0**-52  # what a probability is cut to; one of the row takes what is missing
THIRDS = pytest.approx([1 / 3] * 3)


def test_random_replica_shares_among_what_is_allowed():
    assert ask(router("random_replica"), moment([5, 0, 1])) == THIRDS
    assert ask(router("random_replica"), moment([5, 0, 1]), [0, 2]) == [0.5, 0, 0.5]


@pytest.mark.parametrize(
    ("last", "allowed", "expected"),
    [(-1, None, 0), (0, None, 1), (2, None, 0), (0, [0, 2], 2), (2, [2], 2), (1, [0, 1], 0)],
)
def test_round_robin_goes_to_the_next_that_is_allowed(last, allowed, expected):
    row = ask(router("round_robin"), moment([9, 9, 9], last=last), allowed)
    assert row[expected] == 1.0


def test_shortest_queue_counts_waiting_and_running_and_shares_ties():
    assert ask(router("shortest_queue"), moment([3, 1, 1])) == [0, 0.5, 0.5]
    assert ask(router("shortest_queue"), moment([3, 1, 1]), [0]) == [1, 0, 0]


def test_join_idle_queue_takes_an_idle_one_and_else_any():
    policy = router("join_idle_queue")
    assert ask(policy, moment([3, 0, 0])) == [0, 0.5, 0.5]
    assert ask(policy, moment([3, 1, 1])) == THIRDS  # not the shortest: any
    assert ask(policy, moment([3, 0, 1]), [0, 2]) == [0.5, 0, 0.5]
    starting = [ReplicaState.BUSY, ReplicaState.STARTING, ReplicaState.IDLE]
    assert ask(policy, moment([3, 0, 0], replica_state=starting)) == [0, 0, 1]


def by_enumeration(cost, allowed, d) -> np.ndarray:
    """Every subset of d allowed replicas, each as likely; its least ones share."""
    row = np.zeros(len(cost))
    subsets = list(combinations(allowed, min(d, len(allowed))))
    for subset in subsets:
        low = min(cost[k] for k in subset)
        ties = [k for k in subset if cost[k] == low]
        row[ties] += 1 / len(ties) / len(subsets)
    return row


@pytest.mark.parametrize("d", [1, 2, 3, 6, 9])
def test_power_of_d_has_the_probabilities_of_all_subsets(d):
    generator = np.random.default_rng(1)
    cost = generator.integers(0, 4, (40, 6)).astype(float)
    mask = generator.random((40, 6)) < 0.7
    mask[:, 0] |= ~mask.any(axis=1)
    rows = least_of_some(cost, mask, shares_of_subsets(6, d))
    for lane in range(40):
        expected = by_enumeration(cost[lane], np.flatnonzero(mask[lane]).tolist(), d)
        np.testing.assert_allclose(rows[lane], expected, rtol=0, atol=6 * GRAIN)
    assert (rows.sum(axis=1) == 1.0).all()


def test_two_of_three_random_queues_by_hand():
    # Pairs (0, 1), (0, 2), (1, 2) each 1/3 with lengths 2, 1, 1: 0 never wins, 1 and 2 win one pair
    # each and share the third.
    assert ask(router("power_of_d"), moment([2, 1, 1])) == pytest.approx([0, 0.5, 0.5])
    # Lengths 0, 1, 2: 0 wins two pairs, 1 wins one.
    assert ask(router("power_of_d"), moment([0, 1, 2])) == pytest.approx([2 / 3, 1 / 3, 0])
    assert ask(router("power_of_d"), moment([0, 1, 2]), [2]) == [0, 0, 1]


def test_sixty_four_replicas_keep_exact_rows():
    cost = np.arange(64.0)[None, :]
    rows = least_of_some(cost, np.ones((1, 64), bool), shares_of_subsets(64, 2))
    # The least of two is k with probability (63 - k) / C(64, 2).
    np.testing.assert_allclose(rows[0], (63 - np.arange(64)) / 2016, rtol=0, atol=64 * GRAIN)
    assert rows.sum() == 1.0


def test_emptiest_ranks_over_the_allowed_alone():
    mask = np.array([[True, True, True, False]])
    np.testing.assert_array_equal(
        emptiest(np.array([[2.0, 4.0, 6.0, 99.0]]), mask)[0, :3], [1, 0.5, 0]
    )
    np.testing.assert_array_equal(
        emptiest(np.array([[3.0, 3.0, 3.0, 9.0]]), mask)[0, :3], [1, 1, 1]
    )


def turns(policy, choices, allowed=None) -> list[list[float]]:
    """The rows of a sequence of decisions whose requests in truth go where `choices` says."""
    rows, last = [], -1
    for number, choice in enumerate(choices, start=1):
        rows.append(ask(policy, moment([0, 0, 0], number=number, last=last), allowed))
        last = choice
    return rows


def test_weighted_round_robin_spreads_the_turns_of_the_heavy_one():
    # Credits before the choice, total 7: (5 1 1) a; (3 2 2) a; (1 3 3) b or c, b taken;
    # (6 -3 4) a; (4 -2 5) c; (9 -1 -1) a; (7 0 0) a; then (5 1 1) again.
    rows = turns(router("weighted_round_robin", weights=(5, 1, 1)), [0, 0, 1, 0, 2, 0, 0, 0])
    a, b_or_c, c = [1, 0, 0], [0, 0.5, 0.5], [0, 0, 1]
    assert rows == [a, a, b_or_c, a, c, a, a, a]


def test_weighted_round_robin_learns_from_what_was_done_and_not_from_its_answer():
    # Credits (5 1 1), but c is taken: (5 1 -6), then (10 2 -5) a: (3 2 -5), (8 3 -4) a.
    rows = turns(router("weighted_round_robin", weights=(5, 1, 1)), [2, 0, 0])
    assert rows == [[1, 0, 0]] * 3
    # Equal weights: b is taken though any would do, so a and c are left; then c.
    rows = turns(router("weighted_round_robin"), [1, 0, 2])
    assert rows == [THIRDS, [0.5, 0, 0.5], [0, 0, 1]]


def test_weighted_round_robin_takes_its_weights_from_speeds():
    scenario = cluster((2.0, 1.0, 1.0))
    policy = router("weighted_round_robin", scenario)
    # Weights 1, 1/2, 1/2: (1 .5 .5) a: (-1 .5 .5), (0 1 1) b: (0 -1 1), (1 -.5 1.5) c.
    assert turns(policy, [0, 1, 2]) == [[1, 0, 0], [0, 0.5, 0.5], [0, 0, 1]]
    assert turns(router("weighted_round_robin", scenario, speed_power=0), [0]) == [THIRDS]


def test_weighted_round_robin_gives_a_masked_replica_no_credit():
    # Credits of b and c, total 3: (2 1) b; (1 2) c; (3 0) b; (2 1) b.
    policy = router("weighted_round_robin", weights=(9, 2, 1))
    b, c = [0, 1, 0], [0, 0, 1]
    assert turns(policy, [1, 2, 1, 1], allowed=[1, 2]) == [b, c, b, b]


def test_the_same_decision_asked_again_teaches_nothing():
    policy = router("weighted_round_robin", weights=(5, 1, 1))
    first = moment([0, 0, 0], number=1)
    assert ask(policy, first) == ask(policy, first) == [1, 0, 0]
    # Asked thrice, (1 3 3) comes at the third arrival all the same.
    for number, last in ((2, 0), (2, 0), (2, 0)):
        assert ask(policy, moment([0, 0, 0], number=number, last=last)) == [1, 0, 0]
    assert ask(policy, moment([0, 0, 0], number=3, last=0)) == [0, 0.5, 0.5]
    # The clock goes back: a new episode, a fresh memory.
    assert ask(policy, moment([0, 0, 0], number=1)) == [1, 0, 0]


def test_vllm_router_goes_by_the_poll_and_not_by_its_own_requests():
    # The view: 0 runs 2 and 1 waits; 1 runs 1. Its own counter would say 3, 9, 3.
    stale = moment([3, 1, 2], queue=[1, 0, 0], in_flight=[3, 9, 3])
    # Loads 3, 1, 2: pairs 01 -> 1, 02 -> 2, 12 -> 1.
    assert ask(router("vllm_router"), stale) == pytest.approx([0, 2 / 3, 1 / 3])
    # With the counter: 3, 9, 3: pairs 01 -> 0, 02 -> half each, 12 -> 2.
    assert ask(router("power_of_d"), stale) == pytest.approx([0.5, 0, 0.5])


def test_ray_pow2_prefers_a_cached_length_to_a_shorter_queue_that_it_would_have_to_probe():
    policy = router("ray_pow2")
    # Nothing cached: both of a pair are probed. Lengths 1, 0, 0.
    assert ask(policy, moment([1, 0, 0])) == pytest.approx([0, 0.5, 0.5])
    # Replica 0 was used at length 1: cached as 2. It wins both of its pairs.
    assert ask(policy, moment([9, 0, 0], number=2, last=0)) == pytest.approx([2 / 3, 1 / 6, 1 / 6])
    # Replica 1 was used at 0: cached as 1, less than 2.
    row = ask(policy, moment([9, 9, 0], number=3, last=1))
    assert row == pytest.approx([1 / 3, 2 / 3, 0])


def test_ray_pow2_probes_where_the_entry_is_old_or_full():
    # One pair at a time. Cached 4 + 1 = 5 is not below 5: probed, 0 against 1.
    policy = router("ray_pow2")
    ask(policy, moment([4, 4, 1]), [0, 2])
    assert ask(policy, moment([3, 9, 1], number=2, last=0), [0, 2]) == [0, 0, 1]
    for clock_s, expected in ((10.9, [1, 0, 0]), (11.0, [0, 0, 1])):  # seen at 1 s, lives 10 s
        policy = router("ray_pow2")
        ask(policy, moment([1, 4, 1]), [0, 2])
        later = moment([3, 9, 1], number=2, last=0)._replace(clock_s=np.array([clock_s]))
        assert ask(policy, later, [0, 2]) == expected
    # Both full: the shorter, where Ray would come back later.
    assert ask(router("ray_pow2"), moment([7, 9, 6]), [0, 2]) == [0, 0, 1]
    # Without a life, always the live lengths.
    policy = router("ray_pow2", queue_length_cache_s=0.0)
    ask(policy, moment([0, 0, 0]))
    assert ask(policy, moment([1, 0, 1], number=2, last=0), [0, 1]) == [0, 1, 0]


def test_two_cached_lengths_that_are_equal_share():
    policy = router("ray_pow2")
    ask(policy, moment([0, 0, 0]))
    ask(policy, moment([0, 0, 0], number=2, last=0))
    # 0 and 1 were used at length 0, each cached as 1: they win over 2 and tie with each other.
    assert ask(policy, moment([9, 9, 0], number=3, last=1)) == pytest.approx([1 / 2, 1 / 2, 0])


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("power_of_d", {"d": 0}, "power_of_d.d = 0"),
        ("power_of_d", {"d": 1.5}, "power_of_d.d = 1.5"),
        ("weighted_round_robin", {"weights": (1, 2)}, "needs one for each of 3"),
        ("weighted_round_robin", {"weights": (1, 0, 1)}, "weights = 0: .* above 0"),
        ("weighted_round_robin", {"speed_power": -1}, "speed_power = -1: .* at least 0"),
        ("ray_pow2", {"max_ongoing_requests": 0}, "max_ongoing_requests = 0"),
        ("ray_pow2", {"queue_length_cache_s": -1.0}, "queue_length_cache_s = -1.0"),
        ("round_robin", {"d": 2}, "no such parameter"),
    ],
)
def test_bad_parameters_are_refused(name, parameters, message):
    with pytest.raises(ValueError, match=message):
        build_policy(name, cluster(), parameters)
