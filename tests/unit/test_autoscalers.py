"""Autoscalers and fixed set-points against timelines written by hand."""

import numpy as np
import pytest

from simulator.conditions import SetPoints
from simulator.policies import RULES, build_policy
from simulator.policies.registry import fitting_rules
from simulator.policies.tune.control_loop import ControlLoop, RunningTotals
from simulator.policies.tune.set_points import SetPointActions
from tests.unit.set_point_timelines import Told, observed, tuned

ANY = SetPoints(replicas_on=(0, 1, 2, 3, 4, 5, 6, 7, 8))
SCALED = tuned(ANY, replicas=8)
SCALERS = ("keda", "knative_kpa", "ray_serve_autoscale")


def test_a_set_point_goes_to_the_nearest_value_and_the_lower_of_two_as_near() -> None:
    actions = SetPointActions(tuned(SetPoints((2, 6, 16), replicas_on=(0, 2, 4))))
    sizes = np.array([1, 4, 5, 11, 12, 99])  # 4 is as near to 2 as to 6, and 11 to 6 as to 16
    assert actions.offered("max_batch_size", sizes).tolist() == [2, 2, 6, 6, 16, 16]
    # One replica that is wanted never becomes none.
    assert actions.offered("replicas_on", np.array([0, 1, 2, 3, 9])).tolist() == [0, 2, 2, 4, 4]


def test_the_set_points_that_a_rule_does_not_name_stay_as_they_are_found() -> None:
    menu = SetPoints((1, 8), (0.0, 0.01, 0.02), replicas_on=(1, 2))
    told = Told(tuned(menu), "fixed_set_points", on=2, max_batch_size=1)
    found = {0: 8.0, 1: 0.01, 3: 2.0}
    assert told.ask(found=found).tolist() == [1.0, 0.01, 64.0, 2.0]  # no menu for max_num_seqs
    assert told.ask(found={0: 8.0, 1: 0.02}).tolist() == [1.0, 0.02, 64.0, 2.0]


def test_fixed_set_points_are_set_at_once_and_again() -> None:
    menu = SetPoints((1, 8), (0.0, 0.01), replicas_on=(1, 2))
    point = {"max_batch_size": 8, "batch_timeout_s": 0.01, "replicas_on": 1}
    told = Told(tuned(menu), "fixed_set_points", on=2, **point)
    for _ in range(3):
        assert told.ask(found={0: 1.0, 3: 2.0}).tolist() == [8.0, 0.01, 64.0, 1.0]


def test_keep_warm_holds_its_number_through_idleness_and_load() -> None:
    told = Told(SCALED, "keep_warm", on=0, replicas=3)
    assert [told.replicas(waiting=n) for n in (0, 500, 0)] == [3, 3, 3]


def test_keda_adds_replicas_at_once_and_leaves_alone_what_is_within_a_tenth() -> None:
    told = Told(SCALED, "keda", on=1, target_in_system=5.0)
    assert told.replicas(waiting=4, in_flight=7) == 3  # 11 / 5 = 2.2
    assert told.replicas(waiting=16) == 3  # 16 / 15 = 1.07, though 16 / 5 > 3
    assert told.replicas(waiting=17) == 4  # 17 / 15 = 1.13
    assert told.replicas(waiting=1000) == 8


def test_keda_goes_down_by_the_highest_recommendation_of_the_window_then_cools_down() -> None:
    parameters = {"target_in_system": 2.0, "hpa_stabilization_s": 4.0, "cooldown_s": 3.0}
    told = Told(SCALED, "keda", on=1, **parameters)
    assert told.replicas(waiting=6) == 3  # at 1 s
    assert told.replicas(waiting=6) == 3  # 2 s: the last recommendation of 3, valid for 4 s
    assert [told.replicas(waiting=1) for _ in (3, 4, 5)] == [3, 3, 3]
    assert told.replicas(waiting=1) == 1  # 6 s
    # Active last at 6 s: more than 3 s have passed at 10 s.
    assert [told.replicas() for _ in (7, 8, 9, 10)] == [1, 1, 1, 0]


def test_keda_goes_from_many_to_none_where_the_cooldown_ends_first() -> None:
    parameters = {"target_in_system": 2.0, "hpa_stabilization_s": 60.0, "cooldown_s": 1.5}
    told = Told(SCALED, "keda", on=4, **parameters)
    assert [told.replicas(in_flight=n) for n in (8, 0, 0)] == [4, 4, 0]  # 2 s after the last
    assert told.replicas() == 0
    warm = Told(SCALED, "keda", on=4, min_replicas=1, **parameters)
    assert [warm.replicas(in_flight=n) for n in (8, 0, 0, 0)] == [4] * 4


def test_keda_counts_what_it_finds_first_as_a_recommendation() -> None:
    told = Told(SCALED, "keda", on=3, target_in_system=2.0, hpa_stabilization_s=2.0)
    assert [told.replicas(waiting=1) for _ in range(3)] == [3, 3, 1]


