"""TorchServe's workers: the first idle one gathers a batch, the others wait for the lock."""

from collections.abc import Mapping

import numpy as np

from simulator.checks import check
from simulator.observation import Observation
from simulator.policies.axes import clipped, expiry_choice, size_and_default, sizes_space, slo_range
from simulator.policies.batch.ready import SAME_INSTANT_S, ReadyQueues, left_queue, seen_queues
from simulator.policies.choose import checked_seconds, seconds_by_class, sizes_by_class
from simulator.policies.rule import StatefulRule
from simulator.policies.space import Axis, Space
from simulator.scenario import Scenario

NONE = -1


class TorchServe(StatefulRule):
    """An idle worker takes the first job of a class, then gathers more for `max_batch_delay_s`.

    It sends `batch_size` as soon as it has them, else what it has when the delay is over. The delay
    begins when the worker takes job 1: at the first decision at which an idle replica and a waiting
    request meet, not at the arrival. While it gathers, the other workers of that class wait for the
    lock; a full batch passes it on in the same instant. A replica gathers for one class at a time
    and is then kept from the others; an idle one takes the class whose oldest has waited longest.
    Jobs older than `timeout_s`, one for all classes or by class name, are dropped when a worker
    would take them (0: never), not while one gathers. Replicas that serve a class are its workers.

    Source: pytorch/serve, frontend wlm/Model.java (pollBatch). No place for: the delay's whole
    milliseconds, the job queue of each model (ours have one capacity together), and jobs that a
    worker holds while it gathers are still in the queue for whoever else sends them.
    """

    name = "torchserve"

    def __init__(
        self,
        scenario: Scenario,
        batch_size: int | Mapping[str, int] = 1,
        max_batch_delay_s: float = 0.1,
        timeout_s: float | Mapping[str, float] = 0.0,
    ) -> None:
        self._size = np.array(sizes_by_class("batch_size", batch_size, scenario))  # [C]
        self._delay_s = checked_seconds("max_batch_delay_s", max_batch_delay_s)
        limit_s = seconds_by_class("timeout_s", timeout_s, scenario)
        self._timeout_s = np.where(limit_s > 0.0, limit_s, np.inf)  # [C]
        self._expires = bool(np.isfinite(self._timeout_s).any())
        rule = "to drop expired jobs the scenario needs may_shed"
        check(not self._expires or scenario.may_shed, "timeout_s", timeout_s, rule)
        self._queues = ReadyQueues(scenario)
        self._serves = scenario.parameters().serves  # [K, C]
        self._class = np.arange(self._serves.shape[1])

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """Batch sizes, delays, and where it may shed, the SLO as timeout or none."""
        delay_s = slo_range(scenario, 0.001, 1.0)
        sizes = sizes_space("batch_size", scenario, *size_and_default(scenario, 1))
        axes: dict[str, Axis] = {**sizes.axes, "max_batch_delay_s": delay_s}
        default = {**(sizes.default or {}), "max_batch_delay_s": clipped(delay_s, 0.1)}
        if scenario.may_shed:
            axes["timeout_s"] = expiry_choice(scenario)
            default["timeout_s"] = 0.0
        return Space(axes, default)

    def fresh(self, lanes: int) -> dict[str, np.ndarray]:
        """The class that each replica gathers for and since when, both `[lanes, K]`."""
        replicas, classes = self._serves.shape
        return {
            "gathers": np.full((lanes, replicas), NONE),
            "since_s": np.zeros((lanes, replicas)),
            "batches": np.zeros((lanes, replicas)),
            **seen_queues(lanes, classes),
        }

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        memory = self.recall(observation)
        gathers = memory["gathers"]
        self._release(memory, observation)
        wait_s, waits = observation.oldest_wait_s, observation.queue_length > 0
        expired = np.zeros_like(waits)
        if self._expires:
            free = (observation.can_take > 0) & (gathers == NONE)
            expired = waits & (wait_s > self._timeout_s) & (free @ self._serves)
            expired &= ~self._gathered(gathers)
        self._take_first_jobs(memory, observation, waits & ~expired)
        # A class is gathered for by one replica at most, so which replica is a matter of the class.
        over = observation.clock_s[:, None] - memory["since_s"] >= self._delay_s - SAME_INSTANT_S
        waiting = self._queues.waiting(observation)
        ready = self._gathered(gathers) & (waiting >= self._size)
        ready |= self._gathered(np.where(over, gathers, NONE))
        take = np.where(ready, np.minimum(waiting, self._size), 0)
        first = self._queues.first(observation, take > 0, wait_s)
        worker = (gathers == first[:, None]) & (observation.can_take > 0)
        seen = observation._replace(can_take=worker)
        return self._queues.rows(seen, action_mask, take, shed=expired)

    def _gathered(self, gathers: np.ndarray) -> np.ndarray:
        """True `[B, C]` for the classes that a replica gathers for."""
        gathered = np.zeros((len(gathers), len(self._class)), bool)
        for replica in range(gathers.shape[1]):
            gathered |= gathers[:, replica, None] == self._class
        return gathered

    def _release(self, memory: dict[str, np.ndarray], observation: Observation) -> None:
        """Ends the gathering of batches that were sent, and of replicas that were put to work."""
        gathers = memory["gathers"]
        left = left_queue(memory, observation)
        lane = np.arange(len(gathers))[:, None]
        ended = left[lane, gathers] | (observation.can_take <= 0)
        ended |= observation.batches != memory["batches"]
        if not self._queues.any_class:  # a requeued request may have become the head
            ended |= gathers != observation.head_class[:, None]
        gathers[ended] = NONE
        memory["batches"][:] = observation.batches

    def _take_first_jobs(
        self, memory: dict[str, np.ndarray], observation: Observation, waits: np.ndarray
    ) -> None:
        """Idle replicas, the lowest number first, take the lock of a class and its first job."""
        gathers, lane = memory["gathers"], np.arange(len(waits))
        if not self._queues.any_class:
            waits = waits & (self._class == observation.head_class[:, None])
        free = waits & ~self._gathered(gathers)  # classes whose lock nobody holds
        for replica in range(gathers.shape[1]):
            idle = (observation.can_take[:, replica] > 0) & (gathers[:, replica] == NONE)
            able = free & self._serves[replica] & idle[:, None]
            first = np.where(able, observation.oldest_wait_s, -1.0).argmax(axis=1)
            takes = able[lane, first]
            free[takes, first[takes]] = False
            gathers[takes, replica] = first[takes]
            memory["since_s"][takes, replica] = observation.clock_s[takes]
