"""The league of a scenario: costs with paired intervals, and what they leave for a learner."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pipeline.arena.contest import Contest
from pipeline.arena.entrants import Entrant, Kind
from pipeline.arena.figures import Figures
from pipeline.arena.sentences import DUST, margin_sentence, optimum_sentence, room_sentence
from pipeline.arena.standing import BASELINES, CONTENDERS, Share, Standing
from pipeline.randomness import stream
from pipeline.reporting.text import signed_percent
from pipeline.validation.evaluation import Trial
from pipeline.validation.intervals import Interval, expanded_tail, mean_interval
from pipeline.validation.tuning import TunedRule
from simulator.reward import reward_term_names

CONFIDENCE, RESAMPLES = 0.95, 2000
OPTIMAL = ("smdp_rvi",)  # as yardsticks these are the optimum of what they are told
# Rules without any thought of the future, by the kind of their decisions.
SIMPLE = {"dispatch": ("c_mu", "fifo"), "route": ("shortest_queue",), "tune": ()}


class Result(NamedTuple):
    """What came of an entrant."""

    entrant: Entrant  # with the parameters that it played with
    tuned: TunedRule | None
    cost_per_s: np.ndarray  # [E] as `compete.cost_per_s`, by test episode
    figures: Figures


class League(NamedTuple):
    """A scenario's league and what it says."""

    scenario: str
    why: str
    decision: str
    class_names: tuple[str, ...]
    weighed: tuple[str, ...]  # reward terms that the objective gives a weight
    episodes: int
    windows: int  # of the test split, that its episodes show
    tuning_episodes: int
    horizon_s: float
    budget: int
    seed: int
    standings: list[Standing]  # the least cost first
    alike: list[list[str]]  # names of those that cost the same in every test episode
    best: str  # the best heuristic, baselines and yardsticks apart
    margins: list[Share]  # what it saves of the cost of each baseline
    headroom: Share | None  # what the optimum saves of the cost of the cheapest but yardsticks
    sentences: list[str]


def build_league(contest: Contest, results: Sequence[Result], budget: int, seed: int) -> League:
    """The league of the results `[E]` of at least one tuned or given policy.

    An interval is of the mean over the windows of the test episodes, which count as independent;
    all differences are paired. The first and the best are found on the test episodes themselves,
    which favors them.
    """
    ranked = sorted(results, key=lambda result: float(result.cost_per_s.mean()))
    test = contest.trials["test"]
    resampling = _Resampling(test.window, seed)
    standings = [_standing(result, ranked[0], resampling) for result in ranked]
    best = next(result for result in ranked if result.entrant.kind in CONTENDERS)
    margins = [
        Share(result.entrant.name, resampling.saved(best, result))
        for result in ranked
        if result.entrant.kind in BASELINES
    ]
    optimum = next((result for result in ranked if _is_optimum(result.entrant)), None)
    leader = next(result for result in ranked if result.entrant.kind != Kind.YARDSTICK)
    headroom = None
    room = room_sentence(standings, SIMPLE[test.scenario.decision])
    if optimum is not None:
        headroom = Share(optimum.entrant.name, resampling.saved(optimum, leader))
        room = optimum_sentence(leader.entrant.name, headroom)
    return League(
        scenario=contest.name,
        why=contest.why,
        decision=str(test.scenario.decision),
        class_names=test.scenario.class_names,
        weighed=_weighed(test),
        episodes=len(test.window),
        windows=len(np.unique(test.window)),
        tuning_episodes=len(contest.trials["train"].window),
        horizon_s=test.horizon_s,
        budget=budget,
        seed=seed,
        standings=standings,
        alike=_alike(ranked),
        best=best.entrant.name,
        margins=margins,
        headroom=headroom,
        sentences=[margin_sentence(best.entrant.name, margins, standings), room],
    )


