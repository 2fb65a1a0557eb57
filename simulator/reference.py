"""The simulator in plain Python: slow, readable, and the judge of the compiled engine.

Read this first. One event, one function, with the name that `events.py` gives it. Everything that
happens is told to `Cluster.events` as (clock, kind, subject), in order.
"""

import math
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from simulator.parameters import DecisionEpochs, Scenario
from simulator.state import Ending, EventKind
from simulator.workload import Arrivals


@dataclass
class BatchInService:
    """The requests that a replica serves, and when they will depart."""

    request_class: int
    requests: list[int]
    departure_s: float
    expected_departure_s: float


@dataclass
class Cluster:
    """One lane: a central queue for each class, and replicas that serve whole batches."""

    scenario: Scenario
    arrivals: Arrivals
    noise_z: np.ndarray  # [R] standard normal
    horizon_s: float
    drains: bool = False
    clock_s: float = 0.0
    ending: Ending = Ending.RUNNING
    next_request: int = 0
    holds: bool = False
    tick: int = 0
    next_tick_s: float = math.inf
    queues: list[deque[int]] = field(default_factory=list)
    replicas: list[BatchInService | None] = field(default_factory=list)
    events: list[tuple[float, EventKind, int]] = field(default_factory=list)
    completed: list[int] = field(default_factory=list)
    response_s: list[float] = field(default_factory=list)
    number_in_system_s: list[float] = field(default_factory=list)
    shed: list[int] = field(default_factory=list)
    slo_misses: list[int] = field(default_factory=list)
    replica_seconds: float = 0.0
    energy_j: float = 0.0

    def __post_init__(self) -> None:
        classes = len(self.scenario.request_classes)
        self.queues = [deque() for _ in range(classes)]
        self.replicas = [None] * len(self.scenario.replicas)
        for term in ("completed", "response_s", "number_in_system_s", "shed", "slo_misses"):
            setattr(self, term, [0] * classes)
        if self.scenario.decision_epochs == DecisionEpochs.TICKS:
            self.next_tick_s = self.scenario.tick_s

    def reward_terms(self) -> list[float]:
        """All terms so far, in the order of `reward_term_names`."""
        return [
            *self.completed,
            *self.response_s,
            *self.number_in_system_s,
            *self.shed,
            *self.slo_misses,
            self.replica_seconds,
            self.energy_j,
        ]


def log_event(cluster: Cluster, kind: EventKind, subject: int) -> None:
    """Notes the event at the clock."""
    cluster.events.append((cluster.clock_s, kind, subject))


def number_in_system(cluster: Cluster, request_class: int) -> int:
    """Requests of the class that wait or are in service."""
    in_service = sum(
        len(batch.requests)
        for batch in cluster.replicas
        if batch is not None and batch.request_class == request_class
    )
    return len(cluster.queues[request_class]) + in_service


def pass_time(cluster: Cluster, until_s: float) -> None:
    """The clock moves to `until_s`; number-in-system, replica-seconds and energy accrue."""
    elapsed_s = until_s - cluster.clock_s
    for request_class in range(len(cluster.queues)):
        cluster.number_in_system_s[request_class] += (
            number_in_system(cluster, request_class) * elapsed_s
        )
    for replica, batch in zip(cluster.scenario.replicas, cluster.replicas, strict=True):
        power_w = replica.idle_power_w if batch is None else replica.busy_power_w
        cluster.replica_seconds += elapsed_s
        cluster.energy_j += power_w * elapsed_s
    cluster.clock_s = until_s


def request_arrives(cluster: Cluster) -> None:
    """The next request joins the queue of its class, or is shed where the queue is full."""
    request = cluster.next_request
    cluster.next_request += 1
    request_class = int(cluster.arrivals.request_class[request])
    if sum(map(len, cluster.queues)) < cluster.scenario.queue_capacity:
        cluster.queues[request_class].append(request)
        log_event(cluster, EventKind.REQUEST_ARRIVAL, request)
    else:
        cluster.shed[request_class] += 1
        log_event(cluster, EventKind.REQUEST_SHED, request)


