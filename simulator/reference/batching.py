"""The batching rule inside the engine: which requests a replica takes when it may start."""

import math

from simulator.reference.batches import batch_is_dispatched
from simulator.reference.cluster import Cluster
from simulator.reference.continuous import begin_iteration
from simulator.reference.parts import Queue, ReplicaState, Request
from simulator.reference.signals import can_take
from simulator.scenario import DecisionKind, MixedBatches
from simulator.state import ReplicaMode


def replica_may_start(cluster: Cluster, replica: ReplicaState) -> None:
    """After an event that may let the replica serve: the rule of its layer is asked.

    Under `dispatch` there is no rule: the policy forms the batches.
    """
    if cluster.scenario.continuous:
        if not replica.running:
            begin_iteration(cluster, replica)
    elif not cluster.is_central:
        batch_from_own_queue(cluster, replica)
    elif cluster.kind == DecisionKind.TUNE:
        batch_from_central_queue(cluster)


def batch_from_own_queue(cluster: Cluster, replica: ReplicaState) -> None:
    """An idle replica takes a batch that is full or overdue, or knows when one will be overdue."""
    replica.timeout_s = math.inf
    if replica.mode != ReplicaMode.UP or replica.batches:
        return
    queue = cluster.queue_of(replica)
    oldest = batch_to_fire(cluster, replica, queue)
    if oldest is None:
        replica.timeout_s = next_overdue_s(cluster, replica, queue)
    else:
        limit = largest_batch(cluster, replica)
        batch_is_dispatched(cluster, replica, oldest.request_class, limit)


def batch_from_central_queue(cluster: Cluster) -> None:
    """Every replica that can take a batch gets those that are full or overdue, the lowest first."""
    queue = cluster.queues[0]
    for replica in cluster.replicas:
        while can_take(cluster, replica):
            oldest = batch_to_fire(cluster, replica, queue)
            if oldest is None:
                break
            limit = largest_batch(cluster, replica)
            batch_is_dispatched(cluster, replica, oldest.request_class, limit)
    cluster.batching_s = min(
        (
            next_overdue_s(cluster, replica, queue)
            for replica in cluster.replicas
            if can_take(cluster, replica)
        ),
        default=math.inf,
    )


def batch_to_fire(cluster: Cluster, replica: ReplicaState, queue: Queue) -> Request | None:
    """The oldest request of the batch that the replica should take now, if any.

    A batch is due when it is full or its oldest request is overdue. Among the classes of which one
    is due, the one whose oldest request came first.
    """
    limit = largest_batch(cluster, replica)
    mixed = cluster.scenario.mixed != MixedBatches.NEVER
    due = []
    for oldest in candidates(cluster, replica, queue):
        count = queue.ready_count if mixed else len(queue.ready[oldest.request_class])
        if count >= limit or cluster.clock_s >= overdue_s(cluster, oldest):
            due.append(oldest)
    return min(due, key=lambda request: request.number, default=None)


def candidates(cluster: Cluster, replica: ReplicaState, queue: Queue) -> list[Request]:
    """The oldest ready request of each class that the replica serves; of all, if they mix."""
    heads = [request for request in queue.heads() if replica.serves(request.request_class)]
    if cluster.scenario.mixed == MixedBatches.NEVER or not heads:
        return heads
    return [min(heads, key=lambda request: request.number)]


def next_overdue_s(cluster: Cluster, replica: ReplicaState, queue: Queue) -> float:
    """When the next batch of the replica is overdue, infinite if nothing waits for it."""
    return min(
        (overdue_s(cluster, oldest) for oldest in candidates(cluster, replica, queue)),
        default=math.inf,
    )


def overdue_s(cluster: Cluster, request: Request) -> float:
    """When the request has waited for company long enough."""
    return request.arrival_s + cluster.set_points.batch_timeout_s


def largest_batch(cluster: Cluster, replica: ReplicaState) -> int:
    """The set-point, or the replica's own maximum if that is smaller."""
    return min(cluster.set_points.max_batch_size, replica.model.max_batch_size)
