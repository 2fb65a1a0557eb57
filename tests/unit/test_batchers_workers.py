"""TensorFlow Serving's threads and TorchServe's workers against timelines worked out by hand."""

import pytest

from simulator.policies import RULES, build_policy
from tests.unit.batcher_timelines import answer, models, observe, play

GATHERS = {"batch_size": 4, "max_batch_delay_s": 5.0}


def test_tfs_sends_a_full_batch_or_what_waits_when_the_timeout_is_over():
    # 0 s alone to 3 s. Busy to 13 s, when 5 wait, full at 4: 4 go; the fifth, of 8 s, at 23 s.
    scenario = models()
    policy = build_policy("tfs", scenario, {"max_batch_size": 4, "batch_timeout_s": 3.0})
    deeds = play(policy, scenario, [(0.0, 0), *((4.0 + k, 0) for k in range(5))])
    assert deeds == [(3.0, 0, 0, 1), (13.0, 0, 0, 4), (23.0, 0, 0, 1)]


@pytest.mark.parametrize(("threads", "second"), [(1, (10.0, 0, 0, 4)), (2, (0.0, 1, 0, 4))])
def test_tfs_leaves_replicas_idle_for_want_of_threads(threads, second):
    scenario = models(replicas=2)
    parameters = {"max_batch_size": 4, "batch_timeout_s": 3.0, "num_batch_threads": threads}
    policy = build_policy("tfs", scenario, parameters)
    assert play(policy, scenario, [(0.0, 0)] * 8) == [(0.0, 0, 0, 4), second]


def test_tfs_takes_the_ready_queues_in_turn_and_not_by_age():
    # Class 2's 4 are the oldest. Two go at 0 s; at 10 s all are ready: 0, then 1, then 2 again.
    scenario = models(classes=3)
    policy = build_policy("tfs", scenario, {"max_batch_size": 2, "batch_timeout_s": 3.0})
    deeds = play(policy, scenario, [*[(0.0, 2)] * 4, (1.0, 0), (2.0, 1)])
    assert deeds == [(0.0, 0, 2, 2), (10.0, 0, 0, 1), (20.0, 0, 1, 1), (30.0, 0, 2, 2)]


def test_tfs_counts_what_someone_else_sent_as_a_turn():
    scenario = models(classes=3)
    policy = build_policy("tfs", scenario, {"max_batch_size": 4})
    policy.reset(1)
    before = observe(scenario, [4, 4, 4], [1.0, 1.0, 1.0], clock_s=[5.0])
    assert answer(policy, scenario, before) == (0, 0, 4)
    after = observe(scenario, [5, 1, 4], [2.0, 0.5, 2.0], clock_s=[6.0])  # class 1's were sent
    assert answer(policy, scenario, after) == (0, 2, 4)


def test_tfs_refuses_to_have_no_thread():
    with pytest.raises(ValueError, match=r"tfs\.num_batch_threads = 0: must be a whole number"):
        build_policy("tfs", models(), {"max_batch_size": 4, "num_batch_threads": 0})


def test_torchserve_counts_the_delay_from_when_a_worker_takes_the_job():
    # Job 0 is taken at 0 s and goes alone at 5 s; service to 15 s. Jobs 6 and 7 are taken at 15 s,
    # when the first is 9 s old, and go at 20 s.
    scenario = models()
    policy = build_policy("torchserve", scenario, GATHERS)
    deeds = play(policy, scenario, [(0.0, 0), (6.0, 0), (7.0, 0)])
    assert deeds == [(5.0, 0, 0, 1), (20.0, 0, 0, 2)]