def _weighed(trial: Trial) -> tuple[str, ...]:
    names = reward_term_names(trial.scenario.class_names)
    weights = trial.reward.weights.tolist()
    return tuple(name for name, weight in zip(names, weights, strict=True) if weight)


class _Resampling:
    """Intervals over the windows of test episodes; the same resamples whatever the values."""

    def __init__(self, window: np.ndarray, seed: int) -> None:
        self._window, self._seed = window, seed

    def _generator(self) -> np.random.Generator:
        return stream(self._seed, "arena", "resampling")

    def mean(self, values: np.ndarray, dust: float = 0.0) -> Interval:
        """The mean of `values [E]`; BCa divides by zero where they differ by rounding alone.

        Values that spread over at most `dust` are one value, and 0 where that is as small.
        """
        if np.ptp(values) <= dust:
            mean = float(values.mean())
            mean = mean if abs(mean) > dust else 0.0
            return Interval(mean, mean, mean)
        return mean_interval(values, self._window, CONFIDENCE, RESAMPLES, self._generator())

    def saved(self, cheap: Result, dear: Result) -> Interval:
        """`(mean dear - mean cheap) / |mean dear|`, paired; NaN where the dear one costs nothing.

        Both means are of the same resampled windows: bursts that make one dear make both.
        """
        own, others = self._by_window(cheap.cost_per_s), self._by_window(dear.cost_per_s)
        windows = np.arange(len(own))
        drawn = self._generator().choice(windows, (RESAMPLES, len(windows)))
        tail = expanded_tail((1.0 - CONFIDENCE) / 2.0, len(windows))
        bounds = np.quantile(_saved(own, others, drawn), [tail, 1.0 - tail])
        return Interval(float(_saved(own, others, windows)), *bounds.tolist())

    def _by_window(self, values: np.ndarray) -> np.ndarray:
        """The mean of each window's episodes."""
        return np.array([values[self._window == w].mean() for w in np.unique(self._window)])


def _saved(cheap: np.ndarray, dear: np.ndarray, windows: np.ndarray) -> np.ndarray:
    """The share of the dear one's cost that the cheap one saves, over the last axis of windows."""
    cost = dear[windows].mean(axis=-1)
    gap = cost - cheap[windows].mean(axis=-1)
    nothing = np.full(np.shape(cost), np.nan)
    return np.divide(gap, np.abs(cost), out=nothing, where=np.abs(cost) > 0)


def _standing(result: Result, first: Result, resampling: _Resampling) -> Standing:
    entrant, tuned = result.entrant, result.tuned
    dust = DUST * float(np.abs(first.cost_per_s).max())
    difference = resampling.mean(result.cost_per_s - first.cost_per_s, dust)
    return Standing(
        entrant.name,
        entrant.kind,
        entrant.rule,
        dict(entrant.parameters or {}),
        resampling.mean(result.cost_per_s),
        difference,
        difference.low <= 0.0,
        None if tuned is None else tuned.reward_per_s,
        0 if tuned is None else tuned.evaluations,
        result.figures,
    )


def _alike(ranked: Sequence[Result]) -> list[list[str]]:
    """Names of two or more that cost the same in every episode, but for rounding.

    Many rules are one policy where replicas are equal or there is one class.
    """
    groups: list[list[Result]] = []
    for result in ranked:
        cost = result.cost_per_s
        dust = DUST * float(np.abs(cost).max())
        for group in groups:
            if np.abs(group[0].cost_per_s - cost).max() <= dust:
                group.append(result)
                break
        else:
            groups.append([result])
    return [[result.entrant.name for result in group] for group in groups if len(group) > 1]


def _is_optimum(entrant: Entrant) -> bool:
    return entrant.kind == Kind.YARDSTICK and entrant.rule in OPTIMAL


def share_in_words(share: Interval) -> str:
    """`+4.2% (+3.1% to +5.0%)`."""
    if math.isnan(share.mean):
        return "nothing to compare"
    mean, low, high = (signed_percent(value) for value in share)
    return f"{mean} ({low} to {high})"
