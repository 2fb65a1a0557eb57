"""The central queue and what the gateway knows of its replicas: state only, no clock, no pipes."""

from collections import deque
from itertools import islice
from typing import NamedTuple

import numpy as np

from pipeline.testbed.trackers import LoadAverages, ResponseWindow
from simulator.observation import Observation, ReplicaState, empty_observation
from simulator.scenario import Scenario


class WaitingRequest(NamedTuple):
    """A request in the central queue. `request_id` counts arrivals from 0."""

    request_id: int
    arrival_s: float
    size: float


class DispatchedBatch(NamedTuple):
    """A batch in service on a replica."""

    batch_id: int
    request_class: int
    dispatch_s: float
    expected_departure_s: float
    requests: tuple[WaitingRequest, ...]


def _first_observation(scenario: Scenario, averages: LoadAverages) -> Observation:
    """Nothing has happened yet. No knob is turned here: the set-points stay as they are."""
    largest = max(replica.max_batch_size for replica in scenario.replicas)
    replicas, classes = len(scenario.replicas), len(scenario.request_classes)
    return empty_observation(scenario, 1)._replace(
        queue_length=np.zeros((1, classes), np.int64),  # the log holds whole numbers
        can_take=np.ones((1, replicas)),
        arrival_rate_rps=averages.arrival_rate_rps,
        utilization=averages.utilization,
        replica_state=np.full((1, replicas), float(ReplicaState.IDLE)),
        set_points=np.array([[largest, scenario.batch_timeout_s, 0.0, replicas]]),
    )


class Dispatcher:
    """One queue of `queue_capacity` places in total, FIFO within a class, before K replicas.

    Its observation is one lane whose arrays are written in place. Times are seconds from time 0.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._capacity = scenario.queue_capacity
        self._replicas = scenario.replicas
        self._queues: list[deque[WaitingRequest]] = [deque() for _ in scenario.request_classes]
        self._in_service: list[DispatchedBatch | None] = [None] * len(scenario.replicas)
        self._averages = LoadAverages(
            len(self._queues), len(self._replicas), scenario.rate_window_s
        )
        self._responses = ResponseWindow()
        self._last_dispatch_s = 0.0
        self._batches = 0
        self._idle = len(self._replicas)
        self._observation = _first_observation(scenario, self._averages)
        self.waiting = 0

    @property
    def decision_due(self) -> bool:
        """Whether a request waits and a replica is idle."""
        return self.waiting > 0 and self._idle > 0

    @property
    def empty(self) -> bool:
        """Whether nothing waits and nothing is in service."""
        return self.waiting == 0 and self._idle == len(self._replicas)

    @property
    def busy(self) -> bool:
        """Whether a batch is in service."""
        return self._idle < len(self._replicas)

    def arrives(self, request_id: int, request_class: int, size: float, clock_s: float) -> bool:
        """The request joins the queue (True), or is shed because the queue is full (False)."""
        self._averages.arrives(request_class, clock_s)
        self._observation.arrived[0, request_class] += 1
        if self.waiting == self._capacity:
            return False
        self._queues[request_class].append(WaitingRequest(request_id, clock_s, size))
        self._observation.queue_length[0, request_class] += 1
        self.waiting += 1
        return True

    def starts(
        self, replica: int, request_class: int, batch_size: int, clock_s: float
    ) -> DispatchedBatch:
        """The oldest requests of the class start on the idle replica; size clipped to the queue."""
        if self._in_service[replica] is not None:
            raise RuntimeError(f"replica {replica} was sent a batch while it had one in service")
        queue = self._queues[request_class]
        requests = tuple(queue.popleft() for _ in range(min(batch_size, len(queue))))
        model = self._replicas[replica]
        work = sum(request.size for request in requests)
        expected_s = model.alpha_s[request_class] + model.beta_s[request_class] * work
        batch = DispatchedBatch(
            self._batches, request_class, clock_s, clock_s + expected_s, requests
        )
        self._batches += 1
        self.waiting -= len(requests)
        self._idle -= 1
        self._in_service[replica] = batch
        self._averages.set_busy(replica, True, clock_s)
        self._last_dispatch_s = clock_s
        seen = self._observation
        seen.queue_length[0, request_class] = len(queue)
        seen.last_replica[0] = replica
        seen.can_take[0, replica] = 0.0
        seen.in_service[0, replica] = len(requests)
        seen.in_flight[0, replica] = len(requests)
        seen.replica_state[0, replica] = ReplicaState.BUSY
        return batch

    def completes(self, replica: int, clock_s: float) -> DispatchedBatch:
        """The batch in service on the replica departs, all its requests together."""
        batch = self._in_service[replica]
        if batch is None:
            raise RuntimeError(f"replica {replica} answered a batch it was not sent")
        self._in_service[replica] = None
        self._idle += 1
        self._averages.set_busy(replica, False, clock_s)
        for request in batch.requests:
            self._responses.answered(clock_s - request.arrival_s)
        seen = self._observation
        seen.can_take[0, replica] = 1.0
        seen.in_service[0, replica] = seen.in_flight[0, replica] = 0
        seen.replica_state[0, replica] = ReplicaState.IDLE
        seen.response_p95_s[0] = self._responses.p95_s()
        seen.batches[0, replica] += 1
        seen.last_batch_class[0, replica] = batch.request_class
        seen.last_batch_size[0, replica] = len(batch.requests)
        seen.last_batch_s[0, replica] = clock_s - batch.dispatch_s
        return batch

    def observe(self, clock_s: float) -> Observation:
        """The observation at `clock_s`, one lane; its arrays change with the next call."""
        self._averages.advance(clock_s)
        seen = self._observation
        head_class, head = -1, None
        seen.clock_s[0] = clock_s
        places = seen.oldest_waits_s.shape[2]
        for request_class, queue in enumerate(self._queues):
            if queue:
                oldest = queue[0]
                seen.oldest_wait_s[0, request_class] = clock_s - oldest.arrival_s
                if head is None or oldest.request_id < head.request_id:
                    head_class, head = request_class, oldest
            else:
                seen.oldest_wait_s[0, request_class] = 0.0
            waits_s = [clock_s - request.arrival_s for request in islice(queue, places)]
            seen.oldest_waits_s[0, request_class] = waits_s + [0.0] * (places - len(waits_s))
        seen.head_class[0] = head_class
        seen.head_size[0] = 0.0 if head is None else head.size
        seen.since_dispatch_s[0] = clock_s - self._last_dispatch_s
        for replica, batch in enumerate(self._in_service):
            remaining_s = batch.expected_departure_s - clock_s if batch else 0.0
            seen.remaining_service_s[0, replica] = max(remaining_s, 0.0)
        return seen
