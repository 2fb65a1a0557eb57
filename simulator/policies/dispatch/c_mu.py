"""The class with the largest c * mu first."""

from collections.abc import Mapping

import numpy as np

from simulator.observation import Observation
from simulator.policies.choose import BatchActions, one_hot, sizes_by_class, to_least
from simulator.policies.dispatch.class_replicas import (
    c_mu_rank,
    class_sizes,
    needs_named_classes,
)
from simulator.policies.rule import Rule
from simulator.policies.space import Space
from simulator.scenario import Scenario


class CMu(Rule):
    """The waiting class with the largest c * mu first, to the replica that would finish it first.

    c is the weight of the class and mu = 1 / L(1) its service rate one by one on the
    fastest replica that serves it. Equal products: the class whose oldest has waited longest, then
    the lower number. A class that no replica can take now holds up no other class. `batch_size`
    limits each class, by name, or all by one number: a costly class with small batches does not
    keep the others out for long. Least weighted waiting in M/G/1 without preemption (Cox and Smith,
    Queues, 1961); with batches and several replicas a heuristic.
    """

    name = "c_mu"

    def __init__(self, scenario: Scenario, batch_size: int | Mapping[str, int]) -> None:
        self._batches = BatchActions(scenario, sizes_by_class("batch_size", batch_size, scenario))
        self._rank = c_mu_rank(scenario)

    @classmethod
    def misfit(cls, scenario: Scenario) -> str | None:
        """It needs actions that name the request class."""
        return needs_named_classes(scenario)

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """A batch size for each class."""
        return class_sizes(scenario)

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        rank = np.where(self._batches.waiting(observation) > 0, self._rank, -1.0)
        first = rank == rank.max(axis=1, keepdims=True)
        request_class = np.where(first, observation.oldest_wait_s, -1.0).argmax(axis=1)
        action, expected_s = self._batches.send(observation, request_class)
        return one_hot(to_least(action, expected_s, observation.can_take), action_mask)
