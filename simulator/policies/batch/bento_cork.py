"""BentoML's CORK dispatcher: hold a batch while one more request costs less than it saves."""

from collections.abc import Mapping

import numpy as np

from simulator.checks import check_whole, checked_number
from simulator.observation import Observation
from simulator.policies.axes import limit_choice, size_and_default
from simulator.policies.batch.bento_optimizer import Optimizer, outcomes
from simulator.policies.batch.ready import ReadyQueues
from simulator.policies.choose import checked_batch_size, checked_seconds, seconds_by_class
from simulator.policies.rule import StatefulRule
from simulator.policies.space import Real, Space
from simulator.scenario import MixedBatches, Scenario

# By batches completed of a class, while it warms up: the size of the next one, how long a pair or
# a triple may take, in single batches, and how many may wait before the late are given up.
WARM_UP_SIZE = np.array([1, 1, 1, 2, 3])
WARM_UP_SINGLES = np.array([0, 0, 0, 5, 7])
WARM_UP_QUEUE = np.array([8, 7, 6, 5, 3])
LATENCY_SHARES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 2.0, 5.0)  # of the SLO


class BentoCork(StatefulRule):
    """Holds while n * (wn + tick + slope) <= `decay` * W and n < `max_batch_size`, else sends.

    n wait, wn and w0 are the ages of the newest and the oldest, W the mean age of the oldest at
    the release of the last 50 batches, and a batch is expected to take slope * n + offset: least
    squares over the last 50 that completed. Before anything, where n > 1 and
    w0 + slope * n + offset >= `max_latency_s` (for all classes, or by class name), the oldest is
    cancelled, one after the other (only where the scenario may shed). The first two batches are not
    learned from; with the third they hold one request each, then a pair and a triple are waited for
    for 5 and 7 times what one takes.

    The tick of 1 ms is the scenario's `tick_s`. wn is read off `oldest_waits_s` where the view
    covers the queue; else it is the time since a decision first saw the latest arrival of the
    class, at most w0: too short where it arrived while all replicas were busy.

    Source: BentoML, _internal/marshal/dispatcher.py. No place for: its batches take the newest
    first (`deque.pop`) while our queues are FIFO, cancelling a lone late request while all is busy,
    and a dispatcher for each process.
    """

    name = "bento_cork"

    def __init__(
        self,
        scenario: Scenario,
        max_batch_size: int = 100,
        max_latency_s: float | Mapping[str, float] = 60.0,
        decay: float = 0.95,
        refit_s: float = 5.0,
    ) -> None:
        check_whole("max_batch_size", max_batch_size, 1)
        self._size = checked_batch_size("max_batch_size", max_batch_size, scenario)
        self._most_s = seconds_by_class("max_latency_s", max_latency_s, scenario, above=True)
        self._decay = checked_number("decay", decay, high=1.0, above=True)
        self._tick_s = scenario.tick_s
        self._queues = ReadyQueues(scenario)
        shape = (len(scenario.replicas), len(scenario.request_classes))
        refit_s = checked_seconds("refit_s", refit_s)
        self._optimizer = Optimizer(*shape, self._most_s, refit_s)
        self._class = np.arange(shape[1])
        self._mixed = scenario.mixed != MixedBatches.NEVER
        # A pair or a triple is waited for only where batches of that size may be sent.
        self._warm_up = 3 + min(self._size - 1, 2)

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """Batch sizes, latencies from a fraction to a few times each SLO, and decays."""
        sizes, size = size_and_default(scenario, 100)
        latency_s = limit_choice(scenario, LATENCY_SHARES)
        return Space(
            {"max_batch_size": sizes, "max_latency_s": latency_s, "decay": Real(0.2, 1.0)},
            {
                "max_batch_size": size,
                "max_latency_s": latency_s.values[-1],
                "decay": 0.95,
            },
        )

    def fresh(self, lanes: int) -> dict[str, np.ndarray]:
        """What the optimizer has seen, and the latest arrival of each class `[lanes, C]`."""
        optimizer = self._optimizer.fresh(lanes)
        shape = optimizer["slope"].shape
        return {**optimizer, "arrived": np.zeros(shape), "newest_s": np.zeros(shape)}

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        memory = self.recall(observation)
        self._optimizer.learn(memory, outcomes(memory, observation), observation.clock_s)
        slope, offset = memory["slope"], memory["offset"]
        waiting, w0_s = self._queues.waiting(observation), observation.oldest_wait_s
        wn_s = self._newest_wait_s(memory, observation)
        gain_s = waiting * (wn_s + self._tick_s + slope)
        hold = (waiting < self._size) & (gain_s <= self._decay * memory["wait_s"])
        late = (waiting > 1) & (w0_s + slope * waiting + offset >= self._most_s)
        size = np.full_like(waiting, self._size)
        stage = np.minimum(memory["completed"], len(WARM_UP_SIZE) - 1)
        warming = memory["completed"] < self._warm_up
        if warming.any():
            wanted = WARM_UP_SIZE[stage]
            patience_s = np.minimum(0.95 * self._most_s, WARM_UP_SINGLES[stage] * (slope + offset))
            patient = (waiting < wanted) & (wanted * slope + offset + w0_s <= patience_s)
            hold = np.where(warming, patient, hold)
            overdue = (waiting > WARM_UP_QUEUE[stage]) & (w0_s >= self._most_s)
            late = np.where(warming, overdue, late)
            size = np.where(warming, wanted, size)
        take = np.where(hold, 0, np.minimum(waiting, size))
        return self._queues.rows(observation, action_mask, take, shed=late)

    def _newest_wait_s(self, memory: dict[str, np.ndarray], observation: Observation) -> np.ndarray:
        """The age `[B, C]` s of the newest request that waits."""
        clock_s, arrived = observation.clock_s[:, None], observation.arrived
        memory["newest_s"][:] = np.where(arrived != memory["arrived"], clock_s, memory["newest_s"])
        memory["arrived"][:] = arrived
        newest_s = np.minimum(clock_s - memory["newest_s"], observation.oldest_wait_s)
        waits_s, queue = observation.oldest_waits_s, observation.queue_length
        covered = waits_s.shape[2]
        if covered > 0:
            last = np.minimum(np.maximum(queue, 1), covered).astype(np.int64) - 1
            exact = waits_s[np.arange(len(last))[:, None], self._class, last]
            newest_s = np.where(queue <= covered, exact, newest_s)
        if self._mixed:
            newest_s = np.where(queue > 0, newest_s, np.inf).min(axis=1, keepdims=True)
            newest_s = np.where(queue > 0, newest_s, 0.0)
        return newest_s
