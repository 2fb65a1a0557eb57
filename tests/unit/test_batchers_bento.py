"""BentoML's CORK dispatcher against timelines worked out by hand."""

import numpy as np
import pytest

from simulator.policies import build_policy
from simulator.policies.batch.bento_optimizer import Optimizer
from tests.unit.batcher_timelines import answer, models, observe, play

# The first two are skipped; then n + 2 s for n = 1, 2, 3.
BATCHES = [(1, 90.0), (1, 90.0), (1, 3.0), (2, 4.0), (3, 5.0)]


def showing(scenario, number, batch, wait_s, queue, **fields):
    """A decision each 100 s, at which the `number`-th batch has been sent and has completed."""
    size, took_s = batch
    return observe(
        scenario,
        queue,
        [wait_s] * len(queue),
        **{
            "clock_s": [100.0 * number],
            "since_dispatch_s": [100.0],
            "last_replica": [0],
            "batches": [[number]],
            "last_batch_class": [[0 if number else -1]],
            "last_batch_size": [[size]],
            "last_batch_s": [[took_s]],
            **fields,
        },
    )


def taught(scenario, **parameters):
    """CORK after the 5 batches, each released when its oldest had waited 20 s."""
    policy = build_policy("bento_cork", scenario, {"max_batch_size": 8, **parameters})
    policy.reset(1)
    answer(policy, scenario, showing(scenario, 0, (0, 0.0), 20.0, [1], last_replica=[-1]))
    for number, batch in enumerate(BATCHES, 1):
        answer(policy, scenario, showing(scenario, number, batch, 20.0, [1]))
    return policy


def moment(scenario, ages_s, **fields):
    """The next decision, 50 s after the last batch, with requests of these ages."""
    waits_s = np.zeros((1, 1, scenario.view.oldest_requests))
    seen = min(len(ages_s), waits_s.shape[2])
    waits_s[0, 0, :seen] = ages_s[:seen]
    fields = {"clock_s": [550.0], "since_dispatch_s": [150.0], "oldest_waits_s": waits_s, **fields}
    return showing(scenario, 5, BATCHES[-1], ages_s[0], [len(ages_s)], **fields)


def test_cork_warms_up_with_three_single_requests_then_a_pair_and_a_triple():
    # One request a second, 10 s a batch: at each completion more wait than it takes.
    scenario = models()
    policy = build_policy("bento_cork", scenario, {"max_batch_size": 8, "max_latency_s": 1000.0})
    deeds = play(policy, scenario, [(float(t), 0) for t in range(40)], until_s=51.0)
    expected = [1, 1, 1, 2, 3, 8]
    assert deeds == [(10.0 * k, 0, 0, size) for k, size in enumerate(expected)]


def test_cork_s_pair_is_waited_for_until_five_single_batches_have_passed():
    # Lmax 30 s: slope 2, offset 1 s until two sizes are known. The pair may take
    # min(28.5, 5 * 3) = 15 s and needs 2 * 2 + 1 = 5: a lone request goes when older than 10 s.
    scenario = models()
    policy = build_policy("bento_cork", scenario, {"max_batch_size": 8, "max_latency_s": 30.0})
    arrivals = [(0.0, 0), (10.0, 0), (20.0, 0), (30.0, 0)]
    deeds = play(policy, scenario, arrivals)
    assert deeds == [(0.0, 0, 0, 1), (10.0, 0, 0, 1), (20.0, 0, 0, 1), (41.0, 0, 0, 1)]


@pytest.mark.parametrize(
    ("ages_s", "sent"),
    [
        # slope 1, W = 20 s, tick 1 s: holds while n * (wn + 1 + 1) <= 0.95 * 20 = 19.
        ([9.0, 5.0, 1.0, 1.0], 0),  # 4 * 3 = 12
        ([9.0, 5.0, 5.0, 3.0], 4),  # 4 * 5 = 20
        ([9.0] * 6 + [0.5], 0),  # 7 * 2.5 = 17.5
        ([9.0] * 6 + [1.0], 7),  # 7 * 3 = 21
        ([17.0], 0),  # 19
        ([17.5], 1),
        ([0.0] * 8, 8),  # full
    ],
)
def test_cork_holds_while_one_more_request_costs_less_than_it_saves(ages_s, sent):
    scenario = models()
    policy = taught(scenario)
    expected = (0, 0, sent) if sent else "wait"
    assert answer(policy, scenario, moment(scenario, ages_s)) == expected


def test_without_the_waits_the_newest_is_as_old_as_the_latest_arrival_that_was_seen():
    # 4 * (wn + 2) <= 19 up to wn = 2.75 s.
    scenario = models(seen=0)
    policy = taught(scenario)
    arrived = {"arrived": [[9]]}
    first = moment(scenario, [9.0] * 4, **arrived)
    assert answer(policy, scenario, first) == "wait"  # seen just now
    later = moment(scenario, [11.0] * 4, clock_s=[552.0], since_dispatch_s=[152.0], **arrived)
    assert answer(policy, scenario, later) == "wait"  # 2 s ago
    later = moment(scenario, [12.0] * 4, clock_s=[553.0], since_dispatch_s=[153.0], **arrived)
    assert answer(policy, scenario, later) == (0, 0, 4)  # 3 s ago


