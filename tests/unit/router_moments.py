"""Routers asked in one lane: what they answer in a moment that a test has made up."""

import numpy as np

from simulator.observation import Observation
from simulator.policies import Policy, build_policy
from simulator.scenario import Scenario


def ask(policy: Policy, observation: Observation, allowed: list[int] | None = None) -> list[float]:
    """The probabilities of the replicas."""
    mask = np.ones(observation.in_flight.shape, bool)
    if allowed is not None:
        mask &= np.isin(np.arange(mask.shape[1]), allowed)
    row = policy.action_probabilities(observation, mask)[0]
    assert row.sum() == 1.0
    return row.tolist()


def fresh_router(name: str, scenario: Scenario, parameters: dict) -> Policy:
    """The rule in its first decision."""
    policy = build_policy(name, scenario, parameters)
    policy.reset(1)
    return policy
