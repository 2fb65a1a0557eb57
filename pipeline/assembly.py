"""Puts scenario, workload and reward together, from the configuration and the calibration."""

import dataclasses
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipeline.calibration.calibrate import CalibratedService, Calibration, from_json
from pipeline.calibration.log import LoggedRun, read_logged_run
from pipeline.settings import (
    LoggedWorkloadSettings,
    PoissonWorkloadSettings,
    Settings,
    SquareBurstWorkloadSettings,
    StressSettings,
)
from pipeline.validation.evaluation import Trial
from simulator.environment import Environment
from simulator.parameters import ClassChoice, DecisionEpochs, Replica, RequestClass, Scenario
from simulator.reward import Reward, paper_reward, weighted_reward
from simulator.workload import (
    Arrivals,
    PoissonWorkload,
    RecordedWorkload,
    SquareBurstWorkload,
    TraceWorkload,
    Workload,
)

_CLUSTER_KEYS = (
    "queue_capacity",
    "batch_sizes",
    "max_batch_size",
    "class_choice",
    "decision_epochs",
    "tick_s",
    "rate_window_s",
    "replicas",
)
NO_STRESS = StressSettings()


def read_calibration(path: Path) -> Calibration:
    """The calibration that the stage of that name wrote."""
    return from_json(json.loads(path.read_text(encoding="utf-8")))


def build_scenario(
    settings: Settings, calibration: Calibration, as_logged: bool = False
) -> Scenario:
    """The calibrated cluster with the changes that `cluster` asks for; none if `as_logged`.

    More replicas than the log has repeat its replicas in turn. Raises ValueError where a request
    class of the log has no SLO or weight, or the log's system.json lacks a key that is null here.
    """
    facts = {key: _fact(settings, calibration, key, as_logged) for key in _CLUSTER_KEYS}
    _check_classes(settings, calibration.class_names)
    logged = len(calibration.service)
    return Scenario(
        request_classes=tuple(
            RequestClass(name, settings.scenario.slo_s[name], settings.reward.class_weight[name])
            for name in calibration.class_names
        ),
        replicas=tuple(
            _replica(calibration.service[number % logged], int(facts["max_batch_size"]))
            for number in range(int(facts["replicas"]))
        ),
        batch_sizes=tuple(int(size) for size in facts["batch_sizes"]),
        queue_capacity=int(facts["queue_capacity"]),
        class_choice=ClassChoice(facts["class_choice"]),
        decision_epochs=DecisionEpochs(facts["decision_epochs"]),
        tick_s=float(facts["tick_s"]),
        rate_window_s=float(facts["rate_window_s"]),
        spell_share=calibration.spells.share,
        spell_time_s=calibration.spells.time_s,
    )


def _check_classes(settings: Settings, names: tuple[str, ...]) -> None:
    """Raises ValueError unless target and weight are given for the classes of the log."""
    for key, given in (
        ("scenario.slo_s", settings.scenario.slo_s),
        ("reward.class_weight", settings.reward.class_weight),
    ):
        if set(given) != set(names):
            raise ValueError(f"{key} = {given!r}: needs the classes of the log: {', '.join(names)}")


def _replica(cells: list[CalibratedService], max_batch_size: int) -> Replica:
    """A replica with the fits `[C]` of its classes."""
    return Replica(
        alpha_s=tuple(cell.fit.alpha_s for cell in cells),
        beta_s=tuple(cell.fit.beta_s for cell in cells),
        noise_cv=tuple(cell.fit.noise_cv for cell in cells),
        max_batch_size=max_batch_size,
    )


def _fact(settings: Settings, calibration: Calibration, key: str, as_logged: bool) -> Any:
    value = None if as_logged else getattr(settings.cluster, key)
    if value is None:
        value = calibration.system.get(key)
    if value is None:
        raise ValueError(f"cluster.{key} = null: the log's system.json does not say it either")
    return value


def stressed(scenario: Scenario, service_scale: float) -> Scenario:
    """The scenario with all service times multiplied by `service_scale`."""
    replicas = tuple(
        dataclasses.replace(
            replica,
            alpha_s=tuple(service_scale * value for value in replica.alpha_s),
            beta_s=tuple(service_scale * value for value in replica.beta_s),
        )
        for replica in scenario.replicas
    )
    return dataclasses.replace(scenario, replicas=replicas)


def build_reward(settings: Settings, scenario: Scenario) -> Reward:
    """The reward that `reward` describes."""
    reward = settings.reward
    if reward.preset == "paper":
        if reward.sla_s is None:
            raise ValueError("reward.sla_s = null: the preset paper must be given it")
        return paper_reward(scenario, reward.sla_s)
    by_class = ("completed", "response_s", "number_in_system_s", "shed", "slo_misses")
    return weighted_reward(
        scenario,
        {term: getattr(reward, term) for term in by_class},
        {term: getattr(reward, term) for term in ("replica_seconds", "energy_j")},
        reward.scale,
    )


