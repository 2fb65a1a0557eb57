"""Puts scenario, reward and episodes together, from the configuration and the calibration."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipeline.calibration.calibrate import Calibration
from pipeline.calibration.describe import from_json
from pipeline.calibration.log import LoggedRun, read_logged_run
from pipeline.calibration.replica_service import CalibratedService
from pipeline.settings import ClusterSettings, Settings, StressSettings
from pipeline.validation.evaluation import Trial
from pipeline.workloads import build_workload, evaluation_workloads
from simulator.conditions import Autoscaler, DispatchDelay, Fault, Faults, Scaling, View
from simulator.environment import Environment
from simulator.noise import NO_PATH
from simulator.replica import LatencyTable, Replica
from simulator.reward import TERMS, Reward, paper_reward, weighted_reward
from simulator.scenario import (
    ClassChoice,
    DecisionEpochs,
    MixedBatches,
    RequestClass,
    Scenario,
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
    if calibration.tokens is not None:
        raise ValueError(
            "calibration.source: the log is of continuous batching; calibrate fits it, but tune, "
            "replay and all after them take whole batches"
        )
    facts = {key: _fact(settings, calibration, key, as_logged) for key in _CLUSTER_KEYS}
    _check_classes(settings, calibration.class_names)
    cluster = ClusterSettings() if as_logged else settings.cluster
    logged = len(calibration.service)
    # Who asks for spells of an own share gets these, and the noise of each replica and class alone.
    path = calibration.noise_path if cluster.spell_share is None else NO_PATH
    scenario = Scenario(
        request_classes=tuple(
            RequestClass(name, settings.scenario.slo_s[name], settings.reward.class_weight[name])
            for name in calibration.class_names
        ),
        replicas=tuple(
            _replica(
                calibration.service[number % logged],
                int(facts["max_batch_size"]),
                cluster.price_per_hour,
                measured_noise=path.exists,
            )
            for number in range(int(facts["replicas"]))
        ),
        batch_sizes=tuple(int(size) for size in facts["batch_sizes"]),
        queue_capacity=int(facts["queue_capacity"]),
        class_choice=ClassChoice(facts["class_choice"]),
        decision_epochs=DecisionEpochs(facts["decision_epochs"]),
        tick_s=float(facts["tick_s"]),
        rate_window_s=float(facts["rate_window_s"]),
        spell_share=0.0 if path.exists else _either(cluster.spell_share, calibration.spells.share),
        spell_time_s=_either(cluster.spell_time_s, calibration.spells.time_s),
        noise_path=path,
    )
    return _with_conditions(scenario, cluster)


def _with_conditions(scenario: Scenario, cluster: ClusterSettings) -> Scenario:
    """The scenario with what `cluster` adds to a plain one; ValueError where it does not fit."""
    faults, scaling, scaler = cluster.faults, cluster.scaling, cluster.scaling.autoscaler
    autoscaler = None
    if scaler.target_in_system is not None:
        autoscaler = Autoscaler(
            scaler.target_in_system, scaler.keep_warm_replicas, scaler.scale_down_delay_s
        )
    return dataclasses.replace(
        scenario,
        may_shed=cluster.may_shed,
        replica_backlog=cluster.replica_backlog,
        mixed=MixedBatches(cluster.mixed),
        control_interval_s=scaler.control_interval_s,
        dispatch_delay=DispatchDelay(**dataclasses.asdict(cluster.dispatch_delay)),
        view=View(**dataclasses.asdict(cluster.view)),
        faults=Faults(
            tuple(Fault(**dataclasses.asdict(fault)) for fault in faults.scripted.values()),
            _either(faults.mean_time_between_s, math.inf),
            faults.repair_s,
            faults.requeue,
        ),
        scaling=Scaling(
            scaling.cold_start_s, scaling.cold_start_cv, scaling.initial_replicas, autoscaler
        ),
    )


def _either(given: float | None, otherwise: float) -> float:
    return otherwise if given is None else given


def _check_classes(settings: Settings, names: tuple[str, ...]) -> None:
    """Raises ValueError unless target and weight are given for the classes of the log."""
    for key, given in (
        ("scenario.slo_s", settings.scenario.slo_s),
        ("reward.class_weight", settings.reward.class_weight),
    ):
        if set(given) != set(names):
            raise ValueError(f"{key} = {given!r}: needs the classes of the log: {', '.join(names)}")


def _replica(
    cells: list[CalibratedService],
    max_batch_size: int,
    price_per_hour: float,
    measured_noise: bool,
) -> Replica:
    """A replica with the fits `[C]` of its classes.

    Where `measured_noise`, or where a lognormal does not fit, its noise is as measured. A table
    takes the place of the line where that does not fit.
    """
    noises = [cell.noise for cell in cells if cell.noise is not None]
    measured = len(noises) == len(cells) and (
        measured_noise or any(noise.kind == "residuals" for noise in noises)
    )
    return Replica(
        alpha_s=tuple(cell.fit.alpha_s for cell in cells),
        beta_s=tuple(cell.fit.beta_s for cell in cells),
        noise_cv=tuple(_noise_cv(cell) for cell in cells),
        max_batch_size=max_batch_size,
        price_per_hour=price_per_hour,
        latency_table=_tables(cells),
        residuals=tuple(noise.residuals for noise in noises) if measured else (),
    )


def _noise_cv(cell: CalibratedService) -> float:
    """Of the noise around what is chosen: a table takes what the line would count as noise."""
    if cell.latency is not None and cell.latency.kind == "table" and cell.noise is not None:
        return cell.noise.noise_cv
    return cell.fit.noise_cv


def _tables(cells: list[CalibratedService]) -> tuple[LatencyTable, ...]:
    """The table of each class, none where a line fits all; a line is a table of two points then."""
    choices = [cell.latency for cell in cells]
    if all(choice is None or choice.kind != "table" for choice in choices):
        return ()
    return tuple(
        choice.table.points() if choice is not None and choice.kind == "table" else _line(cell)
        for choice, cell in zip(choices, cells, strict=True)
    )


def _line(cell: CalibratedService) -> LatencyTable:
    """The fitted line as a table, which goes on along its last segment."""
    sizes = np.array([1e-6, 1.0])
    return tuple(zip(sizes.tolist(), cell.fit.expected_s(sizes).tolist(), strict=True))


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
            latency_table=tuple(
                tuple((size, service_scale * latency_s) for size, latency_s in table)
                for table in replica.latency_table
            ),
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
        {term: getattr(reward, term) for term in TERMS},
        reward.scale,
    )


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