def test_keda_without_any_activity_so_far_goes_to_zero_at_once() -> None:
    assert Told(SCALED, "keda", on=3, target_in_system=2.0).replicas() == 0


def test_keda_activates_above_the_threshold_only() -> None:
    told = Told(SCALED, "keda", on=0, target_in_system=0.5, activation_threshold=1.0)
    assert told.replicas(waiting=1) == 0
    assert told.replicas(waiting=2) == 1  # one, whatever is waiting; the HPA adds the rest
    assert told.replicas(waiting=2) == 4


def knative(on: int, **parameters: float) -> Told:
    """Target 10; decisions every 2 s; windows of 4 and 1 of them; zero after 2 of them."""
    scenario = tuned(ANY, interval_s=2.0, replicas=8)
    times = {"stable_window_s": 8.0, "panic_window_s": 1.0, "scale_to_zero_grace_s": 3.0}
    return Told(scenario, "knative_kpa", on, target_in_system=10.0, **times, **parameters)


def test_knative_panics_on_a_surge_and_comes_down_by_halves_when_it_is_over() -> None:
    told = knative(on=1)
    assert told.replicas(in_flight=10) == 1
    assert told.replicas(waiting=20, in_flight=10) == 3  # panic 3 >= 2 * 1; stable (10 + 30) / 2
    # No fewer for 8 s after 4 s; at 14 s the last four samples are 0, and 3 / 2 = 1 is the least.
    assert [told.replicas() for _ in (6, 8, 10, 12)] == [3, 3, 3, 3]
    assert told.replicas() == 1
    # Zero is wanted from 16 s on; the grace, rounded up to 4 s, ends at 20 s.
    assert [told.replicas() for _ in (16, 18, 20)] == [1, 1, 0]


def test_knative_in_panic_only_grows() -> None:
    told = knative(on=1)
    assert [told.replicas(waiting=n) for n in (30, 20, 70, 10)] == [3, 3, 7, 7]


def test_knative_outside_panic_follows_the_stable_average() -> None:
    told = knative(on=1, panic_threshold=100.0)
    # Means 10, 10, 20 (of 3), 25 (of 4), then 10 drops out of the window: 28.
    samples = (10, 10, 40, 40, 22)
    assert [told.replicas(waiting=n) for n in samples] == [1, 1, 2, 3, 3]


def test_knative_with_several_replicas_at_first_keeps_them_for_a_stable_window() -> None:
    told = knative(on=4)
    assert [told.replicas() for _ in range(5)] == [4] * 5  # 2 to 10 s: 8 s are not over before
    assert told.replicas() == 2


def test_knative_measures_its_rate_limits_by_ready_replicas() -> None:
    told = knative(on=1, max_scale_up_rate=2.0)
    assert told.replicas(waiting=80) == 2
    assert told.replicas(waiting=80, ready=1) == 2  # the second has not started yet
    assert told.replicas(waiting=80, ready=2) == 4


def test_knative_from_zero_takes_one_for_ready() -> None:
    told = knative(on=0)
    assert told.replicas(waiting=15, ready=0) == 2


def ray(on: int, **parameters: float) -> Told:
    """Target 2; more after 2 s, fewer after 3 s; decisions every second, no looking back."""
    known = {"target_in_system": 2.0, "upscale_delay_s": 2.0, "downscale_delay_s": 3.0}
    return Told(
        SCALED, "ray_serve_autoscale", on, **{"look_back_period_s": 1.0, **known, **parameters}
    )


def test_ray_follows_a_wish_that_was_repeated_for_the_delay_and_the_last_one_counts() -> None:
    told = ray(on=1)
    assert [told.replicas(waiting=n) for n in (8, 8, 6)] == [1, 1, 3]  # 2 s after the first
    # Down: the fourth decision in a row comes 3 s after the first.
    assert [told.replicas(in_flight=n) for n in (2, 2, 2, 3)] == [3, 3, 3, 2]


def test_ray_counts_anew_after_another_wish() -> None:
    told = ray(on=2)
    waiting = (6, 6, 4, 6, 6, 2, 6, 6, 6)  # 4 is what is on, 2 the other direction
    assert [told.replicas(waiting=n) for n in waiting] == [2] * 8 + [3]


def test_ray_goes_to_zero_from_one_only() -> None:
    told = ray(on=3, min_replicas=0)
    assert [told.replicas() for _ in range(8)] == [3, 3, 3, 1, 1, 1, 1, 0]
    kept = ray(on=1)
    assert [kept.replicas() for _ in range(8)] == [1] * 8


def test_ray_scales_part_of_the_way_by_its_factors() -> None:
    told = ray(on=1, upscale_delay_s=0.0, upscaling_factor=0.5)
    assert told.replicas(waiting=10) == 3  # 1 + (5 - 1) / 2
    stuck = ray(on=3, downscale_delay_s=0.0, downscaling_factor=0.1)
    assert stuck.replicas(waiting=4) == 2  # 3 - 0.1 rounds up to 3, so one less
    assert ray(on=3, upscale_delay_s=0.0).replicas(waiting=5) == 3


