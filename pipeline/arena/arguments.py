"""The words of the command line: `name=value`, the rest being overrides of the scenario."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.arena.entrants import Asked
from simulator.checks import check
from simulator.policies.space import RuleParameters, nested

ALL = "all"
LIST = "list"
OUT = "reports/arena"
BUDGET = 24
SEED = 7
USAGE = f"""python -m pipeline.arena scenario=NAME [name=value ...] lets policies compete.

  scenario=NAME     a scenario of conf/scenario/arena, or {ALL}; scenario={LIST} prints what each is
  policies=A,B,...  rules to tune; without it those of the scenario, or all that fit.
                    RULE:NAME=VALUE[:NAME=VALUE] has the parameters given and is not tuned, such as
                    policies=fifo,batch_timeout:max_batch_size=8:batch_timeout_s=0.02
                    and c_mu:batch_size.fast=8:batch_size.slow=2 those of request classes
  out={OUT}  folder of the figures (.json) and the chart (.png) of each scenario
  budget={BUDGET}         parameter settings tried of each rule that is tuned
  seed={SEED}            arrivals, noise, faults, random actions and the search
  processes=N       without it one for each core; the results do not depend on it
  episodes=N        test episodes; this and anything else overrides the scenario, such as
                    tuning_episodes=8 horizon_s=5 scenario.queue_capacity=20
                    scenario.replicas.0.count=3 (0 is the first of a list)
                    A section in braces joins what is there; ~objective.shed takes a field away
                    splits.test.rate_rps=[500] on a split with same_as: the section of the split it
                    names with that field replaced; with a kind= of its own nothing is taken over

A scenario of your own is a .yaml file in conf/scenario/arena; noisy_service there explains all.

Scenarios that replay a public trace read it from the folder that TRACES_DIR names.
"""


class Arguments(NamedTuple):
    """What was asked for."""

    scenario: str  # or ALL
    policies: list[Asked] | None  # None: those of the scenario
    out: Path
    budget: int
    seed: int
    processes: int
    overrides: list[str]


def read_arguments(words: Sequence[str]) -> Arguments:
    """The arguments that the words say; ValueError naming the one that is at fault."""
    own: dict[str, str] = {}
    overrides = []
    for word in words:
        name, equals, value = word.partition("=")
        complete = bool(name and equals) or word.startswith("~")
        check(complete, "argument", word, "must be name=value; --help lists them")
        if name in ("scenario", "policies", "out", "budget", "seed", "processes"):
            check(name not in own, name, value, f"is given already as {own.get(name)!r}")
            own[name] = value
        else:
            overrides.append(word)
    if not own.get("scenario"):
        raise ValueError(
            f"scenario: must be given, as scenario=NAME or scenario={ALL}; {LIST} lists them"
        )
    return Arguments(
        own["scenario"],
        _policies(own["policies"]) if "policies" in own else None,
        Path(own.get("out") or OUT),
        _whole(own, "budget", BUDGET, 1),
        _whole(own, "seed", SEED, 0),
        _whole(own, "processes", os.cpu_count() or 1, 1),
        overrides,
    )


def _whole(own: dict[str, str], name: str, otherwise: int, low: int) -> int:
    value = own.get(name, str(otherwise))
    holds = value.isdecimal() and int(value) >= low
    check(holds, name, value, f"must be a whole number, at least {low}")
    return int(value)


def _policies(text: str) -> list[Asked]:
    """Rules between commas, with or without square brackets around all of them."""
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    check(text.strip() != "", "policies", text, "needs a rule; without policies= all that fit meet")
    items = [item.strip() for item in _split(text, ",")]
    check(all(items), "policies", text, "must be rules with a comma between two of them")
    return [_asked(item) for item in items]


def _asked(item: str) -> Asked:
    rule, *settings = _split(item, ":")
    if not settings:
        return Asked(rule)
    point: RuleParameters = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        check(bool(name and equals), "policies", item, f"{setting!r} must be NAME=VALUE")
        check(name not in point, "policies", item, f"{name} is given twice")
        point[name] = _parsed(value)
    clash = {name.partition(".")[0] for name in point if "." in name} & set(point)
    check(not clash, "policies", item, f"{' and '.join(clash)} is given alone and by class")
    return Asked(rule, nested(point))


def _split(text: str, separator: str) -> list[str]:
    """The parts between separators; those within brackets or braces do not count."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[{") - (letter in "]}")
        if letter == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _parsed(value: str) -> Any:
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        return value  # a word, such as variant=earliest
