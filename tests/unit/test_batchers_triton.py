"""static_fill and Triton's dynamic batcher against timelines worked out by hand."""

from dataclasses import replace

import pytest

from simulator.policies import RULES, build_policy
from simulator.replica import Replica
from simulator.scenario import ClassChoice, RequestClass
from tests.unit.batcher_timelines import answer, models, observe, play


def test_static_fill_sends_full_batches_and_leaves_the_tail():
    # 8 requests, one a second; a batch takes 10 s, on two replicas. Full at 2, 5 (0, 1 free) and
    # the last two, of 6 and 7 s, wait for ever.
    scenario = models(replicas=2)
    policy = build_policy("static_fill", scenario, {"batch_size": 3})
    arrivals = [(float(t), 0) for t in range(8)]
    assert play(policy, scenario, arrivals) == [(2.0, 0, 0, 3), (5.0, 1, 0, 3)]


def test_static_fill_keeps_to_replicas_that_take_the_whole_batch():
    small, large = (Replica((10.0,), (0.0,), (0.0,), most) for most in (2, 8))
    scenario = replace(models(batch_sizes=(1, 2, 4, 8)), replicas=(small, large))
    policy = build_policy("static_fill", scenario, {"batch_size": 4})
    assert answer(policy, scenario, observe(scenario, [5], [0.0])) == (1, 0, 4)
    busy = observe(scenario, [5], [0.0], can_take=[[1.0, 0.0]])
    assert answer(policy, scenario, busy) == "wait"


@pytest.mark.parametrize(
    ("size", "options"),
    [
        (3, {"batch_sizes": (1, 2, 4)}),  # not on the menu
        (16, {"batch_sizes": (1, 8, 16), "max_batch_size": 8}),
        (5, {"classes": 2, "queue_capacity": 8}),  # 4 + 4 fill the queue, and neither is full
        (2, {"classes": 2, "class_choice": ClassChoice.HEAD_OF_LINE}),
    ],
)
def test_static_fill_refuses_a_size_that_may_never_be_reached(size, options):
    with pytest.raises(ValueError, match=r"static_fill\.batch_size = \d+: must be one of"):
        build_policy("static_fill", models(**options), {"batch_size": size})


def test_static_fill_does_not_fit_where_every_size_may_block_the_queue():
    scenario = models(batch_sizes=(2, 4), classes=2, class_choice=ClassChoice.HEAD_OF_LINE)
    with pytest.raises(ValueError, match="before the queue is full"):
        build_policy("static_fill", scenario, {"batch_size": 2})


TWO_FOUR = {"max_batch_size": 8, "preferred_batch_sizes": [2, 4], "max_queue_delay_s": 3.0}
FOUR = {"max_batch_size": 8, "preferred_batch_sizes": [4], "max_queue_delay_s": 3.0}
AT_ONCE = {"max_batch_size": 8, "preferred_batch_sizes": [4]}
UNSET = {"max_batch_size": 6, "max_queue_delay_s": 3.0}


@pytest.mark.parametrize(
    ("parameters", "waiting", "oldest_s", "sent"),
    [
        (TWO_FOUR, 1, 2.0, 0),  # (5) nothing reached, time left
        (TWO_FOUR, 2, 2.0, 2),  # (3)
        (TWO_FOUR, 3, 2.0, 2),  # (3) the last one passed; the third stays
        (TWO_FOUR, 5, 2.0, 4),  # (3) n above the largest preferred
        (TWO_FOUR, 20, 2.0, 4),
        (TWO_FOUR, 1, 3.0, 1),  # (4) the delay is over
        (TWO_FOUR, 3, 3.0, 3),  # ... and preferred sizes count no more
        (FOUR, 3, 2.9, 0),
        (FOUR, 4, 2.9, 4),
        (FOUR, 5, 3.0, 5),  # max(preferred) + 1, server#8141
        (FOUR, 9, 3.0, 8),  # the scan ends at max_batch_size
        (AT_ONCE, 3, 0.0, 3),  # (4) delay 0: what there is
        (AT_ONCE, 6, 9.0, 4),  # (3) a delay of 0 never expires
        (UNSET, 5, 2.9, 0),  # preferred is the maximum
        (UNSET, 6, 0.0, 6),
        (UNSET, 5, 3.0, 5),
        (UNSET, 7, 0.0, 6),
    ],
)
def test_triton_scans_for_a_preferred_size_until_the_delay_is_over(
    parameters, waiting, oldest_s, sent
):
    scenario = models()
    policy = build_policy("triton", scenario, parameters)
    expected = (0, 0, sent) if sent else "wait"
    assert answer(policy, scenario, observe(scenario, [waiting], [oldest_s])) == expected


