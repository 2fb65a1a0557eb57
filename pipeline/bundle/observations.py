"""Observations met in the simulator, on which ONNX and network are compared."""

from typing import NamedTuple

import numpy as np

from simulator.action import sample_actions
from simulator.environment import Environment
from simulator.observation import Encoder
from simulator.policies.base import Policy

_IDLE_EPISODES = 100  # in a row without a decision in any lane


class MetObservations(NamedTuple):
    """What a policy met, in the order of the steps."""

    features: np.ndarray  # [n, F] float32
    action_mask: np.ndarray  # [n, A] bool


def met_observations(
    environment: Environment,
    policy: Policy,
    encoder: Encoder,
    rows: int,
    generator: np.random.Generator,
) -> MetObservations:
    """At least `rows` observations of running lanes; ended lanes start again.

    `generator` draws the actions alone. Raises ValueError where nothing ever arrives.
    """
    policy.reset(environment.lanes)
    observation, action_mask = environment.reset()
    features, masks, found, idle = [], [], 0, 0
    while found < rows:
        running = environment.running()
        # Copies, as any choice by a mask: the environment overwrites its arrays in the next step.
        features.append(encoder.encode(observation)[running])
        masks.append(action_mask[running])
        found += int(running.sum())
        idle = 0 if running.any() else idle + 1
        if idle > _IDLE_EPISODES:
            raise ValueError(
                f"workload: no request arrives in {_IDLE_EPISODES} episodes, nothing to observe"
            )
        probabilities = policy.action_probabilities(observation, action_mask)
        action, _ = sample_actions(probabilities, generator)
        step = environment.step(action)
        observation, action_mask = step.observation, step.action_mask
        ended = step.terminated | step.truncated
        if ended.any():
            observation, action_mask = environment.reset(ended)
    return MetObservations(np.concatenate(features), np.concatenate(masks))
