"""Rules about when to send and how many. The replica is the lowest-numbered that can take it."""

import math

import numpy as np

from simulator.action import WAIT
from simulator.observation import Observation
from simulator.policies.choose import (
    BatchActions,
    Rule,
    checked_batch_size,
    head_of_line,
    one_hot,
    to_least,
)
from simulator.scenario import ClassChoice, Scenario


class StaticCap(Rule):
    """Sends min(n, batch_size) of the class at the head of the line, as soon as it can.

    The paper's static baseline, read as a limit, not as a size to fill up to (D5).
    """

    name = "static_cap"

    def __init__(self, scenario: Scenario, batch_size: int) -> None:
        size = checked_batch_size("batch_size", batch_size, scenario)
        self._batches = BatchActions(scenario, [size] * len(scenario.request_classes))
        self._number = np.arange(len(scenario.replicas))

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        action, _ = self._batches.send(observation, head_of_line(observation))
        return one_hot(to_least(action, self._number, observation.can_take), action_mask)


class BatchTimeout(Rule):
    """Sends a class once `max_batch_size` of it wait, or its oldest has waited `batch_timeout_s`.

    Among the classes that are ready, the one whose oldest has waited longest goes first (ties: the
    lower number). With `class_choice: head_of_line` only the class at the head can go, so it alone
    is looked at. A class that no replica can take now holds up no other class. The timer of Triton,
    TensorFlow Serving and TorchServe without their extras.
    """

    name = "batch_timeout"

    def __init__(self, scenario: Scenario, max_batch_size: int, batch_timeout_s: float) -> None:
        is_number = isinstance(batch_timeout_s, int | float)
        if not (is_number and 0 <= batch_timeout_s < math.inf):
            raise ValueError(
                f"batch_timeout_s = {batch_timeout_s!r}: must be a finite number, at least 0"
            )
        self._size = checked_batch_size("max_batch_size", max_batch_size, scenario)
        self._timeout_s = float(batch_timeout_s)
        self._any_class = scenario.class_choice == ClassChoice.ANY
        self._batches = BatchActions(scenario, [self._size] * len(scenario.request_classes))
        self._number = np.arange(len(scenario.replicas))

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
