"""A full batch or a batch timeout. To the lowest-numbered replica that can take it."""

import numpy as np

from simulator.action import WAIT
from simulator.observation import Observation
from simulator.policies.axes import clipped, size_and_default, timeout_choice
from simulator.policies.choose import (
    BatchActions,
    checked_batch_size,
    checked_seconds,
    head_of_line,
    one_hot,
    to_least,
)
from simulator.policies.rule import Rule
from simulator.policies.space import Space
from simulator.scenario import ClassChoice, Scenario


class BatchTimeout(Rule):
    """Sends a class once `max_batch_size` of it wait, or its oldest has waited `batch_timeout_s`.

    Among the classes that are ready, the one whose oldest has waited longest goes first (ties: the
    lower number). With `class_choice: head_of_line` only the class at the head can go, so it alone
    is looked at. A class that no replica can take now holds up no other class. The timer of Triton,
    TensorFlow Serving and TorchServe without their extras.
    """

    name = "batch_timeout"

    def __init__(self, scenario: Scenario, max_batch_size: int, batch_timeout_s: float) -> None:
        self._size = checked_batch_size("max_batch_size", max_batch_size, scenario)
        self._timeout_s = checked_seconds("batch_timeout_s", batch_timeout_s)
        self._any_class = scenario.class_choice == ClassChoice.ANY
        self._batches = BatchActions(scenario, [self._size] * len(scenario.request_classes))
        self._number = np.arange(len(scenario.replicas))

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """Batch sizes, and timeouts as shares of the tightest SLO; the paper's 32 and 10 ms."""
        sizes, size = size_and_default(scenario, 32)
        timeouts_s = timeout_choice(scenario)
        return Space(
            {"max_batch_size": sizes, "batch_timeout_s": timeouts_s},
            {"max_batch_size": size, "batch_timeout_s": clipped(timeouts_s, 0.01)},
        )

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        waiting, wait_s = self._batches.waiting(observation), observation.oldest_wait_s
        ready = (waiting >= self._size) | ((waiting > 0) & (wait_s >= self._timeout_s))
        if self._any_class:
            request_class = np.where(ready, wait_s, -1.0).argmax(axis=1)
        else:
            request_class = head_of_line(observation)
        action, _ = self._batches.send(observation, request_class)
        action = to_least(action, self._number, observation.can_take)
        due = ready[np.arange(len(action)), request_class]
        return one_hot(np.where(due, action, WAIT), action_mask)