def test_triton_sends_one_more_than_preferred_when_five_came_during_a_service():
    # 4 at 0 s, as preferred: service to 10 s. Then 5 from 5 to 9 s, the oldest 5 s old at 10 s.
    scenario = models()
    policy = build_policy("triton", scenario, FOUR)
    arrivals = [(0.0, 0)] * 4 + [(5.0 + k, 0) for k in range(5)]
    assert play(policy, scenario, arrivals) == [(0.0, 0, 0, 4), (10.0, 0, 0, 5)]


def test_triton_looks_at_every_class_and_takes_the_longest_waiting_that_is_ready():
    scenario = models(classes=2, replicas=2)
    policy = build_policy("triton", scenario, FOUR)
    assert answer(policy, scenario, observe(scenario, [3, 4], [2.0, 1.0])) == (0, 1, 4)
    assert answer(policy, scenario, observe(scenario, [3, 4], [3.0, 1.0])) == (0, 0, 3)
    assert answer(policy, scenario, observe(scenario, [3, 3], [2.0, 1.0])) == "wait"


def test_triton_rejects_the_expired_when_it_forms_a_batch():
    # Busy from 0 to 10 s; then 9, 8 and 7 s old: more than 8 s is too old, 8 s is not.
    scenario = models(may_shed=True)
    policy = build_policy("triton", scenario, {"max_batch_size": 8, "timeout_s": 8.0})
    deeds = play(policy, scenario, [(0.0, 0), (1.0, 0), (2.0, 0), (3.0, 0)])
    assert deeds == [(0.0, 0, 0, 1), (10.0, "shed", 0), (10.0, 0, 0, 2)]


def test_triton_s_models_have_timeouts_of_their_own_or_none():
    scenario = models(classes=3, may_shed=True)
    limits_s = {"class 0": 8.0, "class 1": 3.0, "class 2": 0.0}
    policy = build_policy("triton", scenario, {"max_batch_size": 8, "timeout_s": limits_s})
    assert answer(policy, scenario, observe(scenario, [1, 1, 1], [8.0, 3.0, 99.0])) == (0, 2, 1)
    seen = observe(scenario, [1, 1, 1], [8.0, 3.5, 99.0])
    assert answer(policy, scenario, seen) == ("shed", 1)


def test_triton_s_models_have_maxima_of_their_own():
    scenario = models(classes=2)
    limits = {"class 0": 6, "class 1": 2}
    policy = build_policy("triton", scenario, {"max_batch_size": limits, "max_queue_delay_s": 3.0})
    # Unset, the preferred size is the maximum of the model.
    assert answer(policy, scenario, observe(scenario, [5, 5], [2.0, 1.0])) == (0, 1, 2)
    assert answer(policy, scenario, observe(scenario, [5, 1], [2.0, 1.0])) == "wait"
    assert answer(policy, scenario, observe(scenario, [7, 5], [2.0, 1.0])) == (0, 0, 6)


def test_the_tuner_looks_for_one_limit_for_all_models_and_for_shares_of_each_one_s_slo():
    unlike = replace(
        models(classes=2, may_shed=True),
        request_classes=(RequestClass("tight", 10.0), RequestClass("loose", 100.0)),
    )
    for name in ("triton", "torchserve"):
        assert RULES[name].space(unlike).axes["timeout_s"].values == (
            *(0.0, 3.0, 4.0, 5.0, 7.0, 10.0),
            *({"tight": 10 * s, "loose": 100 * s} for s in (0.3, 0.4, 0.5, 0.7, 1.0)),
        )
        one = RULES[name].space(models(may_shed=True)).axes["timeout_s"].values
        assert one == (0.0, 30.0, 40.0, 50.0, 70.0, 100.0)
        assert "timeout_s" not in RULES[name].space(models()).axes


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"timeout_s": {"class": 1.0}}, "needs one time for each of"),
        ({"timeout_s": {"class 0": -1.0}}, r"timeout_s\.class 0 = -1\.0"),
        ({"preferred_batch_sizes": [9]}, "at most max_batch_size 8"),
        ({"preferred_batch_sizes": [0]}, r"preferred_batch_sizes = 0: must be at least 1"),
        ({"preferred_batch_sizes": "4"}, "must be a list"),
        ({"max_queue_delay_s": -1.0}, r"max_queue_delay_s = -1\.0"),
        ({"timeout_s": 1.0}, "needs may_shed"),
        ({"timeout_action": "delay"}, "queues are FIFO"),
        ({"timeout_action": "drop"}, "must be 'reject' or 'delay'"),
    ],
)
def test_triton_refuses_settings_that_it_cannot_honor(parameters, message):
    with pytest.raises(ValueError, match=message):
        build_policy("triton", models(), {"max_batch_size": 8, **parameters})
