"""TensorFlow Serving's batch scheduler: a full batch or a timeout, queues in turn, few threads."""

from collections.abc import Mapping

import numpy as np

from simulator.checks import check_whole
from simulator.observation import Observation
from simulator.policies.axes import size_and_default, sizes_space, timeout_choice
from simulator.policies.batch.ready import ReadyQueues, left_queue, seen_queues
from simulator.policies.choose import checked_seconds, sizes_by_class
from simulator.policies.rule import StatefulRule
from simulator.policies.space import Space
from simulator.scenario import Scenario


class Tfs(StatefulRule):
    """Sends a class once `max_batch_size` of it wait, or its oldest has waited `batch_timeout_s`.

    The batch size is one number for all classes, or one by class name, as each model has its own.
    Only while fewer replicas are at work than there are batch threads: a thread is held from the
    dispatch of its batch to its completion, as the view shows it. `num_batch_threads` is the number
    of replicas unless given. Of the queues that are ready, the next after the one served last, in a
    circle; which that was is read off the queues, so what someone else sent counts as a turn.

    Source: tensorflow batching_util/{basic,shared}_batch_scheduler.h. Two of its settings are the
    scenario's: padding to `allowed_batch_sizes` is a replica's `padded_batch_sizes`, and
    `max_enqueued_batches` is the queue capacity (its own is a limit for each queue). No place for:
    large requests that are split over batches.
    """

    name = "tfs"

    def __init__(
        self,
        scenario: Scenario,
        max_batch_size: int | Mapping[str, int],
        batch_timeout_s: float = 0.0,
        num_batch_threads: int | None = None,
    ) -> None:
        self._size = np.array(sizes_by_class("max_batch_size", max_batch_size, scenario))  # [C]
        self._timeout_s = checked_seconds("batch_timeout_s", batch_timeout_s)
        if num_batch_threads is None:
            num_batch_threads = len(scenario.replicas)
        check_whole("num_batch_threads", num_batch_threads, 1)
        self._threads = num_batch_threads
        self._queues = ReadyQueues(scenario)
        self._number = np.arange(len(scenario.request_classes))

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """Batch sizes and timeouts: fewer threads than replicas would only keep some idle."""
        sizes = sizes_space("max_batch_size", scenario, *size_and_default(scenario, 1000))
        return Space(
            {**sizes.axes, "batch_timeout_s": timeout_choice(scenario)},
            {**(sizes.default or {}), "batch_timeout_s": 0.0},
        )

    def fresh(self, lanes: int) -> dict[str, np.ndarray]:
        """The class served last `[lanes]`, -1 before the first, and the queues as last seen."""
        served = np.full(lanes, -1)
        return {"served": served, **seen_queues(lanes, len(self._number))}

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        memory = self.recall(observation)
        left = left_queue(memory, observation)
        served = np.where(left.any(axis=1), left.argmax(axis=1), memory["served"])
        memory["served"][:] = served
        waiting = self._queues.waiting(observation)
        late = observation.oldest_wait_s >= self._timeout_s
        ready = (waiting > 0) & ((waiting >= self._size) | late)
        ready &= ((observation.in_flight > 0).sum(axis=1) < self._threads)[:, None]
        take = np.where(ready, np.minimum(waiting, self._size), 0)
        turns_away = (self._number - served[:, None] - 1) % len(self._number)
        return self._queues.rows(
            observation, action_mask, take, order=len(self._number) - turns_away
        )
