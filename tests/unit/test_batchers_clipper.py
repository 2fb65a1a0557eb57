"""Clipper's two rules for the batch size against timelines worked out by hand."""

import numpy as np
import pytest

from simulator.policies import build_policy
from simulator.policies.batch.clipper_reg import _next_sizes
from tests.unit.batcher_timelines import answer, models, observe, play


def completed(scenario, number, size, took_s, queue, wait_s=0.0, request_class=0):
    """What replica 0 shows after its `number`-th batch, of the class, while others wait."""
    return observe(
        scenario,
        queue,
        [wait_s] * len(queue),
        clock_s=[float(number)],
        batches=[[number]],
        last_batch_class=[[request_class]],
        last_batch_size=[[size]],
        last_batch_s=[[took_s]],
    )


def test_aimd_adds_one_within_the_slo_and_takes_a_tenth_off_beyond_it():
    # b takes 10 + 10 b s and the SLO is 35 s: 20, 30 are within it, 40 is not and 3 becomes
    # floor(2.7) = 2; so 1, 2, 3, 2, 3. All wait longer than the SLO, which does not count.
    scenario = models(beta_s=10.0, slo_s=35.0)
    policy = build_policy("clipper_aimd", scenario, {})
    deeds = play(policy, scenario, [(0.0, 0)] * 20, until_s=140.0)
    assert deeds == [
        (0.0, 0, 0, 1),
        (20.0, 0, 0, 2),
        (50.0, 0, 0, 3),
        (90.0, 0, 0, 2),
        (120.0, 0, 0, 3),
    ]


def test_aimd_counts_a_batch_once_and_for_its_class_alone():
    scenario = models(classes=2)
    policy = build_policy("clipper_aimd", scenario, {"step": 3})
    policy.reset(1)
    for _ in range(2):  # the same batch at two decisions
        seen = completed(scenario, 1, 1, 10.0, [8, 0], request_class=0)
        assert answer(policy, scenario, seen) == (0, 0, 4)
    assert answer(policy, scenario, seen._replace(queue_length=np.array([[0, 8]]))) == (0, 1, 1)


def test_aimd_measures_against_its_share_of_the_slo_and_stays_on_the_menu():
    scenario = models()
    policy = build_policy("clipper_aimd", scenario, {"slo_share": 0.1, "step": 5, "backoff": 0.5})
    policy.reset(1)
    limits = []
    for number, took_s in enumerate((10.0, 10.0, 10.1, 10.1, 10.1, 10.1), 1):  # budget 10 s
        limits.append(answer(policy, scenario, completed(scenario, number, 1, took_s, [9]))[2])
    assert limits == [6, 8, 4, 2, 1, 1]  # 1 + 5; 11 -> 8; halves; at least 1


def test_aimd_s_back_off_is_not_a_rounding_error_below_a_whole_number():
    # 0.29 * 100 is 28.999999999999996 in float64.
    scenario = models(batch_sizes=tuple(range(1, 101)))
    policy = build_policy("clipper_aimd", scenario, {"step": 99, "backoff": 0.29})
    policy.reset(1)
    assert answer(policy, scenario, completed(scenario, 1, 1, 1.0, [200])) == (0, 0, 100)
    assert answer(policy, scenario, completed(scenario, 2, 1, 101.0, [200])) == (0, 0, 29)


def test_reg_explores_each_size_until_it_has_five_of_it():
    # 8 + 2 b s, and no end to the budget: 1 five times (10 s each), then 2 (12 s), then 3.
    scenario = models(alpha_s=8.0, beta_s=2.0, slo_s=1e6)
    policy = build_policy("clipper_reg", scenario, {})
    deeds = play(policy, scenario, [(0.0, 0)] * 100, until_s=120.0)
    assert [deed[3] for deed in deeds] == [1] * 5 + [2] * 5 + [3]
    assert deeds[-1][0] == 5 * 10.0 + 5 * 12.0


def test_the_next_size_is_one_more_below_ten_and_a_tenth_more_from_it():
    following = _next_sizes(list(range(1, 65)), 64)
    assert following[[1, 9, 10, 20, 30, 64]].tolist() == [2, 10, 11, 22, 33, 64]
    assert _next_sizes([1, 2, 4, 8, 16], 16)[[1, 2, 4, 8, 12, 16]].tolist() == [2, 4, 8, 16, 16, 16]


def taught(scenario, parameters, batches, queue=(8,)):
    """The rule after these batches of (size, s), and the next number of a batch."""
    policy = build_policy("clipper_reg", scenario, {"budget_share": 1.0, **parameters})
    policy.reset(1)
    for number, (size, took_s) in enumerate(batches, 1):
        answer(policy, scenario, completed(scenario, number, size, took_s, list(queue)))
    return policy


@pytest.mark.parametrize(
    ("wait_s", "sent"),
    [
        (85.0, 3),  # 15 s left: 1 + (15 - 10) / 2 = 3.5
        (87.0, 2),  # 13 s: 2.5
        (95.0, 1),  # 5 s: -1.5, but at least 1
        (500.0, 1),  # late: the overload feeds itself
        (83.0, 4),  # 17 s, more than ever seen: repeats the largest size seen
    ],
)
def test_reg_takes_the_size_that_the_budget_allows(wait_s, sent):
    # Sizes 1 and 4 took 10 and 16 s: 2 s a request.
    scenario = models()
    policy = taught(scenario, {"z": 0.0}, [(1, 10.0), (4, 16.0)])
    seen = completed(scenario, 2, 4, 16.0, [8], wait_s)
    assert answer(policy, scenario, seen) == (0, 0, sent)


def test_reg_is_cautious_by_three_pooled_deviations():
    # Means 10 and 16 s; squares (1 + 1) + (1 + 1) over 2 degrees of freedom: 2^0.5 = 1.414 s. With
    # z = 3 the sizes 1 and 4 stand for 14.24 and 20.24 s: 15.5 s allow 1 + 1.26 / 2 = 1.63.
    scenario = models()
    batches = [(1, 9.0), (1, 11.0), (4, 15.0), (4, 17.0)]
    seen = completed(scenario, 4, 4, 17.0, [8], 84.5)
    assert answer(taught(scenario, {"z": 3.0}, batches), scenario, seen) == (0, 0, 1)
    # Without it 1 + (15.5 - 10) / 2 = 3.75.
    assert answer(taught(scenario, {"z": 0.0}, batches), scenario, seen) == (0, 0, 3)


def test_reg_goes_one_size_up_once_it_has_its_samples():
    scenario = models()
    policy = taught(scenario, {"samples": 2}, [(4, 16.0)])
    assert answer(policy, scenario, completed(scenario, 1, 4, 16.0, [8])) == (0, 0, 4)
    assert answer(policy, scenario, completed(scenario, 2, 4, 16.0, [8])) == (0, 0, 5)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("clipper_aimd", {"slo_share": 0.0}, r"clipper_aimd\.slo_share = 0\.0"),
        ("clipper_aimd", {"step": 0}, r"clipper_aimd\.step = 0"),
        ("clipper_aimd", {"backoff": 1.0}, r"clipper_aimd\.backoff = 1\.0"),
        ("clipper_reg", {"budget_share": 1.5}, r"clipper_reg\.budget_share = 1\.5"),
        ("clipper_reg", {"samples": 0}, r"clipper_reg\.samples = 0"),
        ("clipper_reg", {"z": -1.0}, r"clipper_reg\.z = -1\.0"),
    ],
)
def test_clipper_refuses_settings_out_of_range(name, parameters, message):
    with pytest.raises(ValueError, match=message):
        build_policy(name, models(), parameters)
