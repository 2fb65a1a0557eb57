"""`python -m pipeline.arena`: the leagues of one scenario or of all, printed and written."""

import platform
import sys
import textwrap
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

from pipeline.arena.arguments import ALL, LIST, USAGE, Arguments, read_arguments
from pipeline.arena.chart import drawn_league
from pipeline.arena.compete import compete, contest_of
from pipeline.arena.entrants import Asked, Entrant, entrants_of, refusals
from pipeline.arena.league import CONFIDENCE, League, share_in_words
from pipeline.arena.suite import (
    ArenaScenario,
    load_arena_scenario,
    missing_files,
    reason_for,
    scenario_names,
    unknown_name,
)
from pipeline.arena.table import WIDTH, number, print_league, print_table
from pipeline.description import did_you_mean
from pipeline.files import check_writable, plain, write_atomically, write_json
from pipeline.progress import progress
from pipeline.workers import Run, workers
from simulator.policies.registry import RULES, fitting_rules

REFUSED = 2
_VERSIONS = ("batchwright", "numba", "numpy", "optuna", "scipy")


class Field(NamedTuple):
    """Who meets in a scenario."""

    arena: ArenaScenario
    entrants: list[Entrant]


def main(words: Sequence[str]) -> int:
    """The exit code: 0, or 2 where the request was refused, with a line on stderr for each reason.

    Nothing is simulated before everything has been checked.
    """
    if any(word in ("-h", "--help") for word in words):
        print(USAGE, end="")
        return 0
    try:
        arguments = read_arguments(words)
        if arguments.scenario == LIST:
            print_scenarios()
            return 0
        fields, skipped = fields_of(arguments)
        check_writable("out", arguments.out)
    except ValueError as error:
        for line in str(error).splitlines():
            print(f"error: {line}", file=sys.stderr)
        return REFUSED
    for name, reason in skipped.items():
        print(f"skipped: {name}: {reason}")
    leagues = []
    with workers(arguments.processes) as run:
        for league in _leagues(fields, arguments, run):
            write_league(league, arguments)
            print_league(league)
            print(f"Written to {arguments.out / league.scenario}.json and .png\n")
            leagues.append(league)
    if arguments.scenario == ALL:
        write_json(arguments.out / "summary.json", plain(summary(leagues, skipped, arguments)))
        print_summary(leagues)
        print(f"Written to {arguments.out / 'summary.json'}")
    return 0


def fields_of(arguments: Arguments) -> tuple[list[Field], dict[str, str]]:
    """Who meets in each scenario asked for, and why scenarios were left out of `all`, by name.

    Raises ValueError with a line for each reason to refuse.
    """
    known, is_all = scenario_names(), arguments.scenario == ALL
    if not is_all and arguments.scenario not in known:
        told = unknown_name(arguments.scenario, [ALL, LIST, *known])
        raise ValueError(f"scenario = {arguments.scenario!r}: {told}")
    if is_all:  # else told with what fits the scenario
        _check_known(arguments.policies or (), list(RULES))
    fields: list[Field] = []
    skipped: dict[str, str] = {}
    lines: list[str] = []
    for name in known if is_all else [arguments.scenario]:
        reason = missing_files(name, arguments.overrides) if is_all else None
        if reason is not None:
            skipped[name] = reason
            continue
        try:
            arena = load_arena_scenario(name, arguments.overrides)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        if not is_all:
            _check_known(arguments.policies or (), fitting_rules(arena.scenario))
        asked = arguments.policies
        if is_all and asked is not None:
            asked = _fitting(asked, arena)
            if not asked:
                skipped[name] = "none of the policies fits"
                continue
        field = Field(arena, entrants_of(arena, asked))
        lines += refusals(*field)
        fields.append(field)
    if lines:
        raise ValueError("\n".join(lines))
    return fields, skipped


def _check_known(policies: Sequence[Asked], able: Sequence[str]) -> None:
    """Raises ValueError, with a line for each policy that there is none of and who is able."""
    lines = [
        f"policies = {rule!r}: {did_you_mean(rule, able)}must be one of {', '.join(able)}"
        for rule, _ in policies
        if rule not in RULES
    ]
    if lines:
        raise ValueError("\n".join(lines))


def print_scenarios() -> None:
    """A line for each scenario of the suite: its name and where a user meets it."""
    names = scenario_names()
    for name in names:
        try:
            told = reason_for(name)
        except ValueError as error:  # one of the user's own, not yet right
            told = f"cannot be read: {error}"
        print(f"{name:<{max(map(len, names))}}  {told}")


def _fitting(asked: Sequence[Asked], arena: ArenaScenario) -> list[Asked]:
    """Of rules named for all scenarios, those that this one can have."""
    able = fitting_rules(arena.scenario)
    return [each for each in asked if each.rule in able]


def _leagues(fields: Sequence[Field], arguments: Arguments, run: Run) -> Iterator[League]:
    """The leagues of the scenarios, one after the other."""
    for arena, entrants in fields:
        with progress(f"arena {arena.name}", len(entrants)) as advance:
            contest = contest_of(arena, arguments.seed)
            league = compete(contest, entrants, arguments.budget, arguments.seed, run, advance)
        yield league


def write_league(league: League, arguments: Arguments) -> None:
    """`<out>/<scenario>.json` and `.png`. Equal requests give equal bytes: no time, no host."""
    told = {
        **league._asdict(),
        "confidence": CONFIDENCE,
        "overrides": arguments.overrides,
        "versions": versions(),
    }
    write_json(arguments.out / f"{league.scenario}.json", plain(told))
    write_atomically(arguments.out / f"{league.scenario}.png", drawn_league(league))


def versions() -> dict[str, str]:
    """The versions of what the figures depend on."""
    return {
        "python": platform.python_version(),
        **{package: version(package) for package in _VERSIONS},
    }


def summary(
    leagues: Sequence[League], skipped: dict[str, str], arguments: Arguments
) -> dict[str, Any]:
    """What all leagues say, and which scenarios were skipped."""
    return {
        "budget": arguments.budget,
        "seed": arguments.seed,
        "overrides": arguments.overrides,
        "versions": versions(),
        "skipped": skipped,
        "leagues": [
            {
                "scenario": league.scenario,
                "first": league.standings[0].name,
                "best": league.best,
                "cost_per_s": _cost(league),
                "margins": league.margins,
                "headroom": league.headroom,
                "sentences": league.sentences,
            }
            for league in leagues
        ],
    }


def _cost(league: League) -> float:
    """Mean cost per second of the best heuristic."""
    return next(s.cost_per_s.mean for s in league.standings if s.name == league.best)


def print_summary(leagues: Sequence[League]) -> None:
    """A line for each scenario: the best heuristic, its margin and what is left for a learner."""
    rows = []
    for league in leagues:
        margin = min(league.margins, key=lambda margin: margin.share.mean, default=None)
        told = share_in_words(margin.share) if margin else "no baselines"
        rows.append([league.scenario, league.best, number(_cost(league)), told])
    heads = ["scenario", "best heuristic", "cost/s", "saves of the best baseline"]
    print_table("Summary", heads, rows)
    for league in leagues:
        told = f"  {league.scenario}: {league.sentences[-1]}"
        print(textwrap.fill(told, WIDTH, subsequent_indent="    "))
