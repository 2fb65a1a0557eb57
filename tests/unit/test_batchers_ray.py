"""Ray Serve's batches, which close by themselves, against timelines worked out by hand."""

import numpy as np
import pytest

from simulator.policies import build_policy
from simulator.policies.registry import RULES
from simulator.scenario import ClassChoice, MixedBatches
from tests.unit.batcher_timelines import answer, models, observe, play

OPEN = {"max_batch_size": 8, "batch_wait_timeout_s": 2.0, "max_ongoing_requests": 8}
EACH_SECOND = [(float(t), 0) for t in range(21)]


def test_under_overload_ray_sends_small_batches_where_triton_sends_full_ones():
    # A batch takes 10 s. Ray's batches are {0, 1, 2}, {3, 4, 5}, ... s, closed at 2, 5, 8, ... s.
    scenario = models()
    ray = play(build_policy("ray_batch", scenario, OPEN), scenario, EACH_SECOND, 50.0)
    assert ray == [(2.0 + 10 * k, 0, 0, 3) for k in range(5)]
    # Triton with the same limits: 3..12 s wait at 12 s, 8 of them go; 11..20 s at 22 s; 19, 20 s.
    same = {"max_batch_size": 8, "max_queue_delay_s": 2.0}
    triton = play(build_policy("triton", scenario, same), scenario, EACH_SECOND, 50.0)
    assert triton == [(2.0, 0, 0, 3), (12.0, 0, 0, 8), (22.0, 0, 0, 8), (32.0, 0, 0, 2)]


@pytest.mark.parametrize(
    ("waits_s", "sent"),
    [
        ([1.5, 1.0], 0),  # open until 2 s after the first
        ([2.0, 1.0], 2),
        ([5.0, 4.0, 3.0, 2.9, 1.0], 3),  # closed 3 s ago: it does not grow
        ([5.0], 1),
        ([0.5] * 8, 8),  # full
        ([1.0] * 7, 0),
    ],
)
def test_a_batch_holds_what_came_within_the_timeout_of_its_first(waits_s, sent):
    scenario = models()
    policy = build_policy("ray_batch", scenario, OPEN)
    shown = np.zeros((1, 1, 8))
    shown[0, 0, : len(waits_s)] = waits_s
    seen = observe(scenario, [len(waits_s)], [waits_s[0]], oldest_waits_s=shown)
    assert answer(policy, scenario, seen) == ((0, 0, sent) if sent else "wait")


def test_ongoing_requests_cap_the_batch_at_5_unless_raised():
    # 10 at 0 s: 5 are full at once, the other 5 too, on the second replica.
    scenario = models(replicas=2)
    policy = build_policy("ray_batch", scenario, {"max_batch_size": 8})
    assert play(policy, scenario, [(0.0, 0)] * 10) == [(0.0, 0, 0, 5), (0.0, 1, 0, 5)]


def test_each_deployment_has_a_batch_size_of_its_own():
    # Two at 0 s are full for class 0. Its third and class 1's two close at 2 s, of the same age:
    # the lower number goes first, and the other when a replica is free at 10 s.
    scenario = models(classes=2, replicas=2)
    parameters = {**OPEN, "max_batch_size": {"class 0": 2, "class 1": 8}}
    policy = build_policy("ray_batch", scenario, parameters)
    deeds = play(policy, scenario, [(0.0, 1), (0.0, 1), *[(0.0, 0)] * 3])
    assert deeds == [(0.0, 0, 0, 2), (2.0, 1, 0, 1), (10.0, 0, 1, 2)]
    assert {"max_batch_size.class 0", "max_batch_size.class 1"} < set(
        RULES["ray_batch"].space(scenario).axes
    )


def test_mixed_batches_merge_the_waits_of_all_classes():
    # 5, 4 and 1 s, of classes 0, 1 and 0: the batch that opened 5 s ago closed without the third.
    scenario = models(classes=2, mixed=MixedBatches.SUM, class_choice=ClassChoice.HEAD_OF_LINE)
    policy = build_policy("ray_batch", scenario, OPEN)
    shown = np.zeros((1, 2, 8))
    shown[0, 0, :2], shown[0, 1, 0] = (5.0, 1.0), 4.0
    seen = observe(scenario, [2, 1], [5.0, 4.0], oldest_waits_s=shown)
    assert answer(policy, scenario, seen) == (0, -1, 2)


def test_it_needs_to_see_the_waits_of_a_whole_batch():
    with pytest.raises(ValueError, match=r"view\.oldest_requests is 0, not at least 1"):
        build_policy("ray_batch", models(seen=0), OPEN)
    with pytest.raises(ValueError, match=r"ray_batch\.max_batch_size = 8: view\.oldest_requests"):
        build_policy("ray_batch", models(seen=4), OPEN)
    build_policy("ray_batch", models(seen=4), {**OPEN, "max_ongoing_requests": 4})


def test_the_tuner_looks_at_no_batch_that_the_view_does_not_cover():
    axes = RULES["ray_batch"].space(models(seen=4)).axes
    assert axes["max_batch_size"].values == (1, 2, 4)
    assert axes["max_ongoing_requests"].values == (4,)
