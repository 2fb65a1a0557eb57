"""Scenarios of every kind of decision, and what a cluster shows while somebody plays in it."""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np

from simulator.action import sample_actions
from simulator.conditions import Faults, Scaling, SetPoints, View
from simulator.environment import Environment
from simulator.observation import Observation
from simulator.policies import RULES, Policy, build_policy
from simulator.policies.mixture import UniformRandom
from simulator.policies.space import Space, nested
from simulator.replica import Replica, TokenModel, continuous_replica
from simulator.reward import Reward, reward_term_names
from simulator.scenario import ClassChoice, MixedBatches, RequestClass, Scenario
from simulator.sizes import Constant, RequestSizes
from simulator.traffic import PoissonWorkload

LANES, STEPS = 12, 30


class Decision(NamedTuple):
    """What a policy is shown at one decision of all lanes."""

    observation: Observation
    action_mask: np.ndarray


def cluster(
    replicas: int,
    classes: int,
    menu: tuple[int, ...] = (1, 2, 4, 8),
    **fields: object,
) -> Scenario:
    """Unlike classes and unlike replicas."""
    return Scenario(
        tuple(RequestClass(f"class{c}", 0.1 * (1 + c), 1.0 + 3 * c) for c in range(classes)),
        tuple(
            Replica(
                alpha_s=(0.002 + 0.0013 * k,) * classes,
                beta_s=tuple(0.005 * (c + 1) - 0.0011 * k for c in range(classes)),
                noise_cv=(0.2,) * classes,
                max_batch_size=max(menu[0], 32 >> k),
                price_per_hour=1.0,
            )
            for k in range(replicas)
        ),
        menu,
        **fields,
    )


def specialized(scenario: Scenario) -> Scenario:
    """The same cluster, but its first two replicas do not serve the last class, nor the last 0."""
    classes, replicas = len(scenario.request_classes), len(scenario.replicas)
    serves = np.ones((replicas, classes), bool)
    serves[:2, -1], serves[-1, 0] = False, False
    pairs = zip(scenario.replicas, serves.tolist(), strict=True)
    return replace(scenario, replicas=tuple(replace(r, serves=tuple(row)) for r, row in pairs))


def language_models(replicas: int, **fields: object) -> Scenario:
    tokens = TokenModel(0.006, 0.00006, 0.0002, 1e-7, 32, 8000, 1024)
    classes = (RequestClass("chat", 2.0, 1.0, 0.5, 0.05), RequestClass("code", 3.0, 1.0, 1.0, 0.05))
    servers = (continuous_replica(2, tokens, 1.0),) * replicas
    return Scenario(classes, servers, (1,), queues="replica", **fields)


