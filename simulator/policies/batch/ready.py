"""What batchers of serving frameworks share: a queue for each class, and which one goes next."""

import numpy as np

from simulator.action import WAIT
from simulator.observation import Observation
from simulator.policies.axes import usable_sizes
from simulator.policies.choose import (
    BatchActions,
    head_of_line,
    one_hot,
    to_least,
)
from simulator.scenario import ClassChoice, Scenario

SAME_INSTANT_S = 1e-9  # instants that differ by less differ by rounding only


class ReadyQueues:
    """Sends a ready class to the lowest-numbered replica that can take it.

    Among several that are ready, the one that comes first in a given order, else the one whose
    oldest has waited longest (ties: the lower number). With `class_choice: head_of_line` only the
    class at the head can go. `most` is the largest size of the menu that a replica can take.
    """

    def __init__(self, scenario: Scenario) -> None:
        sizes = usable_sizes(scenario)
        self.most = sizes[-1]
        self.any_class = scenario.class_choice == ClassChoice.ANY
        self.batches = BatchActions(scenario, [self.most] * len(scenario.request_classes))
        self._number = np.arange(len(scenario.replicas))
        wanted = np.arange(self.most + 1)
        above = np.searchsorted(sizes, wanted, side="right")
        self._at_most = np.array(sizes)[np.maximum(above - 1, 0)]  # [most + 1]

    def waiting(self, observation: Observation) -> np.ndarray:
        """Requests `[B, C]` that a batch of the class could hold, as whole numbers."""
        return self.batches.waiting(observation).astype(np.int64, copy=False)

    def rows(
        self,
        observation: Observation,
        action_mask: np.ndarray,
        take: np.ndarray,
        order: np.ndarray | None = None,
        shed: np.ndarray | None = None,
    ) -> np.ndarray:
        """One-hot rows `[B, A]` that send `take [B, C]` requests of a class, 0 where not ready.

        Those that wait, all together, are sent by any size that covers them. Of more, the menu may
        have no such size: then the largest below, or its smallest. The highest `order [B, C]`, at
        least 0, goes first. Where `shed [B, C]` holds, the oldest of the class is given up before
        anything is sent.
        """
        order = observation.oldest_wait_s if order is None else order
        request_class = self.first(observation, take > 0, order)
        lane = np.arange(len(take))
        waiting = self.waiting(observation)[lane, request_class]
        taken = take[lane, request_class]
        fits = self._at_most[np.minimum(taken, self.most)]
        count = np.where(taken < waiting, fits, np.minimum(waiting, self.most))
        by_replica = self.batches.action[request_class, count]
        action = to_least(by_replica, self._number, observation.can_take)
        action = np.where(taken > 0, action, WAIT)
        if shed is not None and self.batches.shed is not None:
            request_class = self.first(observation, shed, observation.oldest_wait_s)
            gives_up = shed[lane, request_class]
            action = np.where(gives_up, self.batches.shed[request_class], action)
        return one_hot(action, action_mask)

    def first(self, observation: Observation, ready: np.ndarray, order: np.ndarray) -> np.ndarray:
        """The class `[B]` that goes first of those that are `ready [B, C]`."""
        if not self.any_class:
            return head_of_line(observation)
        first: np.ndarray = np.where(ready, order, -1.0).argmax(axis=1)
        return first


def seen_queues(lanes: int, classes: int) -> dict[str, np.ndarray]:
    """The memory that `left_queue` needs, `[lanes, classes]` each; nothing has waited yet."""
    return {name: np.zeros((lanes, classes)) for name in ("seen_queue", "seen_oldest_s")}


def left_queue(memory: dict[str, np.ndarray], observation: Observation) -> np.ndarray:
    """True `[B, C]` for the classes whose oldest request has left since the last decision.

    Sent or given up, by whomever: fewer wait, or the oldest is one that arrived later. Arrivals
    that a full queue sheds change neither, so the count of arrivals would say less.
    """
    queue = observation.queue_length
    oldest_s = observation.clock_s[:, None] - observation.oldest_wait_s
    later = oldest_s > memory["seen_oldest_s"] + SAME_INSTANT_S
    left: np.ndarray = (memory["seen_queue"] > 0) & (later | (queue < memory["seen_queue"]))
    memory["seen_queue"][:] = queue
    memory["seen_oldest_s"][:] = oldest_s
    return left


def completed_batches(
    batches: np.ndarray, observation: Observation
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Each replica's last batch, where it completed one since the last decision.

    Lanes, classes, sizes and batch latencies in s, all `[n]`, one entry for each replica. Where
    several completed on one replica, the last stands for them. `batches [B, K]` is the count of
    the last decision; it is brought up to date.
    """
    new = (observation.batches != batches) & (observation.last_batch_class >= 0)
    batches[:] = observation.batches
    found = []
    for replica in np.flatnonzero(new.any(axis=0)):
        lane = np.flatnonzero(new[:, replica])
        request_class = observation.last_batch_class[lane, replica].astype(np.int64, copy=False)
        size = observation.last_batch_size[lane, replica].astype(np.int64, copy=False)
        found.append((lane, request_class, size, observation.last_batch_s[lane, replica]))
    return found