def test_ray_averages_over_the_look_back_period() -> None:
    told = ray(on=1, upscale_delay_s=0.0, look_back_period_s=2.0)
    assert [told.replicas(waiting=n) for n in (0, 8, 8)] == [1, 2, 4]  # means 0, 4, 8


def test_ray_without_a_ready_replica_has_no_delay_and_no_more_wishes() -> None:
    told = ray(on=0)
    assert [told.replicas(waiting=n) for n in (0, 9)] == [0, 1]
    assert told.replicas(waiting=9, ready=0) == 1  # it still starts


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("fixed_set_points", {"max_batch_size": 8}, "no menu for it"),
        ("fixed_set_points", {"replicas_on": 9}, r"replicas_on = 9: must be one of \[0, 1"),
        ("keep_warm", {"replicas": 0}, "replicas = 0: must be a whole number, at least 1"),
        ("keep_warm", {}, "keep_warm.replicas: must be given"),
        ("keda", {}, "keda.target_in_system: must be given"),
        ("keda", {"target_in_system": 0}, "target_in_system = 0: must be finite and above 0"),
        ("keda", {"target_in_system": 1, "cooldown_s": -1}, "cooldown_s = -1"),
        ("keda", {"target_in_system": 1, "min_replicas": 9}, "min_replicas = 9: must be at most 8"),
        ("knative_kpa", {"stable_window_s": 0.0}, "stable_window_s = 0.0"),
        ("knative_kpa", {"panic_window_s": 61.0}, "panic_window_s = 61.0: must be at most"),
        (
            "knative_kpa",
            {"panic_threshold": 1.0},
            "panic_threshold = 1.0: must be finite and above",
        ),
        ("ray_serve_autoscale", {"upscaling_factor": 0.0}, "upscaling_factor = 0.0"),
        ("ray_serve_autoscale", {"upscale_delay_s": float("inf")}, "upscale_delay_s = inf"),
        ("ray_serve_autoscale", {"min_replicas": 0.5}, "min_replicas = 0.5"),
    ],
)
def test_parameters_out_of_range_are_refused(name, parameters, message) -> None:
    with pytest.raises(ValueError, match=message):
        build_policy(name, SCALED, parameters)


def test_rules_that_scale_need_a_menu_of_numbers_of_replicas() -> None:
    fixed = tuned(SetPoints((1, 8)))
    assert not {*SCALERS, "keep_warm"} & set(fitting_rules(fixed))
    assert {*SCALERS, "keep_warm", "seed_adaptive"} - set(fitting_rules(SCALED)) == {
        "seed_adaptive"
    }


@pytest.mark.parametrize("name", ["fixed_set_points", "keep_warm", "seed_adaptive", *SCALERS])
@pytest.mark.parametrize("interval_s", [0.1, 1.0, 300.0])
@pytest.mark.parametrize("menu", [(0, 1), (0, 4), (1, 2, 4), (2,)])
def test_every_point_of_a_space_can_be_built(name, interval_s, menu) -> None:
    scenario = tuned(SetPoints((1, 8), replicas_on=menu), interval_s, cold_start_s=20.0)
    space = RULES[name].space(scenario)
    points = [space.corner(False), space.corner(True)]
    for point in points:
        build_policy(name, scenario, point)
    if space.default is not None:
        for axis, value in space.default.items():
            low, high = (getattr(space.axes[axis], end, None) for end in ("low", "high"))
            assert low is None or low <= value <= high


def test_windows_hold_whole_intervals_and_time_is_counted_in_them() -> None:
    loop = ControlLoop(tuned(ANY, interval_s=0.1, replicas=8))
    assert loop.at_least("t", 0.3) == loop.at_most("t", 0.3) == 3  # 0.3 / 0.1 < 3 in binary
    assert loop.at_least("t", 1.1) == loop.at_most("t", 1.1) == 11  # and 1.1 / 0.1 > 11
    assert (loop.at_least("t", 0.35), loop.at_most("t", 0.35), loop.window("t", 0.01)) == (4, 3, 1)
    clock_s = np.array([sum([0.1] * 7)])  # 0.7 less a rounding error
    assert loop.now(observed(SCALED, clock_s=clock_s)) == [7]


def test_running_totals_give_the_increase_over_a_window_however_long_they_run() -> None:
    totals = RunningTotals("steps", 3)
    memory = totals.fresh(1)
    assert totals.mean(memory, 3) == [0.0]
    seen = []
    for amount in (1, 2, 3, 4, 5, 6):
        totals.add(memory, np.array([amount]))
        seen.append((totals.mean(memory, 2)[0], totals.mean(memory, 2, ago=1)[0]))
    assert seen == [(1, 0), (1.5, 1), (2.5, 1.5), (3.5, 2.5), (4.5, 3.5), (5.5, 4.5)]
