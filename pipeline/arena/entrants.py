"""Who takes part in a scenario of the arena, and why somebody cannot."""

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from pipeline.arena.suite import ArenaScenario
from simulator.policies.registry import build_policy, fitting_rules
from simulator.policies.space import RuleParameters
from simulator.scenario import Scenario


class Kind(StrEnum):
    """Where the parameters of an entrant come from.

    `tuned`: a search on the training and validation splits. `given`: the command line.
    `paper`: what the scenario says of the paper's baselines. `logged`: what ran while the log was
    recorded. `yardstick`: what it says of a policy that knows more than one can know in service,
    such as the arrival rate.
    """

    TUNED = "tuned"
    GIVEN = "given"
    PAPER = "paper"
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
    entrants = [_asked(each) for each in asked]
    entrants += set_entrants(arena.baselines, Kind.PAPER)
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
    return [_asked(each) for each in asked]


def _asked(asked: Asked) -> Entrant:
    rule, parameters = asked
    if parameters is None:
        return Entrant(rule, Kind.TUNED, rule, None)
    told = ", ".join(f"{name}={json.dumps(value)}" for name, value in parameters.items())
    return Entrant(f"{rule} ({told or 'given'})", Kind.GIVEN, rule, parameters)


def set_entrants(rules: Mapping[str, RuleParameters], kind: Kind) -> list[Entrant]:
    """Rules with parameters that somebody has set."""
    return [
        Entrant(f"{rule} ({kind})", kind, rule, dict(parameters))
        for rule, parameters in rules.items()
    ]
