"""Which episode the arguments ask for: of the calibrated cluster, or one described in conf/."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.assembly import build_workload, read_study
from pipeline.description import scenario_from, workload_from
from pipeline.inspect.arguments import Arguments
from pipeline.inspect.episode import Episode
from pipeline.reporting.text import rule_in_words
from pipeline.stage import CONF, compose_config, settings_of
from simulator.checks import check
from simulator.policies.registry import build_policy
from simulator.scenario import Scenario
from simulator.workload import Workload


class _Rule(NamedTuple):
    """A rule of the registry with its parameters."""

    name: str
    parameters: dict[str, Any]


SECTIONS = ("scenario", "workload", "policy", "horizon_s")  # of a described episode


def chosen_episode(arguments: Arguments, data: Path) -> Episode:
    """The episode to play; `data` is the folder of the pipeline's results.

    Raises ValueError where the arguments, the configuration or a file of `data` will not do.
    """
    if arguments.episode is None:
        return _calibrated(arguments, data)
    return _described(arguments, arguments.episode)


def _calibrated(arguments: Arguments, data: Path) -> Episode:
    """Logged arrivals of the test split, or generated ones, as the configuration says."""
    overrides = list(arguments.overrides)
    if arguments.horizon_s is not None:
        overrides.append(f"scenario.horizon_s={arguments.horizon_s}")
    settings = settings_of(compose_config(overrides))
    if not (data / "calibration.json").exists():
        raise ValueError(
            "data/calibration.json: missing; run `dvc repro`, or choose a described episode: "
            f"episode={' or '.join(_names())}"
        )
    study = read_study(settings, data)
    rule = _tuned(arguments, data, study.scenario)
    workload = build_workload(settings, study.calibration, study.run, "test")
    name = f"{settings.calibration.source}, calibrated"
    horizon_s = settings.scenario.horizon_s
    return _episode(name, study.scenario, workload, rule, horizon_s, settings.seed)


def _tuned(arguments: Arguments, data: Path, scenario: Scenario) -> _Rule:
    """The rule that is asked for, else the best tuned one; its parameters as given or tuned."""
    path = data / "heuristics.json"
    tuned: dict[str, Any] = {}
    if path.exists():
        try:
            tuned = json.loads(path.read_text(encoding="utf-8"))["rules"]
        except (json.JSONDecodeError, KeyError, TypeError):
            raise ValueError("data/heuristics.json: is not as the stage tune writes it") from None
    rule = arguments.policy
    if rule is None and tuned:
        rule = max(tuned, key=lambda name: tuned[name]["reward_per_s"])
    if rule is None:
        largest = max(replica.max_batch_size for replica in scenario.replicas)
        size = max(size for size in scenario.batch_sizes if size <= largest)
        return _Rule("static_cap", {"batch_size": size, **arguments.parameters})
    if arguments.parameters or rule not in tuned:
        return _Rule(rule, arguments.parameters)
    return _Rule(rule, tuned[rule]["parameters"])


def _described(arguments: Arguments, name: str) -> Episode:
    """The episode of conf/episode/<name>.yaml, with overrides of its fields."""
    check(name in _names(), "episode", name, f"must be one of {', '.join(_names())}")
    overrides = [f"+episode={name}"]
    for override in arguments.overrides:
        key = override.lstrip("+~").partition("=")[0]
        allowed = "a described episode takes seed and episode.<field> alone"
        check(key == "seed" or key.startswith("episode."), "override", override, allowed)
        # A field that the file leaves out has its default there, and may be given all the same.
        overrides.append(f"++{override}" if override.startswith("episode.") else override)
    config = compose_config(overrides)
    given: Mapping[str, Any] = config["episode"]
    for key in given:
        known = f"no such section; it may be {', '.join(SECTIONS)}"
        check(key in SECTIONS, f"episode.{key}", given[key], known)
    for key in SECTIONS:
        if key not in given:
            raise ValueError(f"episode.{key}: must be given")
    scenario = scenario_from(given["scenario"], "episode.scenario")
    workload = workload_from(given["workload"], scenario.class_names, "episode.workload")
    rule = _described_rule(given["policy"])
    if arguments.policy is not None:
        rule = _Rule(arguments.policy, {})
    rule = _Rule(rule.name, {**rule.parameters, **arguments.parameters})
    horizon_s = given["horizon_s"] if arguments.horizon_s is None else arguments.horizon_s
    holds = isinstance(horizon_s, int | float) and horizon_s > 0
    check(holds, "episode.horizon_s", horizon_s, "must be seconds above 0")
    seed = config["seed"]
    holds = isinstance(seed, int) and 0 <= seed < 2**32
    check(holds, "seed", seed, "must be in 0 .. 2**32 - 1")
    return _episode(name, scenario, workload, rule, float(horizon_s), seed)


def _names() -> list[str]:
    return sorted(path.stem for path in (CONF / "episode").glob("*.yaml"))


def _described_rule(given: Any) -> _Rule:
    holds = isinstance(given, Mapping) and "rule" in given and set(given) <= {"rule", "parameters"}
    check(
        holds, "episode.policy", given, "must have the keys rule and, where it has any, parameters"
    )
    return _Rule(str(given["rule"]), dict(given.get("parameters") or {}))


def _episode(
    name: str,
    scenario: Scenario,
    workload: Workload,
    rule: _Rule,
    horizon_s: float,
    seed: int,
) -> Episode:
    policy = build_policy(rule.name, scenario, rule.parameters)
    words = rule_in_words(rule.name, rule.parameters)
    return Episode(name, scenario, workload, policy, words, horizon_s, seed)