SEES, MENUS = View(oldest_requests=32), SetPoints((1, 4, 16), (0.0, 0.01), (), (0, 1, 2, 3))
OPEN = {"may_shed": True, "view": SEES}
ROUTED = {"decision": "route", "queues": "replica", "batch_timeout_s": 0.005}
TUNED = {
    "decision": "tune",
    "control_interval_s": 0.05,
    "set_points": MENUS,
    "scaling": Scaling(0.1, 0.5, 1),
}
HEAD = {"class_choice": ClassChoice.HEAD_OF_LINE}
SCENARIOS = {
    "one replica, one class": cluster(1, 1),
    "one replica, one class, open": cluster(1, 1, **OPEN),
    "two of each": cluster(2, 2),
    "two of each, open": cluster(2, 2, tuple(range(1, 33)), **OPEN),
    "three of each, open": cluster(3, 3, (2, 3, 7, 16), **OPEN),
    "the paper's 65 actions": cluster(2, 2, tuple(range(1, 33)), **HEAD),
    "head of line, open": cluster(3, 3, **HEAD, **OPEN),
    "at ticks": cluster(2, 2, decision_epochs="ticks", **OPEN),
    "replicas for some classes, open": specialized(cluster(3, 3, **OPEN)),
    "mixed batches": cluster(2, 2, mixed=MixedBatches.SUM, **HEAD, **OPEN),
    "sent ahead, with faults": cluster(
        3, 2, replica_backlog=1, faults=Faults(mean_time_between_s=0.3, repair_s=0.1), **OPEN
    ),
    "routed": cluster(2, 2, **ROUTED),
    "routed among five, stale": cluster(5, 1, **ROUTED, view=View(0.1)),
    "routed with own count and faults": cluster(
        3, 3, **ROUTED, view=View(0.1, True), faults=Faults(mean_time_between_s=0.3, repair_s=0.1)
    ),
    "routed, replicas for some classes": specialized(cluster(3, 3, **ROUTED)),
    "routed token by token": language_models(3, decision="route"),
    "tuned": cluster(3, 2, **TUNED),
    "tuned, replica queues": cluster(3, 2, **TUNED, queues="replica"),
    "batch size tuned": cluster(2, 1, **{**TUNED, "set_points": SetPoints((1, 2, 8))}),
    "replicas tuned": cluster(3, 1, **{**TUNED, "set_points": SetPoints((), (), (), (1, 2, 3))}),
    "tuned token by token": language_models(
        2, **{**TUNED, "set_points": SetPoints((), (), (4, 16, 32), (0, 1, 2))}
    ),
}


def environment(scenario: Scenario, seed: int, horizon_s: float = 2.0) -> Environment:
    """More than the cluster can serve, now and then."""
    classes = len(scenario.request_classes)
    sizes = (
        (RequestSizes(Constant(1.0), Constant(300.0), Constant(40.0)),) * 2
        if scenario.continuous
        else ()
    )
    rate_rps = (
        (20.0,) * 2 if scenario.continuous else tuple(160.0 / (c + 1) for c in range(classes))
    )
    return Environment(
        scenario,
        PoissonWorkload(rate_rps, sizes),
        LANES,
        horizon_s,
        Reward(np.ones(len(reward_term_names(scenario.class_names)))),
        np.random.default_rng(seed),
    )


@cache
def played(title: str) -> tuple[Decision, ...]:
    """What lanes show, step by step, under somebody who takes any action; some lanes end early."""
    scenario = SCENARIOS[title]
    horizon_s = np.linspace(0.2, 3.0, LANES)
    lanes = environment(scenario, seed=3)
    generator, policy = np.random.default_rng(4), UniformRandom(scenario)
    observation, mask = lanes.reset()
    lanes.state.horizon_s[:] = horizon_s
    decisions = []
    for _ in range(STEPS):
        decisions.append(Decision(Observation(*map(np.copy, observation)), mask.copy()))
        action, _ = sample_actions(policy.action_probabilities(observation, mask), generator)
        step = lanes.step(action)
        observation, mask = step.observation, step.action_mask
    return tuple(decisions)


def points(space: Space) -> list[dict]:
    """Parameters at the ends of the space, and those of the rule's source."""
    default = [] if space.default is None else [nested(space.default)]
    return [space.corner(high=True), space.corner(high=False), *default]


def _cases() -> list[tuple[str, str, int]]:
    """Every rule in every scenario that it fits, at its points in turn; at all in the first."""
    cases = []
    for name, spec in RULES.items():
        titles = [title for title, scenario in SCENARIOS.items() if spec.misfit(scenario) is None]
        for turn, title in enumerate(titles):
            count = len(points(spec.space(SCENARIOS[title])))
            numbers = range(count) if turn == 0 else [turn % count]
            cases += [(name, title, number) for number in numbers]
    return cases


CASES = _cases()


def build(name: str, title: str, number: int) -> Policy:
    """The rule at one of its points in the scenario of that title."""
    scenario = SCENARIOS[title]
    return build_policy(name, scenario, points(RULES[name].space(scenario))[number])
