"""What a log declares of its own policy, and whether its decisions bear that out."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from pipeline.calibration.logged_policy.behavior import fit_behavior, propensities
from pipeline.calibration.logged_policy.decisions import DispatchDecisions, DispatchLog
from pipeline.calibration.logged_policy.recognize import (
    DECLARED,
    LoggedPolicy,
    split_decisions,
    unknown_policy,
)
from pipeline.calibration.logged_policy.scoring import fit_epsilon, score
from pipeline.calibration.logged_policy.system import chances_of, menu_of, system_of
from simulator.action import action_table, legal_actions
from simulator.checks import check
from simulator.policies.registry import build_policy
from simulator.policies.rule import StatefulRule

_MOST_ERRORS = 4.0  # standard errors between the two sides of the check


class PropensityCheck(NamedTuple):
    """Whether declared propensities can be what they say."""

    mean: float  # of the propensities
    mean_inverse: float
    mean_legal: float  # legal actions; the same number where all of them can happen
    errors: float  # standard errors between the last two
    holds: bool


def check_propensities(propensity: np.ndarray, legal: np.ndarray) -> PropensityCheck:
    """Compares `mean of 1 / propensity` with the mean number of `legal [D]` actions.

    Where every legal action has a chance, `E[1 / p] = sum over actions of p / p` is their number:
    so propensities are checked without knowing the rule. Too many 1 / p: they are told too small
    for what is often done; too few: too large, or some legal action never happens (a rule without
    exploration has p = 1 everywhere, and does not hold). The standard error is that of the mean
    difference. Raises ValueError unless every propensity is in (0, 1].
    """
    inside = (propensity > 0) & (propensity <= 1)
    if not inside.all():
        place = int(np.argmin(inside))
        check(False, f"propensity[{place}]", float(propensity[place]), "must be in (0, 1]")
    check(len(propensity) > 1, "len(propensity)", len(propensity), "needs at least two")
    gap = 1.0 / propensity - legal
    error = float(gap.std(ddof=1)) / math.sqrt(len(gap))
    mean = float(gap.mean())
    errors = mean / error if error > 0 else math.copysign(math.inf, mean) if mean else 0.0
    return PropensityCheck(
        float(propensity.mean()),
        float((1.0 / propensity).mean()),
        float(legal.mean()),
        errors,
        abs(errors) <= _MOST_ERRORS,
    )


def legal_counts(
    log: DispatchLog, decisions: DispatchDecisions, menu: tuple[int, ...]
) -> np.ndarray:
    """How many actions `[D]` were legal at each decision, WAIT included."""
    scenario = system_of(log, menu)
    largest = scenario.parameters().max_batch_size
    table = action_table(scenario)
    counts: np.ndarray = legal_actions(table, decisions.queue_length, decisions.idle, largest).sum(
        axis=1
    )
    return counts


def declared_policy(
    log: DispatchLog,
    decisions: DispatchDecisions,
    menu: tuple[int, ...],
    policy: Mapping[str, Any],
) -> LoggedPolicy:
    """What the log says of its policy, and how far the later 40 % of its decisions bear it out.

    `policy` has name, parameters and, if it is known, epsilon: else the likeliest one is taken.
    Parameters by class go by `class_0`, `class_1`, ..; weights of classes are taken to be equal.
    Raises ValueError for a rule or a parameter that the registry does not have, and for a name that
    is missing.
    """
    check("name" in policy, "policy", dict(policy), "needs the name of a rule")
    menu = menu or menu_of(log)
    scenario = system_of(log, menu)
    name, parameters = str(policy["name"]), dict(policy.get("parameters") or {})
    rule = build_policy(name, scenario, parameters)
    train, held_out = split_decisions(decisions)
    estimated = np.log(propensities(fit_behavior(train), held_out))
    epsilon = policy.get("epsilon")
    told = unknown_policy(decisions.length, 0)._replace(
        rule=name,
        parameters=parameters,
        epsilon=math.nan if epsilon is None else float(epsilon),
        method=DECLARED,
        estimated_log_likelihood=float(estimated.mean()),
        text="declared by the log; the rule has a memory, so its decisions are not checked",
    )
    if isinstance(rule, StatefulRule):
        return told
    chances = chances_of(rule, scenario, held_out)
    if epsilon is None:
        epsilon = fit_epsilon(chances.own, chances.uniform)
    judged = score(chances, float(epsilon))
    return told._replace(
        epsilon=judged.epsilon,
        agreement=judged.agreement,
        explained=judged.explained,
        log_likelihood=judged.log_likelihood,
        text=f"declared by the log; it explains {judged.explained:.1%} of the held-out decisions",
    )