def test_torchserve_sends_as_soon_as_the_batch_is_full():
    scenario = models()
    policy = build_policy("torchserve", scenario, GATHERS)
    deeds = play(policy, scenario, [(0.0, 0), (6.0, 0), (7.0, 0), (16.0, 0), (17.0, 0)])
    assert deeds == [(5.0, 0, 0, 1), (17.0, 0, 0, 4)]


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        (8, [(0.0, 0, 0, 4), (0.0, 1, 0, 4)]),  # full at once: so the lock passes on at once
        (7, [(0.0, 0, 0, 4), (5.0, 1, 0, 3)]),  # the second worker gathers for 5 s
        (3, [(5.0, 0, 0, 3)]),  # the second waits for the lock and gets no job
    ],
)
def test_torchserve_s_workers_gather_one_after_the_other(jobs, expected):
    scenario = models(replicas=2)
    policy = build_policy("torchserve", scenario, GATHERS)
    assert play(policy, scenario, [(0.0, 0)] * jobs) == expected


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        (1, [(5.0, 0, 0, 1), (15.0, 0, 1, 4)]),  # full since 1 s, but replica 0 gathers for class 0
        (2, [(1.0, 1, 1, 4), (5.0, 0, 0, 1)]),
    ],
)
def test_torchserve_s_replica_gathers_for_one_class_at_a_time(replicas, expected):
    scenario = models(classes=2, replicas=replicas)
    policy = build_policy("torchserve", scenario, GATHERS)
    assert play(policy, scenario, [(0.0, 0), *[(1.0, 1)] * 4]) == expected


def test_torchserve_drops_expired_jobs_when_it_takes_them_and_not_later():
    # Busy from 5 to 15 s. Then job 6 is 9 s old, too old; job 8 is 7 s old and is taken. At 20 s it
    # is 12 s old, but the worker has it.
    scenario = models(may_shed=True)
    policy = build_policy("torchserve", scenario, {**GATHERS, "timeout_s": 8.0})
    deeds = play(policy, scenario, [(0.0, 0), (6.0, 0), (8.0, 0)])
    assert deeds == [(5.0, 0, 0, 1), (15.0, "shed", 0), (20.0, 0, 0, 1)]


def test_torchserve_drops_no_job_that_a_worker_holds_though_another_is_idle():
    scenario = models(replicas=2, may_shed=True)
    policy = build_policy("torchserve", scenario, {**GATHERS, "timeout_s": 3.0})
    assert play(policy, scenario, [(0.0, 0)]) == [(5.0, 0, 0, 1)]


def test_torchserve_starts_anew_after_someone_else_sent_its_jobs():
    scenario = models(replicas=2)
    policy = build_policy("torchserve", scenario, GATHERS)
    policy.reset(1)

    def at(clock_s, wait_s):
        return answer(policy, scenario, observe(scenario, [2], [wait_s], clock_s=[clock_s]))

    assert at(10.0, 0.0) == "wait"  # gathers since 10 s
    assert at(14.0, 1.0) == "wait"  # the oldest came at 13 s: those of 10 s are gone
    assert at(15.0, 2.0) == "wait"  # would be over, had it begun at 10 s
    assert at(19.0, 6.0) == (0, 0, 2)


@pytest.mark.parametrize(
    ("name", "field", "wait"),
    [
        ("tfs", "max_batch_size", "batch_timeout_s"),
        ("torchserve", "batch_size", "max_batch_delay_s"),
    ],
)
def test_each_model_has_a_batch_size_of_its_own(name, field, wait):
    # Class 0 has its 2, class 1 lacks one of its 6; class 0's leftover would have to wait.
    scenario = models(classes=2, replicas=2)
    sizes = {"class 0": 2, "class 1": 6}
    policy = build_policy(name, scenario, {field: sizes, wait: 20.0})
    policy.reset(1)
    assert answer(policy, scenario, observe(scenario, [3, 5], [1.0, 2.0])) == (
        (0 if name == "tfs" else 1),  # replica 0 gathers for class 1, whose oldest is older
        0,
        2,
    )
    axes = RULES[name].space(scenario).axes
    assert {f"{field}.class 0", f"{field}.class 1"} < set(axes)
    assert field in RULES[name].space(models()).axes


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"batch_size": 0}, r"torchserve\.batch_size = 0"),
        ({"max_batch_delay_s": float("inf")}, r"torchserve\.max_batch_delay_s = inf"),
        ({"timeout_s": 1.0}, "needs may_shed"),
    ],
)
def test_torchserve_refuses_settings_out_of_range(parameters, message):
    with pytest.raises(ValueError, match=message):
        build_policy("torchserve", models(), parameters)
