"""The named scenarios of the arena, read from conf/scenario/arena and checked."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from pipeline.arena.splits import missing_trace, split_workloads
from pipeline.description import did_you_mean, meant, scenario_from
from pipeline.stage import CONF, compose_config
from simulator.checks import check
from simulator.policies.registry import RULES, build_policy
from simulator.policies.space import RuleParameters
from simulator.reward import TERMS, TERMS_BY_CLASS, Reward, weighted_reward
from simulator.scenario import Scenario
from simulator.workload import Workload

SUITE = CONF / "scenario" / "arena"
SECTION = "arena_scenario"  # where a file stands in the composed configuration
NEEDED = (
    "why",
    "horizon_s",
    "drain_s",
    "episodes",
    "tuning_episodes",
    "objective",
    "scenario",
    "splits",
)
SECTIONS = (*NEEDED, "baselines", "yardsticks", "policies")


@dataclass(frozen=True)
class ArenaScenario:
    """A cluster, its traffic, and what counts: what policies are compared on."""

    name: str
    why: str  # a user meets it: one sentence
    scenario: Scenario
    reward: Reward  # minus the objective's costs
    workloads: Mapping[str, Workload]  # train, validation and test
    horizon_s: float  # of the arrivals of an episode
    drain_s: float  # after them, for slow answers
    episodes: int  # of the test split
    tuning_episodes: int  # of the training and of the validation split
    baselines: Mapping[str, RuleParameters]  # rules as their source sets them, untuned
    yardsticks: Mapping[str, RuleParameters]  # rules that know what no one knows in operation
    policies: tuple[str, ...] | None  # rules to be tuned; None: all that fit


def scenario_names() -> list[str]:
    """The names of the suite's scenarios, sorted."""
    return sorted(path.stem for path in SUITE.glob("*.yaml"))


def reason_for(name: str) -> str:
    """Where a user meets the scenario: its `why`; ValueError where the file cannot be read."""
    return str(_composed(name).get("why", ""))


def missing_files(name: str, overrides: Sequence[str] = ()) -> str | None:
    """What has to be done before the traces of the scenario can be read; None: all are there."""
    return missing_trace(_composed(name, overrides).get("splits"))


def load_arena_scenario(name: str, overrides: Sequence[str] = ()) -> ArenaScenario:
    """The scenario of conf/scenario/arena/<name>.yaml with `field=value` overrides.

    Such as `horizon_s=5` or `scenario.queue_capacity=50`; `arena_scenario.` may stand before them.
    Raises ValueError, naming the field, for what is unknown, missing or not allowed.
    """
    given = _composed(name, overrides)
    for key in given:
        rule = f"no such field; {did_you_mean(key, SECTIONS)}it may be {', '.join(SECTIONS)}"
        check(key in SECTIONS, key, given[key], rule)
    for key in NEEDED:
        if key not in given:
            raise ValueError(f"{key}: must be given")
    why = given["why"]
    check(isinstance(why, str) and why != "", "why", why, "must be a sentence")
    horizon_s = _seconds(given, "horizon_s")
    check(horizon_s > 0, "horizon_s", horizon_s, "must be above 0")
    scenario = scenario_from(given["scenario"], "scenario")
    return ArenaScenario(
        name=name,
        why=why,
        scenario=scenario,
        reward=_reward(given["objective"], scenario),
        workloads=split_workloads(given["splits"], scenario.class_names, horizon_s, "splits"),
        horizon_s=horizon_s,
        drain_s=_seconds(given, "drain_s"),
        episodes=_count(given, "episodes", 2),  # one has no interval
        tuning_episodes=_count(given, "tuning_episodes", 1),
        baselines=_rules(given, "baselines", scenario),
        yardsticks=_rules(given, "yardsticks", scenario),
        policies=_names(given.get("policies")),
    )


def unknown_name(name: str, known: Sequence[str]) -> str:
    """What to tell somebody who asks for a scenario that there is none of."""
    if (SUITE / f"{name}.yml").exists():
        return f"rename {name}.yml to {name}.yaml: files with another ending are not read"
    return f"{did_you_mean(name, known)}must be one of {', '.join(known)}"


