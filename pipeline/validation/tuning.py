"""Searches the parameters of every rule with the same budget, on the training split alone."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pipeline.validation.evaluation import Trial, evaluate
from simulator.policies.registry import RULES, build_policy
from simulator.scenario import Scenario


class TunedRule(NamedTuple):
    """The best parameters of a rule, and what they earned on the training arrivals."""

    rule: str
    parameters: dict[str, Any]
    reward_per_s: float
    points: int  # parameter settings tried


def points_to_try(rule: str, scenario: Scenario, points: int) -> list[dict[str, Any]]:
    """The rule's grid of parameter settings; a grid larger than `points` is thinned evenly."""
    grid = RULES[rule].grid(scenario)
    if len(grid) <= points:
        return grid
    numbers = np.linspace(0, len(grid) - 1, points).round().astype(int)
    return [grid[number] for number in numbers]


def tune_rule(
    rule: str, trial: Trial, points: int, advance: Callable[[], None] = lambda: None
) -> TunedRule | None:
    """The setting of `points_to_try` with the highest mean reward; None where there is none.

    Every setting meets the same arrivals and noise; ties go to the setting that comes first.
    `advance` is called after each.
    """
    rewards = []
    grid = points_to_try(rule, trial.scenario, points)
    for parameters in grid:
        policy = build_policy(rule, trial.scenario, parameters)
        rewards.append(float(evaluate(policy, trial).reward_per_s.mean()))
        advance()
    if not rewards:
        return None
    best = int(np.argmax(rewards))
    return TunedRule(rule, grid[best], rewards[best], len(grid))
