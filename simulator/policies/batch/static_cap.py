"""Whatever waits, up to a batch size, at once. To the lowest-numbered replica that can take it."""

import numpy as np

from simulator.observation import Observation
from simulator.policies.axes import TUNED_SIZE, size_and_default
from simulator.policies.choose import (
    BatchActions,
    checked_batch_size,
    head_of_line,
    one_hot,
    to_least,
)
from simulator.policies.rule import Rule
from simulator.policies.space import Space
from simulator.scenario import Scenario


class StaticCap(Rule):
    """Sends min(n, batch_size) of the class at the head of the line, as soon as it can.

    The paper's static baseline, read as a limit, not as a size to fill up to (D5).
    """

    name = "static_cap"

    def __init__(self, scenario: Scenario, batch_size: int) -> None:
        size = checked_batch_size("batch_size", batch_size, scenario)
        self._batches = BatchActions(scenario, [size] * len(scenario.request_classes))
        self._number = np.arange(len(scenario.replicas))

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """The batch sizes of the menu."""
        sizes, size = size_and_default(scenario, TUNED_SIZE)
        return Space({"batch_size": sizes}, {"batch_size": size})

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        action, _ = self._batches.send(observation, head_of_line(observation))
        return one_hot(to_least(action, self._number, observation.can_take), action_mask)
