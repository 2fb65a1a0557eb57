"""Exactly one batch size, and never a tail. To the lowest-numbered replica that can take it."""

import numpy as np

from simulator.checks import check
from simulator.observation import Observation
from simulator.policies.axes import TUNED_SIZE, batch_size_choice, clipped
from simulator.policies.batch.ready import ReadyQueues
from simulator.policies.choose import checked_batch_size
from simulator.policies.rule import Rule
from simulator.policies.space import Choice, Space
from simulator.scenario import ClassChoice, MixedBatches, Scenario


class StaticFill(Rule):
    """Sends a class once `batch_size` of it wait, exactly so many: static batching without a timer.

    What is left when the arrivals end waits for ever. Among the classes that are ready, the one
    whose oldest has waited longest goes first. Replicas with a smaller maximum get nothing. The
    size must be on the menu, and small enough that queues of `batch_size - 1` of every class
    leave room in the central queue: else it fills up, and nothing moves again.
    """

    name = "static_fill"

    def __init__(self, scenario: Scenario, batch_size: int = 8) -> None:
        size = checked_batch_size("batch_size", batch_size, scenario)
        able = _sizes(scenario)
        rule = f"must be one of {able}, that the replicas serve and the queue has room for"
        check(size in able, "batch_size", size, rule)
        self._size = size
        self._queues = ReadyQueues(scenario)
        parameters = scenario.parameters()
        self._able = parameters.max_batch_size >= size  # [K]
        self._serves = parameters.serves

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """The batch sizes of the menu that it can have."""
        able = _sizes(scenario)
        thinned = tuple(size for size in batch_size_choice(scenario).values if size in able)
        sizes = Choice(thinned or tuple(able[-1:]))
        return Space({"batch_size": sizes}, {"batch_size": int(clipped(sizes, TUNED_SIZE))})

    @classmethod
    def misfit(cls, scenario: Scenario) -> str | None:
        """Queues that may fill up with requests that never make a batch."""
        if not _sizes(scenario):
            return "no size of the menu is sure to be reached by a class before the queue is full"
        return None

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        takes = (observation.can_take > 0) & self._able
        ready = (self._queues.waiting(observation) >= self._size) & (takes @ self._serves)
        seen = observation._replace(can_take=takes)
        return self._queues.rows(seen, action_mask, np.where(ready, self._size, 0))


def _sizes(scenario: Scenario) -> list[int]:
    """The sizes of the menu that every class can be sent in, without filling the queue first."""
    parameters = scenario.parameters()
    largest = np.where(parameters.serves, parameters.max_batch_size[:, None], 0).max(axis=0).min()
    classes = len(scenario.request_classes)
    if scenario.mixed != MixedBatches.NEVER:
        classes = 1
    elif classes > 1 and scenario.class_choice == ClassChoice.HEAD_OF_LINE:
        largest = 1  # others may fill the queue behind a head that waits for company
    return [
        size
        for size in scenario.batch_sizes
        if size <= largest and classes * (size - 1) < scenario.queue_capacity
    ]
