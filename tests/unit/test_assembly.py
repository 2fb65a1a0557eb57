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
from pipeline.calibration.calibrate import Calibration, to_json
from pipeline.calibration.log import LoggedRun
from pipeline.files import write_json
from pipeline.settings import StressSettings
from pipeline.validation.evaluation import evaluate
from simulator.parameters import ClassChoice, DecisionEpochs
from simulator.policies.registry import build_policy
from simulator.reward import reward_term_names

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
    assert read_calibration(path) == calibration
    assert json.loads(path.read_text())["request_classes"] == ["fast", "slow"]
