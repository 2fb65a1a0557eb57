"""What is put together from configuration and calibration: scenario, reward, trial, study."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.assembly import (
    build_reward,
    build_scenario,
    build_trial,
    read_calibration,
    stressed,
    training_environment,
)
from pipeline.calibration.calibrate import Calibration
from pipeline.calibration.describe import to_json
from pipeline.calibration.log import LoggedRun
from pipeline.files import write_json
from pipeline.settings import StressSettings
from pipeline.validation.evaluation import evaluate
from simulator.conditions import Autoscaler, DispatchDelay, Fault, Faults, Scaling, View
from simulator.policies.registry import build_policy
from simulator.reward import reward_term_names
from simulator.scenario import ClassChoice, DecisionEpochs, MixedBatches

MakeSettings = Callable[..., Any]


def test_the_scenario_is_as_logged_where_the_configuration_says_null(
    make_settings: MakeSettings, calibration: Calibration
) -> None:
    scenario = build_scenario(make_settings(), calibration)
    assert scenario.class_names == ("fast", "slow")
    assert [c.slo_s for c in scenario.request_classes] == [0.1, 0.5]
    assert scenario.batch_sizes == (1, 2, 4)
    assert scenario.queue_capacity == 20
    assert scenario.class_choice == ClassChoice.ANY
    assert scenario.decision_epochs == DecisionEpochs.EVENTS
    # The log's replica k takes (10 + 2 k) ms + (2 + c) ms * b for class c.
    assert scenario.replicas[1].alpha_s == pytest.approx((0.012, 0.012))
    assert scenario.replicas[1].beta_s == pytest.approx((0.002, 0.003))
    assert scenario.replicas[1].max_batch_size == 4


CHANGES = {
    "queue_capacity": 7,
    "batch_sizes": [1, 2],
    "max_batch_size": 2,
    "class_choice": "head_of_line",
    "decision_epochs": "ticks",
    "tick_s": 0.02,
    "rate_window_s": 3.0,
    "replicas": 3,
}


def test_cluster_changes_what_it_names_unless_the_scenario_is_asked_as_logged(
    make_settings: MakeSettings, calibration: Calibration
) -> None:
    settings = make_settings(cluster=CHANGES)
    changed = build_scenario(settings, calibration)
    for key in ("queue_capacity", "class_choice", "decision_epochs", "tick_s", "rate_window_s"):
        assert getattr(changed, key) == CHANGES[key]
    assert changed.batch_sizes == (1, 2)
    assert [replica.max_batch_size for replica in changed.replicas] == [2, 2, 2]
    as_logged = build_scenario(settings, calibration, as_logged=True)
    assert as_logged == build_scenario(make_settings(), calibration)


def test_cluster_adds_what_its_sections_say_and_nothing_by_default(
    make_settings: MakeSettings, calibration: Calibration
) -> None:
    plain = build_scenario(make_settings(), calibration)
    for field in ("dispatch_delay", "view", "faults", "scaling"):
        assert getattr(plain, field) == type(getattr(plain, field))()
    assert (plain.replica_backlog, plain.mixed) == (0, MixedBatches.NEVER)
    cluster = {
        "class_choice": "head_of_line",
        "replica_backlog": 2,
        "mixed": "slowest",
        "price_per_hour": 3.6,
        "spell_share": 0.25,
        "spell_time_s": 0.5,
        "dispatch_delay": {"constant_s": 0.002, "mean_s": 0.003, "cv": 1.0},
        "view": {"refresh_s": 0.1, "own_in_flight": True},
        "faults": {
            "scripted": {"early": {"replica": 1, "start_s": 1.0, "duration_s": 0.5}},
            "mean_time_between_s": 60.0,
            "repair_s": 2.0,
            "requeue": False,
        },
        "scaling": {
            "cold_start_s": 1.5,
            "cold_start_cv": 0.3,
            "initial_replicas": 1,
            "autoscaler": {
                "target_in_system": 8.0,
                "keep_warm_replicas": 0,
                "scale_down_delay_s": 2.0,
                "control_interval_s": 0.5,
            },
        },
    }
    settings = make_settings(cluster=cluster)
    assert build_scenario(settings, calibration) == dataclasses.replace(
        plain,
        class_choice=ClassChoice.HEAD_OF_LINE,
        replicas=tuple(dataclasses.replace(r, price_per_hour=3.6) for r in plain.replicas),
        replica_backlog=2,
        mixed=MixedBatches.SLOWEST,
        spell_share=0.25,
        spell_time_s=0.5,
        dispatch_delay=DispatchDelay(0.002, 0.003, 1.0),
        view=View(0.1, True),
        faults=Faults((Fault(1, 1.0, 0.5),), 60.0, 2.0, False),
        scaling=Scaling(1.5, 0.3, 1, Autoscaler(8.0, 0, 2.0)),
        control_interval_s=0.5,
    )
    assert build_scenario(settings, calibration, as_logged=True) == plain


def test_the_bill_is_the_price_of_the_replicas_for_the_time_that_they_are_on(
    make_settings: MakeSettings, make_study: Callable[..., Any], run: LoggedRun
) -> None:
    # Two replicas at 1800 an hour cost 1 a second, and the reward weighs it -2.
    reward = {"class_weight": {"fast": 1.0, "slow": 1.0}, "shed": -1e-9, "bill": -2.0}
    settings = make_settings(cluster={"price_per_hour": 1800.0}, reward=reward)
    study = make_study(settings, run)
    environment = training_environment(settings, study, 1, np.random.default_rng(0))
    environment.reset()
    return_ = 0.0
    while environment.running()[0]:
        return_ += environment.step(np.zeros(1, int)).reward[0]  # WAIT: nothing else costs much
    assert return_ == pytest.approx(-2.0 * settings.scenario.horizon_s, abs=1e-6)


def test_replicas_beyond_the_logged_ones_repeat_them_in_turn(
    make_settings: MakeSettings, calibration: Calibration
) -> None:
    scenario = build_scenario(make_settings(cluster={"replicas": 5}), calibration)
    first, second, *others = scenario.replicas
    assert first != second
    assert others == [first, second, first]


def test_a_fact_that_neither_log_nor_configuration_tells_is_named(
    make_settings: MakeSettings, calibration: Calibration
) -> None:
    system = {key: value for key, value in calibration.system.items() if key != "queue_capacity"}
    silent = calibration._replace(system=system)
    with pytest.raises(ValueError, match=r"cluster\.queue_capacity = null: the log's system\.json"):
        build_scenario(make_settings(), silent)
    told = build_scenario(make_settings(cluster={"queue_capacity": 9}), silent)
    assert told.queue_capacity == 9


def test_classes_of_the_configuration_must_be_those_of_the_log(
    make_settings: MakeSettings, calibration: Calibration
) -> None:
    renamed = calibration._replace(class_names=("fast", "large"))
    message = r"scenario\.slo_s = .*: needs the classes of the log: fast, large"
    with pytest.raises(ValueError, match=message):
        build_scenario(make_settings(), renamed)


def test_stress_multiplies_service_times_and_nothing_else(
    make_settings: MakeSettings, calibration: Calibration
) -> None:
    scenario = build_scenario(make_settings(), calibration)
    slower = stressed(scenario, 1.5)
    for before, after in zip(scenario.replicas, slower.replicas, strict=True):
        assert after.alpha_s == pytest.approx([1.5 * value for value in before.alpha_s])
        assert after.beta_s == pytest.approx([1.5 * value for value in before.beta_s])
        assert after.noise_cv == before.noise_cv
    assert dataclasses.replace(slower, replicas=scenario.replicas) == scenario


def test_reward_weights_are_those_of_the_configuration_times_class_weight_and_scale(
    make_settings: MakeSettings, calibration: Calibration
) -> None:
    reward = {
        "class_weight": {"fast": 1.0, "slow": 3.0},
        "completed": 2.0,
        "shed": -4.0,
        "energy_j": -0.5,
        "scale": 10.0,
    }
    settings = make_settings(reward=reward)
    scenario = build_scenario(settings, calibration)
    names = reward_term_names(scenario.class_names)
    weights = dict(zip(names, build_reward(settings, scenario).weights, strict=True))
    given = {
        "completed.fast": 20.0,
        "completed.slow": 60.0,
        "shed.fast": -40.0,
        "shed.slow": -120.0,
        "energy_j": -5.0,
    }
    assert weights == pytest.approx({name: given.get(name, 0.0) for name in names})


def test_the_papers_reward_divides_response_times_by_its_sla(
    make_settings: MakeSettings, calibration: Calibration
) -> None:
    reward = {"class_weight": {"fast": 200.0, "slow": 20.0}, "preset": "paper", "sla_s": 2.0}
    settings = make_settings(reward=reward)
    scenario = build_scenario(settings, calibration)
    names = reward_term_names(scenario.class_names)
    weights = dict(zip(names, build_reward(settings, scenario).weights, strict=True))
    assert weights["response_s.fast"] == pytest.approx(-(200.0 / 110.0) / 2.0)


def test_a_trial_under_stress_has_more_arrivals_and_slower_service(
    make_settings: MakeSettings, make_study: Callable[..., Any], run: LoggedRun
) -> None:
    settings = make_settings()
    study = make_study(settings, run)
    calm = build_trial(settings, study, "test", 6, 1)
    hard = build_trial(settings, study, "test", 6, 1, StressSettings(2.0, 1.5))
    assert hard.scenario == stressed(study.scenario, 1.5)
    assert len(np.unique(calm.window)) == 6
    assert len(np.unique(hard.window)) == 3  # each window spans twice the logged time
    policy = build_policy("static_cap", study.scenario, {"batch_size": 4})
    before, after = (evaluate(policy, trial).by_class[0] for trial in (calm, hard))
    rate_before = before.offered / (len(calm.window) * calm.horizon_s)
    rate_after = after.offered / (len(hard.window) * hard.horizon_s)
    assert rate_after == pytest.approx(2.0 * rate_before)
    assert after.response_mean_s > 1.5 * before.response_mean_s


def test_equal_seeds_give_equal_trials(
    make_settings: MakeSettings, make_study: Callable[..., Any], run: LoggedRun
) -> None:
    settings = make_settings(workload={"kind": "poisson", "rate_rps": {"fast": 9.0, "slow": 9.0}})
    study = make_study(settings, run)
    policy = build_policy("static_cap", study.scenario, {"batch_size": 4})
    first, again, other = (
        evaluate(policy, build_trial(settings, study, "test", 6, seed)).reward_per_s
        for seed in (1, 1, 2)
    )
    assert first.tolist() == again.tolist() != other.tolist()


def test_the_training_environment_has_the_calibrated_scenario_and_the_asked_lanes(
    make_settings: MakeSettings, make_study: Callable[..., Any], run: LoggedRun
) -> None:
    settings = make_settings()
    study = make_study(settings, run)
    environment = training_environment(settings, study, 3, np.random.default_rng(0))
    assert environment.lanes == 3
    assert environment.scenario == study.scenario
    environment.reset()
    assert (environment.state.horizon_s == settings.scenario.horizon_s).all()


def test_a_calibration_is_read_from_its_file_as_it_was(
    tmp_path: Path, calibration: Calibration
) -> None:
    path = tmp_path / "calibration.json"
    write_json(path, to_json(calibration))
    assert to_json(read_calibration(path)) == to_json(calibration)
    assert json.loads(path.read_text())["class_names"] == ["fast", "slow"]
