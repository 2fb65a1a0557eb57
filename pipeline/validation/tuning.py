"""Searches the parameters of every rule with the same budget; the test split is never seen."""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from pipeline.randomness import derived_seed
from pipeline.validation.evaluation import Trial, rewards_side_by_side
from simulator.checks import check_whole
from simulator.policies.registry import RULES, build_policy
from simulator.policies.space import Axis, Choice, Real, RuleParameters, Space, nested
from simulator.scenario import Scenario

FINALISTS = 4
_TOGETHER = 4  # settings that the search suggests at once, and that are evaluated side by side
_MOST_TOGETHER = 8  # without a search
_ASKS_FOR_ONE = 10  # suggestions for each evaluation of the budget, repeated points included


class TunedRule(NamedTuple):
    """The best parameters of a rule, what they earned, and how many settings were tried."""

    rule: str
    parameters: RuleParameters
    reward_per_s: float  # on the validation arrivals
    training_reward_per_s: float
    evaluations: int  # different settings that met the training arrivals
    validations: int  # of these, the finalists that met the validation arrivals


_Rewards = Callable[[Sequence[RuleParameters]], list[float]]  # mean rewards in training


class _Tried(NamedTuple):
    parameters: RuleParameters
    reward_per_s: float  # in training


def evaluations_due(
    rule: str, scenario: Scenario, budget: int, finalists: int = FINALISTS
) -> tuple[int, int]:
    """How many settings `tune_rule` will try in training and in validation; (0, 0) for a misfit.

    Fewer only where the search suggests nothing new any more.
    """
    if RULES[rule].misfit(scenario) is not None:
        return 0, 0
    size = RULES[rule].space(scenario).size
    evaluations = budget if size is None else min(size, budget)
    return evaluations, min(finalists, evaluations)


def tune_rule(
    rule: str,
    train: Trial,
    validation: Trial,
    budget: int,
    finalists: int = FINALISTS,
    seed: int = 0,
    advance: Callable[[], None] = lambda: None,
) -> TunedRule | None:
    """The setting with the highest mean reward; None where the scenario cannot have the rule.

    At most `budget` different settings meet the training arrivals, all of them the same: the whole
    grid where it is that small, else the default of the rule's space and what a search suggests.
    The best `finalists` of them meet the validation arrivals, and the best there is taken; among
    equals the better one in training, then the one tried first. Equal seeds give equal results.
    `advance` is called after each evaluation.
    """
    check_whole("budget", budget, 1)
    check_whole("finalists", finalists, 1)
    if RULES[rule].misfit(train.scenario) is not None:
        return None
    space = RULES[rule].space(train.scenario)

    def mean_rewards(settings: Sequence[RuleParameters], trial: Trial) -> list[float]:
        policies = [build_policy(rule, trial.scenario, parameters) for parameters in settings]
        rewards = rewards_side_by_side(policies, trial).mean(axis=1).tolist()
        for _ in settings:
            advance()
        return list(rewards)

    training_rewards = partial(mean_rewards, trial=train)
    if space.size is not None and space.size <= budget:
        tried = list(_whole_grid(space, training_rewards))
    else:
        tried = list(_searched(rule, space, training_rewards, budget, seed))
    best = sorted(tried, key=lambda setting: -setting.reward_per_s)[:finalists]  # a stable sort
    on_validation = mean_rewards([setting.parameters for setting in best], validation)
    winner = int(np.argmax(on_validation))
    return TunedRule(
        rule,
        best[winner].parameters,
        on_validation[winner],
        best[winner].reward_per_s,
        len(tried),
        len(best),
    )


def _whole_grid(space: Space, rewards: _Rewards) -> Iterator[_Tried]:
    grid = space.grid()
    for first in range(0, len(grid), _MOST_TOGETHER):
        part = grid[first : first + _MOST_TOGETHER]
        yield from map(_Tried, part, rewards(part))


def _searched(
    rule: str, space: Space, rewards: _Rewards, budget: int, seed: int
) -> Iterator[_Tried]:
    """`budget` different settings: the default first, then those of a tree-structured search.

    Tree-structured Parzen estimators (Bergstra et al. 2011), as Optuna has them. A third of the
    budget is drawn evenly before the search begins to learn, some settings at a time. A point that
    is suggested again costs nothing: the search is told the reward that is known.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    start = max(1, budget // 3)
    sampler = optuna.samplers.TPESampler(
        n_startup_trials=start, seed=derived_seed(seed, "tune", rule)
    )
    study = optuna.create_study(direction="maximize", sampler=sampler)
    distributions = {name: _distribution(axis) for name, axis in space.axes.items()}
    if space.default is not None:
        study.enqueue_trial(_default_numbers(rule, space))
    known: dict[str, float] = {}
    while len(known) < budget and len(study.trials) < _ASKS_FOR_ONE * budget:
        wanted = min(_TOGETHER if known else start, _MOST_TOGETHER, budget - len(known))
        suggested = [study.ask(distributions) for _ in range(wanted)]
        keys = [json.dumps(each.params, sort_keys=True) for each in suggested]
        new = {
            key: _parameters(space, each.params)
            for key, each in zip(keys, suggested, strict=True)
            if key not in known
        }
        if new:
            found = rewards(list(new.values()))
            known.update(zip(new, found, strict=True))
            yield from map(_Tried, new.values(), found)
        for key, each in zip(keys, suggested, strict=True):
            study.tell(each, known[key])


def _distribution(axis: Axis) -> BaseDistribution:
    """Choices are told to the search as places in their list: they may be tuples or None."""
    if isinstance(axis, Choice):
        return CategoricalDistribution(range(len(axis.values)))
    if isinstance(axis, Real):
        return FloatDistribution(axis.low, axis.high, log=axis.log)
    return IntDistribution(axis.low, axis.high, log=axis.log)


def _parameters(space: Space, numbers: dict[str, Any]) -> RuleParameters:
    point = {}
    for name, axis in space.axes.items():
        number = numbers[name]
        point[name] = axis.values[number] if isinstance(axis, Choice) else number
    return nested(point)


def _default_numbers(rule: str, space: Space) -> dict[str, Any]:
    """The default point as the search knows it; ValueError where it lies outside of the axes."""
    numbers: dict[str, Any] = {}
    for name, value in (space.default or {}).items():
        axis = space.axes[name]
        if isinstance(axis, Choice):
            inside = value in axis.values
            numbers[name] = axis.values.index(value) if inside else None
        else:
            inside = axis.low <= value <= axis.high
            numbers[name] = float(value) if isinstance(axis, Real) else int(value)
        if not inside:
            raise ValueError(f"{rule}: the default {name} = {value!r} is not within {axis}")
    return numbers
