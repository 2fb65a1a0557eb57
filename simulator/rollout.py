"""Running one policy through the episodes of an environment."""

from typing import NamedTuple

import numpy as np

from simulator.action import actions_at
from simulator.environment import Environment
from simulator.policies.base import Policy


class Rollout(NamedTuple):
    """One episode in each of B lanes."""

    reward_terms: np.ndarray  # [B, T] sums over the episode
    return_: np.ndarray  # [B] undiscounted sum of rewards
    duration_s: np.ndarray  # [B] s simulated
    decisions: np.ndarray  # [B]


def run_episodes(
    environment: Environment, policy: Policy, generator: np.random.Generator
) -> Rollout:
    """Every lane runs one episode under the policy; `generator` draws the actions only.

    Environments built from equal seeds give every policy the same arrivals and noise, so that the
    results of two policies are paired lane by lane.
    """
    environment.reset()
    return run_begun_episodes(environment, policy, generator)


def run_begun_episodes(
    environment: Environment, policy: Policy, generator: np.random.Generator, shares: int = 1
) -> Rollout:
    """As `run_episodes`, from the decisions that are due now, in episodes just begun or going on.

    The lanes are `shares` equal groups, one after the other, with the same draws in each.
    """
    lanes = environment.lanes
    policy.reset(lanes)
    observation, action_mask = environment.decision()
    reward_terms = np.zeros((lanes, len(environment.reward.weights)))
    decisions = np.zeros(lanes, np.int64)
    running = environment.running()
    while running.any():
        probabilities = policy.action_probabilities(observation, action_mask)
        luck = np.tile(generator.random(lanes // shares), shares)
        step = environment.step(actions_at(probabilities, luck))
        reward_terms += step.reward_terms
        decisions += running
        running = ~(step.terminated | step.truncated)
    return Rollout(
        reward_terms,
        environment.reward.value(reward_terms),
        environment.state.clock_s.copy(),
        decisions,
    )
