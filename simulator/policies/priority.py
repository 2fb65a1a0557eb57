"""Rules about which request class goes first."""

from collections.abc import Mapping

import numpy as np

from simulator.observation import Observation
from simulator.policies.choose import BatchActions, Rule, checked_batch_size, one_hot, to_least
from simulator.scenario import ClassChoice, Scenario


class CMu(Rule):
    """The waiting class with the largest c * mu first, to the replica that would finish it first.

    c is the weight of the class and mu = 1 / (alpha + beta) its service rate one by one on the
    fastest replica that serves it. Equal products: the class whose oldest has waited longest, then
    the lower number. A class that no replica can take now holds up no other class. `batch_size`
    limits each class, by name, or all by one number: a costly class with small batches does not
    keep the others out for long. Least weighted waiting in M/G/1 without preemption (Cox and Smith,
    Queues, 1961); with batches and several replicas a heuristic.
    """

    name = "c_mu"

    def __init__(self, scenario: Scenario, batch_size: int | Mapping[str, int]) -> None:
        if scenario.class_choice == ClassChoice.HEAD_OF_LINE:
            raise ValueError(
                "class_choice = 'head_of_line': c_mu chooses the request class, "
                "which these actions cannot do; use class_choice 'any'"
            )
        self._batches = BatchActions(scenario, _sizes_by_class(scenario, batch_size))
        parameters = scenario.parameters()
        weight = np.array([request_class.weight for request_class in scenario.request_classes])
        alone_s = np.where(parameters.serves, parameters.alpha_s + parameters.beta_s, np.inf)
        c_mu = weight / alone_s.min(axis=0)
        self._rank = np.unique(c_mu, return_inverse=True)[1].astype(float)  # equal: equal rank

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        rank = np.where(self._batches.waiting(observation) > 0, self._rank, -1.0)
        first = rank == rank.max(axis=1, keepdims=True)
        request_class = np.where(first, observation.oldest_wait_s, -1.0).argmax(axis=1)
        action, expected_s = self._batches.send(observation, request_class)
        return one_hot(to_least(action, expected_s, observation.can_take), action_mask)


def _sizes_by_class(scenario: Scenario, batch_size: int | Mapping[str, int]) -> list[int]:
    names = scenario.class_names
    if not isinstance(batch_size, Mapping):
        return [checked_batch_size("batch_size", batch_size, scenario)] * len(names)
    if set(batch_size) != set(names):
        raise ValueError(
            f"batch_size = {dict(batch_size)!r}: needs one size for each of {list(names)}"
        )
    return [checked_batch_size(f"batch_size.{name}", batch_size[name], scenario) for name in names]