def _composed(name: str, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """The plain values of the file, with the overrides applied."""
    known = scenario_names()
    check(name in known, "scenario", name, unknown_name(name, known))
    composed = [f"+scenario/arena@{SECTION}={name}"]
    composed += [_override(override) for override in overrides]
    try:
        plain: Any = _plain(compose_config(composed)[SECTION])
    except ValueError as error:
        if overrides:
            _check_taken_away(_composed(name), overrides)
        raise ValueError(str(error).replace(f"{SECTION}.", "")) from None
    check(isinstance(plain, dict), "scenario", name, "its file must be a section with keys")
    return dict(plain)


def _override(override: str) -> str:
    """The override as the composition wants it; ValueError for what can be none."""
    sign = "~" if override.startswith("~") else "++"
    # A field that the file leaves out has its default there, and may be given all the same.
    field = override.lstrip("+~").removeprefix(f"{SECTION}.")
    path, equals, value = field.partition("=")
    dotted = re.sub(r"\[(\d+)\]", r".\1", path)
    check(path == dotted, "override", override, f"write lists as {dotted}{equals}{value}")
    first = path.partition(".")[0]
    told = f"no such field of an arena scenario; it may be {', '.join(SECTIONS)}"
    within = [each.name for each in fields(Scenario)]
    near = meant(first, SECTIONS) or f"scenario.{meant(first, within)}"
    if near != "scenario.None":
        told = told.replace("it may", f"did you mean {near}? it may")
    check(first in SECTIONS, "override", override, told)
    return f"{sign}{SECTION}.{field}"


def _check_taken_away(plain: Any, overrides: Sequence[str]) -> None:
    """Raises ValueError for the first override that takes away what the file does not have."""
    for override in overrides:
        section = plain
        path = override.lstrip("~").removeprefix(f"{SECTION}.").partition("=")[0]
        for name in path.split(".") if override.startswith("~") else ():
            if isinstance(section, list):
                section = {str(number): item for number, item in enumerate(section)}
            known = list(section) if isinstance(section, dict) else []
            told = f"{did_you_mean(name, known)}there are {', '.join(known) or 'no fields'}"
            check(name in known, "override", override, f"nothing to take away; {told}")
            section = section[name]


def _plain(value: Any) -> Any:
    """Dicts and lists in the place of the configuration's own."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value


def _seconds(given: Mapping[str, Any], field: str) -> float:
    value = given[field]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    holds = number and math.isfinite(value) and value >= 0
    check(holds, field, value, "must be finite and at least 0")
    return float(value)


def _count(given: Mapping[str, Any], field: str, low: int) -> int:
    value: Any = given[field]
    holds = type(value) is int and value >= low
    check(holds, field, value, f"must be a whole number of at least {low}")
    return int(value)


def _reward(given: Any, scenario: Scenario) -> Reward:
    """Minus the objective: what one unit of each reward term costs, its sign turned."""
    key = "objective"
    check(isinstance(given, Mapping), key, given, "must be a section with a cost per reward term")
    for term, cost in given.items():
        known = (*TERMS_BY_CLASS, *TERMS)
        told = f"{did_you_mean(term, known)}the terms are {', '.join(known)}"
        check(term in known, f"{key}.{term}", cost, told)
        number = isinstance(cost, int | float) and not isinstance(cost, bool)
        check(number and math.isfinite(cost), f"{key}.{term}", cost, "must be a finite number")
    check(any(given.values()), key, dict(given), "needs a term that costs something")
    by_class = {term: -float(given[term]) for term in TERMS_BY_CLASS if term in given}
    overall = {term: -float(given[term]) for term in TERMS if term in given}
    return weighted_reward(scenario, by_class, overall)


def _rules(given: Mapping[str, Any], field: str, scenario: Scenario) -> dict[str, RuleParameters]:
    """Rules with the parameters given; each is built once, so that a wrong one is refused here."""
    rules = given.get(field) or {}
    check(isinstance(rules, Mapping), field, rules, "must be a section with a key per rule")
    built = {}
    for name, parameters in rules.items():
        parameters = {} if parameters is None else parameters
        rule = "must be a section with the rule's parameters"
        check(isinstance(parameters, Mapping), f"{field}.{name}", parameters, rule)
        try:
            build_policy(name, scenario, parameters)
        except ValueError as error:
            raise ValueError(f"{field}: {error}") from None
        built[name] = dict(parameters)
    return built


def _names(given: Any) -> tuple[str, ...] | None:
    key = "policies"
    if given is None:
        return None
    listed = isinstance(given, list) and all(isinstance(name, str) for name in given)
    check(listed and len(given) > 0, key, given, "must be null, or a list of rules")
    for name in given:
        told = f"{did_you_mean(name, RULES)}must be one of {', '.join(RULES)}"
        check(name in RULES, key, name, told)
    return tuple(given)
