"""Whole batches: how one is formed, sent, started and completed."""

import math

from simulator.reference.accounting import answer, begin_service, note_busy
from simulator.reference.cluster import Cluster, log_event
from simulator.reference.latency import expected_latency_s, noise_factor
from simulator.reference.parts import Batch, Queue, ReplicaState, Request
from simulator.scenario import MixedBatches
from simulator.state import EventKind


def batch_is_dispatched(
    cluster: Cluster, replica: ReplicaState, request_class: int | None, limit: int
) -> None:
    """The oldest requests, at most `limit`, leave the queue for the replica as one batch.

    Without a class, it is the class of the request at the head of the line. It starts at once if it
    has neither a way to go nor a batch before it.
    """
    queue = cluster.queue_of(replica)
    if request_class is None:
        request_class = min(queue.heads(), key=_by_number).request_class
    requests = take_requests(cluster, replica, queue, request_class, limit)
    first = requests[0]
    model = replica.model
    expected_s = expected_latency_s(model, requests, cluster.scenario.mixed)
    luck = noise_factor(model, first.request_class, cluster.luck.noise_z, first.number)
    batch = Batch(requests, cluster.clock_s, expected_s * luck, expected_s)
    log_event(cluster, EventKind.BATCH_DISPATCH, replica.number)
    travels = cluster.is_central and cluster.scenario.dispatch_delay.exists
    if travels:
        batch.arrives_s = arrival_at(cluster, replica, first)
    if cluster.is_central:
        cluster.last_dispatch_s, cluster.last_replica = cluster.clock_s, replica.number
    replica.batches.append(batch)
    if not travels and len(replica.batches) == 1:
        begin_batch(cluster, replica)


def take_requests(
    cluster: Cluster, replica: ReplicaState, queue: Queue, request_class: int, limit: int
) -> list[Request]:
    """Takes the requests of a batch out of the queue, oldest first, while memory allows.

    The first always fits: that was checked where it entered. Nobody is overtaken for memory's sake.
    """
    requests: list[Request] = []
    used_gib = 0.0
    while len(requests) < limit:
        if cluster.scenario.mixed == MixedBatches.NEVER:
            heads = [request for request in queue.heads() if request.request_class == request_class]
        else:
            heads = queue.heads()
        if not heads:
            break
        oldest = min(heads, key=_by_number)
        needed_gib = memory_gib(replica, oldest)
        if requests and used_gib + needed_gib > replica.model.memory_gib:
            break
        used_gib += needed_gib
        requests.append(queue.ready[oldest.request_class].popleft())
    return requests


def memory_gib(replica: ReplicaState, request: Request) -> float:
    """What the request needs on the replica."""
    per_size = replica.model.request_memory_gib
    return per_size[request.request_class] * request.size if per_size else 0.0


def arrival_at(cluster: Cluster, replica: ReplicaState, request: Request) -> float:
    """When what is sent now with the request arrives: never before what was sent earlier."""
    travelled_s = cluster.clock_s + float(cluster.luck.delay_s[request.number])
    replica.last_join_s = max(travelled_s, replica.last_join_s)
    return replica.last_join_s


def begin_batch(cluster: Cluster, replica: ReplicaState) -> None:
    """The first batch at the replica is in service from now on."""
    batch = replica.batches[0]
    note_busy(cluster, replica, was_busy=False)
    batch.departure_s = cluster.clock_s + batch.service_s
    batch.expected_departure_s = cluster.clock_s + batch.expected_s
    for request in batch.requests:
        begin_service(cluster, replica, request)
    cluster.energy_j += energy_j(replica, batch)


def energy_j(replica: ReplicaState, batch: Batch) -> float:
    """What the batch takes beside the power of the replica, by the class of its oldest request."""
    model, request_class = replica.model, batch.requests[0].request_class
    per_batch = model.energy_alpha_j[request_class] if model.energy_alpha_j else 0.0
    per_request = model.energy_beta_j[request_class] if model.energy_beta_j else 0.0
    return per_batch + per_request * len(batch.requests)


def batch_starts(cluster: Cluster, replica: ReplicaState) -> None:
    """A batch starts later than it was sent: after its way, or behind another."""
    begin_batch(cluster, replica)
    log_event(cluster, EventKind.BATCH_START, replica.number)


def batch_departs(cluster: Cluster, replica: ReplicaState) -> None:
    """All requests of the batch are answered; the one behind it starts if it has arrived."""
    note_busy(cluster, replica, was_busy=True)
    batch = replica.batches.pop(0)
    for request in batch.requests:
        answer(cluster, request)
    replica.completed += 1
    replica.last_batch = batch
    log_event(cluster, EventKind.BATCH_COMPLETION, replica.number)
    if replica.batches and replica.batches[0].arrives_s <= cluster.clock_s:
        batch_starts(cluster, replica)


def start_s(replica: ReplicaState) -> float:
    """When the first batch arrives at a replica that serves nothing; infinite otherwise."""
    waits = replica.batches and replica.batch_in_service is None
    return replica.batches[0].arrives_s if waits else math.inf


def _by_number(request: Request) -> int:
    return request.number
