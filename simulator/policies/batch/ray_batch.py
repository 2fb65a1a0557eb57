"""Ray Serve's `@serve.batch`: a batch closes in its own time and does not grow afterwards."""

from collections.abc import Mapping

import numpy as np

from simulator.checks import check, check_whole
from simulator.observation import Observation
from simulator.policies.axes import batch_size_choice, clipped, sizes_space, slo_range
from simulator.policies.batch.ready import ReadyQueues
from simulator.policies.choose import checked_batch_size, checked_seconds, sizes_by_class
from simulator.policies.rule import Rule
from simulator.policies.space import Choice, Space
from simulator.scenario import MixedBatches, Scenario


class RayBatch(Rule):
    """A batch holds what arrived within the timeout of its first request, and closes by itself.

    The first that waits opened it when it arrived. It closes once it is full, or
    `batch_wait_timeout_s` later, even while every replica is busy; closed, it waits for a replica
    and does not grow. So under overload many small batches pile up where Triton would send full
    ones. Full is `max_batch_size`, or `max_ongoing_requests` where that is less: a replica is given
    no more requests at a time, so its batches never see more. `max_batch_size` is one for all
    classes or one by class name, as each deployment has its own.

    Source: ray 2.60, serve/batching.py and constants.py. Where the menu has not the size of a
    closed batch, the largest below is sent and the rest count as a new batch, opened by its first.
    No place for: a batcher in each replica behind its router (here one for each class serves them
    all), `max_concurrent_batches` above 1, a size function, and the time it takes to route. Reads
    how long each of the first requests has waited, so `view.oldest_requests` must cover a batch.
    """

    name = "ray_batch"

    def __init__(
        self,
        scenario: Scenario,
        max_batch_size: int | Mapping[str, int] = 10,
        batch_wait_timeout_s: float = 0.01,
        max_ongoing_requests: int = 5,
    ) -> None:
        sizes = sizes_by_class("max_batch_size", max_batch_size, scenario)
        self._timeout_s = checked_seconds("batch_wait_timeout_s", batch_wait_timeout_s)
        check_whole("max_ongoing_requests", max_ongoing_requests, 1)
        most = checked_batch_size("max_ongoing_requests", max_ongoing_requests, scenario)
        self._queues = ReadyQueues(scenario)
        self._size = np.minimum(sizes, min(most, self._queues.most))  # [C]
        self._longest = int(self._size.max())
        seen = scenario.view.oldest_requests
        rule = f"view.oldest_requests must cover a batch, and it is {seen}"
        check(self._longest <= seen, "max_batch_size", self._longest, rule)
        self._mixed = scenario.mixed != MixedBatches.NEVER

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """Batch sizes that the view covers, and timeouts. First 5, to which the defaults amount.

        Ongoing requests limit the size and nothing else here, so they are raised out of its way.
        """
        seen = scenario.view.oldest_requests
        sizes = tuple(size for size in batch_size_choice(scenario).values if size <= seen)
        timeout_s = slo_range(scenario, 0.001, 0.5)
        limits = sizes_space(
            "max_batch_size", scenario, Choice(sizes), int(clipped(Choice(sizes), 5))
        )
        return Space(
            {
                **limits.axes,
                "batch_wait_timeout_s": timeout_s,
                "max_ongoing_requests": Choice(sizes[-1:]),
            },
            {
                **(limits.default or {}),
                "batch_wait_timeout_s": clipped(timeout_s, 0.01),
                "max_ongoing_requests": sizes[-1],
            },
        )

    @classmethod
    def misfit(cls, scenario: Scenario) -> str | None:
        """It must see when each request of a batch arrived."""
        seen, smallest = scenario.view.oldest_requests, scenario.batch_sizes[0]
        if seen < smallest:
            return (
                "reads how long each request of a batch has waited, and view.oldest_requests "
                f"is {seen}, not at least {smallest}"
            )
        return None

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        waiting = self._queues.waiting(observation)
        waits_s = self._waits_s(observation)
        oldest_s = waits_s[:, :, 0]
        queued = np.arange(self._longest) < np.minimum(waiting, self._size)[:, :, None]
        within = oldest_s[:, :, None] - waits_s <= self._timeout_s
        members = (queued & within).sum(axis=2)
        closed = (members >= self._size) | (oldest_s >= self._timeout_s)
        return self._queues.rows(observation, action_mask, np.where(closed, members, 0))

    def _waits_s(self, observation: Observation) -> np.ndarray:
        """Waits `[B, C, n]` s of the first requests; of all classes where batches mix them."""
        waits_s = observation.oldest_waits_s
        if self._mixed:
            lanes, classes, _ = waits_s.shape
            merged = -np.sort(-waits_s.reshape(lanes, 1, -1), axis=2)
            waits_s = np.broadcast_to(merged, (lanes, classes, merged.shape[2]))
        return waits_s[:, :, : self._longest]
