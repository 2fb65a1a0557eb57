"""What the rules share that let some replicas serve some request classes only."""

import numpy as np

from simulator.action import WAIT
from simulator.observation import Observation
from simulator.policies.axes import TUNED_SIZE, size_and_default, sizes_space
from simulator.policies.choose import BatchActions, batch_latency_s, one_hot
from simulator.policies.space import Space
from simulator.scenario import ClassChoice, Scenario


def needs_named_classes(scenario: Scenario) -> str | None:
    """Why a rule that chooses the request class cannot; None where it can."""
    if scenario.class_choice == ClassChoice.HEAD_OF_LINE:
        return "chooses the request class, and class_choice is head_of_line, not any"
    return None


def needs_several(scenario: Scenario) -> str | None:
    """Why replicas cannot be set apart for classes; None where they can."""
    reason = needs_named_classes(scenario)
    if reason is not None:
        return reason
    if len(scenario.replicas) < 2 or len(scenario.request_classes) < 2:
        return "sets replicas apart for classes: needs at least two of both"
    return None


def class_sizes(scenario: Scenario) -> Space:
    """A batch size for each class."""
    return sizes_space("batch_size", scenario, *size_and_default(scenario, TUNED_SIZE))


def c_mu_rank(scenario: Scenario) -> np.ndarray:
    """The place `[C]` of each class in ascending order of c * mu; equal products, equal places.

    c is the weight of the class, mu = 1 / L(1) its service rate one by one on the fastest replica
    that serves it.
    """
    weight = np.array([request_class.weight for request_class in scenario.request_classes])
    c_mu = weight / batch_latency_s(scenario)[:, :, 1].min(axis=0)
    return np.unique(c_mu, return_inverse=True)[1].astype(float)


def send_by_class(
    batches: BatchActions,
    observation: Observation,
    action_mask: np.ndarray,
    allowed: np.ndarray,
    rank: np.ndarray,
) -> np.ndarray:
    """One-hot rows `[B, A]`: the waiting class of the highest `rank [C]` to where it may go.

    A class may go to replicas `allowed [K, C]`; one that none of them can take now holds up no
    other. Equal ranks: the class whose oldest has waited longest, then the lower number. To the
    replica that would finish first; ties go to the highest number.
    """
    takes = observation.can_take > 0
    able = (observation.queue_length > 0) & (takes @ allowed)
    place = np.where(able, rank, -1.0)
    first = place == place.max(axis=1, keepdims=True)
    request_class = np.where(first, observation.oldest_wait_s, -1.0).argmax(axis=1)
    action, expected_s = batches.send(observation, request_class)
    takes &= allowed.T[request_class] & (action != WAIT)
    cost_s = np.where(takes, expected_s, np.inf)
    replica = cost_s.shape[1] - 1 - cost_s[:, ::-1].argmin(axis=1)
    lane = np.arange(len(replica))
    return one_hot(np.where(takes[lane, replica], action[lane, replica], WAIT), action_mask)
