"""All policies on the same test episodes, their differences to the best rule, and the gate."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from pipeline.validation.evaluation import Evaluation, Trial, evaluate
from pipeline.validation.gate import Guard, Margins, gate_reasons, guards, shared_level
from pipeline.validation.intervals import Alternative, Interval, mean_interval
from simulator.policies.base import Policy

TEST = "test"
RULE = "rule"


class Candidate(NamedTuple):
    """A policy that takes part: a tuned rule or an agent."""

    kind: str  # rule, offline or online
    policy: Policy
    parameters: dict[str, Any]  # of a rule


class Comparison(NamedTuple):
    """How intervals are made and what the gate asks for."""

    confidence: float  # of intervals shown
    gate_confidence: float  # one-sided, shared among all agents that are tried
    resamples: int
    margins: Margins
    seed: int  # of the resampling


class Standing(NamedTuple):
    """One policy in the comparison."""

    name: str
    kind: str
    parameters: dict[str, Any]
    reward_per_s: Interval
    difference: Interval  # to the best rule, on the same episodes
    validation_reward_per_s: float
    by_class: dict[str, dict[str, float]]
    gate_low: float | None  # lower bound of the gain that the gate looks at; None for rules
    guards: list[Guard]
    reasons: list[str]  # why the gate is shut; empty for rules and for agents that pass


class Scorecard(NamedTuple):
    """The comparison and what follows from it."""

    best_rule: str
    winner: str | None  # the agent that may replace the rule
    standings: list[Standing]  # best first
    windows: int
    episodes: int


def score(
    candidates: Mapping[str, Candidate],
    trials: Mapping[str, Trial],
    validation: Trial,
    comparison: Comparison,
    advance: Callable[[], None] = lambda: None,
) -> Scorecard:
    """Evaluates every candidate in every trial; `trials[TEST]` decides, the others are stress.

    The best rule is the one with the highest mean reward on the test episodes themselves, which
    favors the rules. Agents share the error probability of the gate. Among those that pass, the
    winner is the one that did best on the validation split. `advance` is called after each
    candidate. Raises ValueError without any rule.
    """
    test = {name: evaluate(entry.policy, trials[TEST]) for name, entry in candidates.items()}
    ranked = sorted(test, key=lambda name: test[name].reward_per_s.mean(), reverse=True)
    best_rule = next((name for name in ranked if candidates[name].kind == RULE), None)
    if best_rule is None:
        raise ValueError("candidates: needs at least one rule to compare with")
    rule_results = _in_all(trials, candidates[best_rule].policy, test[best_rule])
    agents = sum(entry.kind != RULE for entry in candidates.values())
    level = shared_level(comparison.gate_confidence, agents)
    yardstick = _Yardstick(trials, rule_results, comparison, level)
    standings = []
    for name in ranked:
        entry = candidates[name]
        on_validation = float(evaluate(entry.policy, validation).reward_per_s.mean())
        standing = _standing(name, entry, test[name], on_validation, yardstick)
        if entry.kind != RULE:
            results = _in_all(trials, entry.policy, test[name])
            standing = _judged(standing, results, yardstick)
        standings.append(standing)
        advance()
    window = trials[TEST].window
    return Scorecard(best_rule, _winner(standings), standings, len(np.unique(window)), len(window))


def _in_all(
    trials: Mapping[str, Trial], policy: Policy, on_test: Evaluation
) -> dict[str, Evaluation]:
    """The policy in every trial; what came of it in the test trial is known already."""
    return {
        name: on_test if name == TEST else evaluate(policy, trial) for name, trial in trials.items()
    }


class _Yardstick(NamedTuple):
    """What every policy is held against."""

    trials: Mapping[str, Trial]
    rule_results: Mapping[str, Evaluation]  # of the best rule, by trial
    comparison: Comparison
    level: float  # one-sided, of the bound that the gate looks at

    def gain(self, on_test: Evaluation) -> np.ndarray:
        """Reward per second above the best rule's, episode by episode."""
        return on_test.reward_per_s - self.rule_results[TEST].reward_per_s

    def interval(
        self, values: np.ndarray, confidence: float, alternative: Alternative = "two-sided"
    ) -> Interval:
        """The mean of the test episodes' values; the same resamples whatever the policy."""
        return mean_interval(
            values,
            self.trials[TEST].window,
            confidence,
            self.comparison.resamples,
            np.random.default_rng(self.comparison.seed),
            alternative,
        )


def _standing(
    name: str, entry: Candidate, on_test: Evaluation, on_validation: float, yardstick: _Yardstick
) -> Standing:
    """The policy's place in the comparison, before the gate."""
    confidence = yardstick.comparison.confidence
    names = yardstick.trials[TEST].scenario.class_names
    return Standing(
        name=name,
        kind=entry.kind,
        parameters=entry.parameters,
        reward_per_s=yardstick.interval(on_test.reward_per_s, confidence),
        difference=yardstick.interval(yardstick.gain(on_test), confidence),
        validation_reward_per_s=on_validation,
        by_class={
            class_name: metrics._asdict()
            for class_name, metrics in zip(names, on_test.by_class, strict=True)
        },
        gate_low=None,
        guards=[],
        reasons=[],
    )


def _judged(
    standing: Standing, results: Mapping[str, Evaluation], yardstick: _Yardstick
) -> Standing:
    """The standing of an agent with what the gate says of it, in every trial."""
    bound = yardstick.interval(yardstick.gain(results[TEST]), yardstick.level, "greater")
    margins = yardstick.comparison.margins
    guarded = [
        guard
        for name, trial in yardstick.trials.items()
        for guard in guards(
            name, trial.scenario, results[name], yardstick.rule_results[name], margins
        )
    ]
    return standing._replace(
        gate_low=bound.low, guards=guarded, reasons=gate_reasons(bound, guarded)
    )


def _winner(standings: list[Standing]) -> str | None:
    """The agent that passed and did best on the validation split; None where none passed."""
    passed = [standing for standing in standings if standing.kind != RULE and not standing.reasons]
    if not passed:
        return None
    return max(passed, key=lambda standing: standing.validation_reward_per_s).name
