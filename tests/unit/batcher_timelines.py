"""Timelines for the batchers of serving frameworks, in whole seconds so that no sum is rounded."""

from typing import Any

import numpy as np

from simulator.action import SHED, WAIT, action_table, legal_actions
from simulator.conditions import View
from simulator.environment import Environment
from simulator.observation import Observation, ReplicaState, empty_observation
from simulator.policies.base import Policy
from simulator.replica import Replica
from simulator.reward import paper_reward
from simulator.scenario import RequestClass, Scenario
from simulator.workload import Arrivals, RecordedWorkload

MENU = (1, 2, 3, 4, 5, 6, 7, 8)


def models(
    classes: int = 1,
    replicas: int = 1,
    alpha_s: float = 10.0,
    beta_s: float = 0.0,
    slo_s: float = 100.0,
    seen: int = 8,
    **options: Any,
) -> Scenario:
    """Replicas on which a batch of b takes alpha + beta * b; the clock is looked at each second."""
    most = options.pop("max_batch_size", max(options.get("batch_sizes", MENU)))
    return Scenario(
        **{
            "request_classes": tuple(RequestClass(f"class {c}", slo_s) for c in range(classes)),
            "replicas": (
                Replica((alpha_s,) * classes, (beta_s,) * classes, (0.0,) * classes, most),
            )
            * replicas,
            "batch_sizes": MENU,
            "tick_s": 1.0,
            "view": View(oldest_requests=seen),
            **options,
        }
    )


def observe(
    scenario: Scenario, queue: list[int], wait_s: list[float], **fields: Any
) -> Observation:
    """One lane with idle replicas in which these wait; `fields` replace the rest."""
    replicas = len(scenario.replicas)
    waits_s = np.where(np.array(queue) > 0, np.array(wait_s, float), 0.0)
    head = int(np.where(np.array(queue) > 0, waits_s, -1.0).argmax()) if any(queue) else -1
    shown = {
        "queue_length": [queue],
        "oldest_wait_s": [waits_s],
        "head_class": [head],
        "can_take": np.ones((1, replicas)),
        "replica_state": np.full((1, replicas), ReplicaState.IDLE),
        "arrived": [queue],
        **fields,
    }
    return empty_observation(scenario, 1)._replace(
        **{name: np.array(value) for name, value in shown.items()}
    )


def answer(policy: Policy, scenario: Scenario, observation: Observation) -> object:
    """What the policy does in the lane: "wait", ("shed", class) or (replica, class, batch size)."""
    table = action_table(scenario)
    mask = legal_actions(
        table,
        observation.queue_length,
        observation.can_take,
        scenario.parameters().max_batch_size,
    )
    row = policy.action_probabilities(observation, mask)[0]
    return _meaning(table, int(row.argmax()), observation.queue_length[0])


def play(
    policy: Policy,
    scenario: Scenario,
    arrivals: list[tuple[float, int]],
    until_s: float = 1000.0,
) -> list[tuple[object, ...]]:
    """What the policy did but wait: (clock in s, replica, class, requests sent or "shed")."""
    instants, classes = np.array([t for t, _ in arrivals], float), [c for _, c in arrivals]
    environment = Environment(
        scenario,
        RecordedWorkload(Arrivals(instants, np.array(classes), np.ones(len(arrivals)))),
        lanes=1,
        horizon_s=until_s,
        reward=paper_reward(scenario),
        generator=np.random.default_rng(0),
    )
    policy.reset(1)
    observation, mask = environment.reset()
    deeds: list[tuple[object, ...]] = []
    while environment.running()[0]:
        action = policy.action_probabilities(observation, mask).argmax(axis=1)
        queue = observation.queue_length[0].copy()
        clock_s = float(observation.clock_s[0])
        deed = _meaning(environment.table, int(action[0]), queue)
        if deed != "wait":
            deeds.append((clock_s, *deed))  # type: ignore[misc]
        environment.step(action)
    return deeds


def _meaning(table: Any, action: int, queue: np.ndarray) -> object:
    if action == WAIT:
        return "wait"
    request_class = int(table.request_class[action])
    if table.batch_size[action] == SHED:
        return ("shed", request_class)
    waiting = queue.sum() if request_class < 0 else queue[request_class]
    return (int(table.replica[action]), request_class, int(min(table.batch_size[action], waiting)))
