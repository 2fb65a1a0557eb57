"""Every entrant of a contest: tuned where it has no parameters, then played on the test split."""

from collections.abc import Sequence

import numpy as np

from pipeline.arena.contest import Contest
from pipeline.arena.entrants import Entrant
from pipeline.arena.figures import figures_of
from pipeline.arena.league import League, Result, build_league
from pipeline.arena.suite import ArenaScenario
from pipeline.progress import Advance
from pipeline.randomness import derived_seed
from pipeline.validation.evaluation import Outcome, Trial, play
from pipeline.validation.tuning import tune_rule
from pipeline.workers import Run
from simulator.policies.registry import build_policy


def compete(
    contest: Contest,
    entrants: Sequence[Entrant],
    budget: int,
    seed: int,
    run: Run,
    advance: Advance,
) -> League:
    """The league of the entrants; `budget` settings of each tuned one are tried.

    `run` is from `workers`; how many there are changes nothing but the time that it takes.
    `advance` is called once for each entrant. Only the test split decides the league, and tuning
    never sees it.
    """
    calls = [(entrant, contest, budget, seed) for entrant in entrants]
    results: list[Result | None] = [None] * len(calls)
    for number, result in run(_result, calls):
        results[number] = result
        advance(1, entrants[number].name)
    return build_league(contest, [result for result in results if result], budget, seed)


def contest_of(arena: ArenaScenario, seed: int) -> Contest:
    """The episodes of each split of an arena scenario, with luck of their own."""
    splits = ("train", "validation", "test")
    trials = {split: _trial(arena, split, seed) for split in splits}
    return Contest(arena.name, arena.why, trials)


def _trial(arena: ArenaScenario, split: str, seed: int) -> Trial:
    """The episodes of a split; each counts as a window."""
    episodes = arena.episodes if split == "test" else arena.tuning_episodes
    return Trial(
        arena.scenario,
        arena.reward,
        [arena.workloads[split]] * episodes,
        np.arange(episodes),
        arena.horizon_s,
        derived_seed(seed, "arena", arena.name, split),
        arena.drain_s,
    )


def _result(entrant: Entrant, contest: Contest, budget: int, seed: int) -> Result:
    """One entrant in the test episodes, with parameters from the two other splits if need be."""
    tuned, parameters, trials = None, entrant.parameters, contest.trials
    if parameters is None:
        tuned = tune_rule(entrant.rule, trials["train"], trials["validation"], budget, seed=seed)
        if tuned is None:
            raise ValueError(f"{entrant.rule}: does not fit {contest.name}")
        parameters = tuned.parameters
    test = trials["test"]
    outcome = play(build_policy(entrant.rule, test.scenario, parameters), test)
    return Result(
        entrant._replace(parameters=parameters),
        tuned,
        cost_per_s(outcome, test),
        figures_of(outcome, test),
    )


def cost_per_s(outcome: Outcome, trial: Trial) -> np.ndarray:
    """`[E]` what an answer to every request would have earned, less what was earned, by second.

    `sum of weight of completed * arrived - reward`, over the seconds of arrivals. The first term is
    the same for every policy. It gives the cost a zero of its own: shares of a cost would mean
    nothing where a credit for each answer shifts it. Without such a credit it is minus the reward.
    """
    classes, episodes = len(trial.scenario.request_classes), len(trial.workloads)
    arrived = np.zeros((episodes, classes))
    np.add.at(arrived, (outcome.records.lane, outcome.records.request_class), 1.0)
    credit = np.maximum(trial.reward.weights[:classes], 0.0)
    return (arrived * credit).sum(axis=1) / trial.horizon_s - outcome.reward_per_s
