"""What the rules share that send the class at the head of the line, without waiting.

Where some replicas do not serve that class and the others are busy, it holds up the whole line.
"""

import numpy as np

from simulator.checks import check
from simulator.observation import Observation
from simulator.policies.axes import TUNED_SIZE, size_and_default
from simulator.policies.choose import BatchActions, checked_batch_size, head_of_line
from simulator.policies.rule import Rule
from simulator.policies.space import Space
from simulator.scenario import Scenario


class HeadOfLineRule(Rule):
    """A rule that sends up to `batch_size` of the class at the head of the line.

    With `overtake` a batch holds the oldest of the class, also those that came after a request of
    another class; without it only those that came before. That takes a view of as many waits.
    """

    def __init__(self, scenario: Scenario, batch_size: int, overtake: bool = True) -> None:
        size = checked_batch_size("batch_size", batch_size, scenario)
        self._batches = BatchActions(scenario, [size] * len(scenario.request_classes))
        self.number = np.arange(len(scenario.replicas))
        check(isinstance(overtake, bool), "overtake", overtake, "must be true or false")
        self._overtake = overtake
        if not overtake:
            seen, needed = scenario.view.oldest_requests, self._batches.longest
            rule = f"false needs view.oldest_requests of at least {needed}, which is {seen}"
            check(seen >= needed, "overtake", overtake, rule)
            counts, menu = np.arange(needed + 1), np.array(scenario.batch_sizes)
            place = np.maximum(np.searchsorted(menu, counts, side="right") - 1, 0)
            self._at_most = np.where(counts == 0, 0, menu[place])  # [N + 1] a size of the menu

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """The batch sizes of the menu."""
        sizes, size = size_and_default(scenario, TUNED_SIZE)
        return Space({"batch_size": sizes}, {"batch_size": size})

    def send(self, observation: Observation) -> tuple[np.ndarray, np.ndarray]:
        """The action and when it is expected to be done, in s from now, both `[B, K]`."""
        head = head_of_line(observation)
        if self._overtake:
            return self._batches.send(observation, head)
        lane = np.arange(len(head))
        before = np.where(observation.queue_length > 0, observation.oldest_wait_s, -1.0)
        before[lane, head] = -1.0
        older = observation.oldest_waits_s[lane, head] > before.max(axis=1, keepdims=True)
        run = np.minimum(older.sum(axis=1), self._batches.waiting(observation)[lane, head])
        size = self._at_most[np.minimum(run, self._batches.longest).astype(np.int64)]
        return self._batches.batch_of(observation, head, size)
