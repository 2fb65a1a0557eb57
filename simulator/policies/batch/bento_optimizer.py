"""What BentoML's CORK dispatcher learns: how long a batch takes, and how long it was held."""

import numpy as np

from simulator.observation import Observation
from simulator.policies.batch.ready import (
    SAME_INSTANT_S,
    completed_batches,
    left_queue,
    seen_queues,
)

KEPT = 50  # batches that are looked back on
SKIPPED = 2  # first batches that are not
WARM_UP = range(3, 6)  # batches completed after which it refits, whenever that is
FIRST_WAIT_S = 0.01

Batches = list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]


class Optimizer:
    """Duration = slope * n + offset and the mean wait W, by lane and class.

    Least squares over the last 50 completed batches, W over the last 50 releases; both are brought
    up to date at most every `refit_s`, and after the third, fourth and fifth batch. With fewer
    than two sizes seen the start values stand: slope = min(2, Lmax * 2 / 30) s, offset =
    min(1, Lmax / 30) s, W = 10 ms (BentoML, _internal/marshal/dispatcher.py, `Optimizer`).
    """

    def __init__(
        self, replicas: int, classes: int, max_latency_s: float | np.ndarray, refit_s: float
    ) -> None:
        """`max_latency_s` of all classes, or `[C]` of each."""
        self._replicas, self._classes, self._refit_s = replicas, classes, refit_s
        self._slope = np.minimum(2.0, max_latency_s * 2.0 / 30.0)
        self._offset = np.minimum(1.0, max_latency_s / 30.0)

    def fresh(self, lanes: int) -> dict[str, np.ndarray]:
        """Nothing seen: `[lanes, C]`, with `[lanes, C, 50]` for the batches looked back on."""
        shape = (lanes, self._classes)
        return {
            "batches": np.zeros((lanes, self._replicas)),
            "in_flight": np.zeros(lanes),
            "able": np.zeros(lanes),
            "seen_s": np.zeros(lanes),
            "seen_wait_s": np.zeros(shape),
            "completed": np.zeros(shape, np.int64),
            "released": np.zeros(shape, np.int64),
            "sizes": np.zeros((*shape, KEPT)),
            "durations_s": np.zeros((*shape, KEPT)),
            "waits_s": np.zeros((*shape, KEPT)),
            "refitted_s": np.full(shape, -np.inf),
            "slope": np.full(shape, self._slope),
            "offset": np.full(shape, self._offset),
            "wait_s": np.full(shape, FIRST_WAIT_S),
            **seen_queues(lanes, self._classes),
        }

    def learn(self, memory: dict[str, np.ndarray], batches: Batches, clock_s: np.ndarray) -> None:
        """Adds the `batches` that completed, and refits where that is due at `clock_s [B]`."""
        due = np.zeros(memory["completed"].shape, bool)
        for lane, request_class, size, took_s in batches:
            where = (lane, request_class)
            memory["completed"][where] += 1
            number = memory["completed"][where]
            kept = number > SKIPPED
            where, number = (lane[kept], request_class[kept]), number[kept]
            point = (*where, (number - SKIPPED - 1) % KEPT)
            memory["sizes"][point] = size[kept]
            memory["durations_s"][point] = took_s[kept]
            rested = clock_s[where[0]] - memory["refitted_s"][where] >= self._refit_s
            due[where] |= rested | ((number >= WARM_UP.start) & (number < WARM_UP.stop))
        if due.any():
            lane, _ = np.nonzero(due)
            memory["refitted_s"][due] = clock_s[lane]
            self._refit(memory, due)

    def _refit(self, memory: dict[str, np.ndarray], due: np.ndarray) -> None:
        kept = memory["completed"][due] - SKIPPED
        known = np.arange(KEPT) < kept[:, None]
        count = np.minimum(kept, KEPT)
        size, took_s = memory["sizes"][due], memory["durations_s"][due]
        mean_size, mean_s = size.sum(axis=1) / count, took_s.sum(axis=1) / count
        away = np.where(known, size - mean_size[:, None], 0.0)
        spread = (away**2).sum(axis=1)
        fitted = spread > 0  # whole numbers: at least two sizes
        slope = (away * took_s).sum(axis=1) / np.where(fitted, spread, 1.0)
        offset = np.maximum(mean_s - slope * mean_size, 0.0)
        memory["slope"][due] = np.where(fitted, np.maximum(slope, 1e-6), memory["slope"][due])
        memory["offset"][due] = np.where(fitted, offset, memory["offset"][due])
        released = np.minimum(memory["released"][due], KEPT)
        mean_wait_s = memory["waits_s"][due].sum(axis=1) / np.maximum(released, 1)
        memory["wait_s"][due] = np.where(released > 0, mean_wait_s, memory["wait_s"][due])


def outcomes(memory: dict[str, np.ndarray], observation: Observation) -> Batches:
    """The batches completed since the last decision; notes the age of what was released at it.

    A release is a queue whose oldest left by a dispatch, not by being shed: a dispatch happened
    since the last decision, and where that was at this very instant, more requests are in flight or
    fewer replicas can take a batch.
    """
    left = left_queue(memory, observation)
    in_flight = observation.in_flight.sum(axis=1)
    able = (observation.can_take > 0).sum(axis=1)  # live, where the view may be stale
    sent_s = observation.clock_s - observation.since_dispatch_s
    same_instant = observation.clock_s <= memory["seen_s"] + SAME_INSTANT_S
    sent = (observation.last_replica >= 0) & (sent_s >= memory["seen_s"] - SAME_INSTANT_S)
    more = (in_flight > memory["in_flight"]) | (able < memory["able"])
    sent &= ~same_instant | more
    where = np.nonzero(left & sent[:, None])
    memory["waits_s"][(*where, memory["released"][where] % KEPT)] = memory["seen_wait_s"][where]
    memory["released"][where] += 1
    memory["seen_wait_s"][:] = observation.oldest_wait_s
    memory["seen_s"][:] = observation.clock_s
    memory["in_flight"][:] = in_flight
    memory["able"][:] = able
    return completed_batches(memory["batches"], observation)