def split_arrivals(run: LoggedRun, calibration: Calibration, split: str) -> Arrivals:
    """The logged requests of a split, their instants counted from its start."""
    span = calibration.splits[split]
    return run.arrivals.window(span.start_s, span.end_s)


def build_workload(
    settings: Settings, calibration: Calibration, run: LoggedRun, split: str
) -> Workload:
    """The load that policies are tuned and trained on: windows of the split, or generated."""
    workload = settings.workload
    if isinstance(workload, LoggedWorkloadSettings):
        arrivals = split_arrivals(run, calibration, split)
        return TraceWorkload(arrivals, calibration.splits[split].span_s, workload.rate_scale)
    return _generated(settings, calibration, 1.0)


def evaluation_workloads(
    settings: Settings,
    calibration: Calibration,
    run: LoggedRun,
    split: str,
    episodes: int,
    rate_scale: float = 1.0,
) -> tuple[list[Workload], np.ndarray]:
    """At least `episodes` workloads, and for each the number of the window it shows.

    A logged split is cut into windows of `horizon_s` that do not overlap; each is shown equally
    often, under other noise. Generated workloads are each a window of their own. `rate_scale`
    multiplies the arrival rate. Raises ValueError where the split is shorter than one window.
    """
    workload = settings.workload
    if not isinstance(workload, LoggedWorkloadSettings):
        return [_generated(settings, calibration, rate_scale)] * episodes, np.arange(episodes)
    scale = workload.rate_scale * rate_scale
    arrivals = split_arrivals(run, calibration, split)
    length_s = settings.scenario.horizon_s * scale
    count = int(calibration.splits[split].span_s / length_s + 1e-9)
    if count == 0:
        raise ValueError(
            f"scenario.horizon_s = {settings.scenario.horizon_s!r}: the {split} split spans "
            f"{calibration.splits[split].span_s:g} s and has no window of {length_s:g} s"
        )
    windows: list[Workload] = []
    for number in range(count):
        window = arrivals.window(number * length_s, (number + 1) * length_s)
        windows.append(RecordedWorkload(window._replace(arrival_s=window.arrival_s / scale)))
    repeats = -(-episodes // count)
    return windows * repeats, np.tile(np.arange(count), repeats)


def _generated(settings: Settings, calibration: Calibration, rate_scale: float) -> Workload:
    workload, names = settings.workload, calibration.class_names

    def rates_rps(by_class: dict[str, float]) -> tuple[float, ...]:
        return tuple(by_class[name] * rate_scale for name in names)

    if isinstance(workload, PoissonWorkloadSettings):
        return PoissonWorkload(rates_rps(workload.rate_rps))
    if isinstance(workload, SquareBurstWorkloadSettings):
        return SquareBurstWorkload(
            rates_rps(workload.low_rps),
            rates_rps(workload.high_rps),
            workload.low_s,
            workload.high_s,
            workload.random_phase,
        )
    raise ValueError(f"workload.kind = {workload.kind!r}: does not generate arrivals")


class Study(NamedTuple):
    """What every stage after `calibrate` starts from."""

    calibration: Calibration
    run: LoggedRun
    scenario: Scenario
    reward: Reward


def read_study(settings: Settings, data: Path) -> Study:
    """The calibrated scenario and the log that it came from, read from the folder `data`."""
    calibration = read_calibration(data / "calibration.json")
    run = read_logged_run(data / "tables", settings.calibration.source)
    scenario = build_scenario(settings, calibration)
    return Study(calibration, run, scenario, build_reward(settings, scenario))


def build_trial(
    settings: Settings,
    study: Study,
    split: str,
    episodes: int,
    seed: int,
    stress: StressSettings = NO_STRESS,
) -> Trial:
    """Episodes of a split; `stress` multiplies its arrival rate and the service times."""
    workloads, window = evaluation_workloads(
        settings, study.calibration, study.run, split, episodes, stress.rate_scale
    )
    scenario = stressed(study.scenario, stress.service_scale)
    return Trial(scenario, study.reward, workloads, window, settings.scenario.horizon_s, seed)


def training_environment(
    settings: Settings, study: Study, lanes: int, generator: np.random.Generator
) -> Environment:
    """Lanes of the training split, for replay and for online agents."""
    workload = build_workload(settings, study.calibration, study.run, "train")
    return Environment(
        study.scenario, workload, lanes, settings.scenario.horizon_s, study.reward, generator
    )