@pytest.mark.parametrize(
    ("may_shed", "ages_s", "expected"),
    [
        (True, [24.0, 9.0, 9.0, 9.0], ("shed", 0)),  # 24 + 4 * 1 + 2 = 30
        (True, [23.5, 9.0, 9.0, 9.0], (0, 0, 4)),
        (True, [90.0], (0, 0, 1)),  # never the only one
        (False, [24.0, 9.0, 9.0, 9.0], (0, 0, 4)),
    ],
)
def test_cork_cancels_the_oldest_that_would_be_late(may_shed, ages_s, expected):
    scenario = models(may_shed=may_shed)
    policy = taught(scenario, max_latency_s=30.0)
    assert answer(policy, scenario, moment(scenario, ages_s)) == expected


def test_each_service_has_a_latency_goal_of_its_own():
    # Nothing has completed: min(2, 2 / 3) and min(1, 1 / 3) s, or 2 and 1 s. Nine wait, more than
    # the 8 of the warm-up: the oldest, of 10 s, is too late for class 0 alone.
    scenario = models(classes=2, may_shed=True)
    goals_s = {"class 0": 10.0, "class 1": 60.0}
    policy = build_policy("bento_cork", scenario, {"max_latency_s": goals_s})
    policy.reset(1)
    assert answer(policy, scenario, observe(scenario, [9, 9], [10.0, 10.0])) == ("shed", 0)
    assert policy._memory["slope"].tolist() == [[pytest.approx(2 / 3), 2.0]]
    assert policy._memory["offset"].tolist() == [[pytest.approx(1 / 3), 1.0]]
    policy.reset(1)
    assert answer(policy, scenario, observe(scenario, [0, 9], [0.0, 10.0])) == (0, 1, 1)


@pytest.mark.parametrize("sent_at_this_instant", [False, True])
def test_the_wait_of_a_request_that_was_cancelled_does_not_count(sent_at_this_instant):
    # Three decisions at 550 s: the one of 24 s is cancelled at the first, one of 9 s at the second.
    # Even where a batch was sent at 550 s, before them, 5 or 6 releases are all there were.
    scenario = models(may_shed=True)
    policy = taught(scenario, max_latency_s=30.0)
    since_s = 0.0 if sent_at_this_instant else 150.0
    for left in (4, 3, 2):
        seen = moment(scenario, [24.0, 9.0, 8.0, 7.0][4 - left :], since_dispatch_s=[since_s])
        answer(policy, scenario, seen)
    assert policy._memory["released"].tolist() == [[6 if sent_at_this_instant else 5]]


def learned(batches, refit_s=0.0):
    """Slope and offset after batches of (clock in s, size, s) of one lane and class."""
    optimizer = Optimizer(1, 1, max_latency_s=3.0, refit_s=refit_s)
    memory = optimizer.fresh(1)
    lane = np.zeros(1, np.int64)
    for clock_s, size, took_s in batches:
        batch = (lane, lane, np.array([size]), np.array([took_s]))
        optimizer.learn(memory, [batch], np.array([clock_s]))
    return memory["slope"].item(), memory["offset"].item()


def test_the_optimizer_starts_from_the_latency_goal_until_it_has_seen_two_sizes():
    # 3 s * 2 / 30 and 3 s / 30, as they stand.
    start = (3.0 * 2.0 / 30.0, 3.0 / 30.0)
    assert learned([]) == start
    assert learned([(0.0, 1, 9.0), (1.0, 4, 9.0), (2.0, 2, 9.0), (3.0, 2, 9.0)]) == start


def test_the_optimizer_fits_least_squares_to_the_last_fifty():
    # The first of these is skipped with another, and the old 9 s are pushed out by 50 of n + 2 s.
    old = [(float(k), 1, 9.0) for k in range(20)]
    new = [(float(k), 1 + k % 4, 3.0 + k % 4) for k in range(20, 70)]
    assert learned(old + new) == pytest.approx((1.0, 2.0))
    # One short of it, a 9 is left among them: it pulls the fit.
    assert learned(old + new[:-1]) != pytest.approx((1.0, 2.0))


def test_a_falling_line_is_cut_to_no_slope_and_no_offset_below_zero():
    batches = [(0.0, 1, 0.0), (1.0, 1, 0.0), (2.0, 1, 5.0), (3.0, 2, 4.0)]
    assert learned(batches) == (1e-6, pytest.approx(6.0))  # 6 - n
    steep = [(0.0, 1, 0.0), (1.0, 1, 0.0), (2.0, 2, 1.0), (3.0, 3, 4.0)]
    assert learned(steep) == (pytest.approx(3.0), 0.0)  # 3 n - 5


def test_it_refits_after_the_warm_up_and_then_every_five_seconds():
    warm_up = [(0.0, 1, 9.0), (0.1, 1, 9.0), (0.2, 1, 3.0), (0.3, 2, 4.0), (0.4, 3, 5.0)]
    assert learned(warm_up, 5.0) == pytest.approx((1.0, 2.0))
    assert learned([*warm_up, (5.0, 8, 99.0)], 5.0) == pytest.approx((1.0, 2.0))
    assert learned([*warm_up, (5.4, 8, 99.0)], 5.0) != pytest.approx((1.0, 2.0))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"max_batch_size": 0}, r"bento_cork\.max_batch_size = 0"),
        ({"max_latency_s": 0.0}, r"bento_cork\.max_latency_s = 0\.0"),
        ({"decay": 0.0}, r"bento_cork\.decay = 0\.0"),
        ({"refit_s": -1.0}, r"bento_cork\.refit_s = -1\.0"),
    ],
)
def test_cork_refuses_settings_out_of_range(parameters, message):
    with pytest.raises(ValueError, match=message):
        build_policy("bento_cork", models(), parameters)