def batch_is_dispatched(
    cluster: Cluster, replica: int, request_class: int | None, batch_size: int
) -> None:
    """The oldest `batch_size` requests of the class, or all if fewer wait, start on the replica.

    Without a class, it is the class of the request that has waited longest.
    """
    if request_class is None:
        waiting = [c for c, queue in enumerate(cluster.queues) if queue]
        request_class = min(waiting, key=lambda c: cluster.queues[c][0])
    queue = cluster.queues[request_class]
    requests = [queue.popleft() for _ in range(min(batch_size, len(queue)))]
    model = cluster.scenario.replicas[replica]
    total_size = sum(float(cluster.arrivals.size[request]) for request in requests)
    expected_s = model.alpha_s[request_class] + model.beta_s[request_class] * total_size
    sigma = math.sqrt(math.log1p(model.noise_cv[request_class] ** 2))
    noise = 1.0
    if sigma > 0:
        # Lognormal of mean 1; the luck belongs to the oldest request of the batch.
        z = float(cluster.noise_z[requests[0]])
        noise = math.exp(sigma * z - 0.5 * sigma * sigma)
    cluster.replicas[replica] = BatchInService(
        request_class,
        requests,
        departure_s=cluster.clock_s + expected_s * noise,
        expected_departure_s=cluster.clock_s + expected_s,
    )
    log_event(cluster, EventKind.BATCH_DISPATCH, replica)


def batch_completes(cluster: Cluster, replica: int) -> None:
    """All requests of the batch depart; the replica is idle."""
    batch = cluster.replicas[replica]
    if batch is None:
        raise RuntimeError(f"replica {replica} completes a batch that it does not have")
    slo_s = cluster.scenario.request_classes[batch.request_class].slo_s
    for request in batch.requests:
        response_s = cluster.clock_s - float(cluster.arrivals.arrival_s[request])
        cluster.completed[batch.request_class] += 1
        cluster.response_s[batch.request_class] += response_s
        cluster.slo_misses[batch.request_class] += response_s > slo_s
    cluster.replicas[replica] = None
    log_event(cluster, EventKind.BATCH_COMPLETION, replica)


def tick_passes(cluster: Cluster) -> None:
    """The wait is over: a decision may be due again."""
    cluster.holds = False
    if cluster.scenario.decision_epochs == DecisionEpochs.TICKS:
        cluster.tick += 1
        cluster.next_tick_s = (cluster.tick + 1) * cluster.scenario.tick_s
    else:
        cluster.next_tick_s = math.inf


def decision_is_due(cluster: Cluster) -> bool:
    """True where the policy must act now, all events of this instant being past."""
    if cluster.holds:
        return False
    if cluster.scenario.decision_epochs == DecisionEpochs.TICKS:
        return True
    return any(cluster.queues) and any(batch is None for batch in cluster.replicas)


def is_drained(cluster: Cluster) -> bool:
    """True where every request of the trace has arrived and none is left in the system."""
    arrived = cluster.next_request == len(cluster.arrivals.arrival_s)
    return arrived and not any(cluster.queues) and not any(cluster.replicas)


def advance(cluster: Cluster) -> None:
    """Runs until a decision is due or the episode ends."""
    at_ticks = cluster.scenario.decision_epochs == DecisionEpochs.TICKS
    while True:
        departures = [(b.departure_s, k) for k, b in enumerate(cluster.replicas) if b is not None]
        departure_s, replica = min(departures, default=(math.inf, -1))
        arrival_s = math.inf
        if cluster.next_request < len(cluster.arrivals.arrival_s):
            arrival_s = float(cluster.arrivals.arrival_s[cluster.next_request])
        event_s = min(departure_s, arrival_s)
        if event_s > cluster.clock_s and decision_is_due(cluster):
            return
        if min(event_s, cluster.next_tick_s) >= cluster.horizon_s:
            pass_time(cluster, cluster.horizon_s)
            cluster.ending = Ending.TRUNCATED
            return
        if event_s > cluster.next_tick_s:
            pass_time(cluster, cluster.next_tick_s)
            tick_passes(cluster)
            continue
        pass_time(cluster, event_s)
        if departure_s <= arrival_s:
            batch_completes(cluster, replica)
        else:
            request_arrives(cluster)
        if not at_ticks:
            cluster.holds, cluster.next_tick_s = False, math.inf
        if cluster.drains and is_drained(cluster):
            cluster.ending = Ending.TERMINATED
            return


def take_action(
    cluster: Cluster, replica: int | None, request_class: int | None, batch_size: int
) -> None:
    """The decision takes effect: no replica means WAIT, any other dispatches a batch."""
    at_ticks = cluster.scenario.decision_epochs == DecisionEpochs.TICKS
    if replica is not None:
        batch_is_dispatched(cluster, replica, request_class, batch_size)
    cluster.holds = at_ticks or replica is None
    if replica is None and not at_ticks:
        cluster.next_tick_s = cluster.clock_s + cluster.scenario.tick_s
