"""Who takes part in a scenario of the arena, and why somebody cannot."""

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from pipeline.arena.suite import ArenaScenario
from simulator.policies.registry import build_policy, fitting_rules
from simulator.policies.space import RuleParameters
from simulator.scenario import Scenario

NAME_LETTERS = 34  # of a policy's name in a table


class Kind(StrEnum):
    """Where the parameters of an entrant come from.

    `tuned`: a search on the training and validation splits. `given`: the command line.
    `baseline`: what the scenario says of a rule to be held against, as its source sets it.
    `logged`: what ran while the log was recorded. `yardstick`: what the scenario says of a policy
    that knows more than one can know in service, such as the arrival rate.
    """

    TUNED = "tuned"
    GIVEN = "given"
    BASELINE = "baseline"
    LOGGED = "logged"
    YARDSTICK = "yardstick"


class Entrant(NamedTuple):
    """A rule that takes part; to be tuned where `parameters` is None."""

    name: str  # as the table shows it
    kind: Kind
    rule: str
    parameters: RuleParameters | None


class Asked(NamedTuple):
    """A rule that the command line names, to be tuned where it gives no parameters."""

    rule: str
    parameters: RuleParameters | None = None


def entrants_of(arena: ArenaScenario, asked: Sequence[Asked] | None = None) -> list[Entrant]:
    """The rules asked for, else those of the scenario; then its baselines and yardsticks.

    A scenario that names no rules is met by all that fit it.
    """
    if asked is None:
        names = fitting_rules(arena.scenario) if arena.policies is None else arena.policies
        asked = [Asked(name) for name in names]
    entrants = _asked(asked)
    entrants += set_entrants(arena.baselines, Kind.BASELINE)
    entrants += set_entrants(arena.yardsticks, Kind.YARDSTICK)
    return entrants


def refusals(arena: ArenaScenario, entrants: Sequence[Entrant]) -> list[str]:
    """A line for each entrant that the scenario cannot have and each that comes twice."""
    lines = []
    for entrant in entrants:
        try:
            if entrant.parameters is not None:
                build_policy(entrant.rule, arena.scenario, entrant.parameters)
            else:
                _check_tunable(entrant.rule, arena.scenario)
        except ValueError as error:
            lines.append(f"{arena.name}: {error}")
    names = [entrant.name for entrant in entrants]
    twice = sorted({name for name in names if names.count(name) > 1})
    given = [
        Asked(entrant.rule, entrant.parameters)
        for entrant in entrants
        if entrant.kind == Kind.GIVEN and entrant.name not in twice
    ]
    twice += sorted({_spelled(each) for each in given if given.count(each) > 1})
    lines += [f"{arena.name}: {name} takes part twice" for name in twice]
    if not any(entrant.kind in (Kind.TUNED, Kind.GIVEN) for entrant in entrants):
        lines.append(f"{arena.name}: no policy takes part beside baselines and yardsticks")
    return lines


def _check_tunable(rule: str, scenario: Scenario) -> None:
    """Raises ValueError, with the list of what would do, for an unknown rule or a misfit."""
    if rule not in fitting_rules(scenario):
        build_policy(rule, scenario, {})


def asked_entrants(scenario: Scenario, asked: Sequence[Asked]) -> list[Entrant]:
    """The rules asked for; ValueError, with the list of what fits, for one that does not."""
    for rule, _ in asked:
        _check_tunable(rule, scenario)
    return _asked(asked)


def _asked(asked: Sequence[Asked]) -> list[Entrant]:
    """Named by their rule and parameters, numbered where these are too long for a table."""
    names = [_spelled(each) for each in asked]
    long = [each.rule for each, name in zip(asked, names, strict=True) if len(name) > NAME_LETTERS]
    numbers = dict.fromkeys(long, 0)
    entrants = []
    for (rule, parameters), spelled in zip(asked, names, strict=True):
        name = spelled
        if len(spelled) > NAME_LETTERS and parameters is not None:
            numbers[rule] += 1
            name = f"{rule} #{numbers[rule]}" if long.count(rule) > 1 else f"{rule} (given)"
        kind = Kind.TUNED if parameters is None else Kind.GIVEN
        entrants.append(Entrant(name, kind, rule, parameters))
    return entrants


def _spelled(asked: Asked) -> str:
    rule, parameters = asked
    if parameters is None:
        return rule
    told = ", ".join(f"{name}={json.dumps(value)}" for name, value in parameters.items())
    return f"{rule} ({told or 'given'})"


def set_entrants(rules: Mapping[str, RuleParameters], kind: Kind) -> list[Entrant]:
    """Rules with parameters that somebody has set."""
    return [
        Entrant(f"{rule} ({kind})", kind, rule, dict(parameters))
        for rule, parameters in rules.items()
    ]
