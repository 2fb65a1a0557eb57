"""Replica queues: which replica an arrival goes to, and how it gets there."""

import math

from simulator.reference.accounting import enter_system, shed
from simulator.reference.batches import arrival_at
from simulator.reference.batching import replica_may_start
from simulator.reference.cluster import Cluster, log_event
from simulator.reference.continuous import is_newcomer, newcomer_cuts_jump
from simulator.reference.parts import ReplicaState, Request
from simulator.reference.signals import in_flight
from simulator.scenario import Routing
from simulator.state import EventKind, ReplicaMode


def routable(cluster: Cluster, request: Request | None) -> list[ReplicaState]:
    """Wanted replicas that serve the request and are UP or STARTING; if none, DOWN ones too.

    Without a request, whatever they serve.
    """
    wanted = [
        replica
        for replica in cluster.replicas
        if cluster.wants(replica) and (request is None or replica.serves(request.request_class))
    ]
    working = [
        replica for replica in wanted if replica.mode in (ReplicaMode.STARTING, ReplicaMode.UP)
    ]
    if request is None:
        return working
    return working or wanted


def inner_choice(cluster: Cluster, request: Request) -> ReplicaState:
    """The replica that the routing rule of the engine takes, the lowest number among equals."""
    replicas = routable(cluster, request)
    if cluster.scenario.routing == Routing.SHORTEST_QUEUE:
        return min(replicas, key=lambda replica: in_flight(cluster, replica))
    count, last = len(cluster.replicas), cluster.last_replica
    return min(replicas, key=lambda replica: (replica.number - last - 1) % count)


def request_is_routed(cluster: Cluster, request: Request, replica: ReplicaState) -> None:
    """The request joins the queue of the replica, is on its way there, or is shed."""
    cluster.last_dispatch_s, cluster.last_replica = cluster.clock_s, replica.number
    queue = cluster.queue_of(replica)
    if queue.total_length >= cluster.scenario.queue_capacity:
        shed(cluster, request)
        return
    enter_system(cluster, request)
    if cluster.scenario.dispatch_delay.exists:
        queue.in_transit.append((arrival_at(cluster, replica, request), request))
    else:
        request_is_ready(cluster, replica, request)


def request_joins(cluster: Cluster, replica: ReplicaState) -> None:
    """The first request in transit reaches the queue of the replica."""
    _, request = cluster.queue_of(replica).in_transit.popleft()
    log_event(cluster, EventKind.REQUEST_JOIN, request.number)
    request_is_ready(cluster, replica, request)


def request_is_ready(cluster: Cluster, replica: ReplicaState, request: Request) -> None:
    """The request is last in the line of its class, and may be served."""
    cluster.queue_of(replica).ready[request.request_class].append(request)
    replica_may_start(cluster, replica)
    if replica.running and is_newcomer(cluster, replica, request):
        newcomer_cuts_jump(cluster, replica)


def join_s(cluster: Cluster, replica: ReplicaState) -> float:
    """When the next request in transit reaches the replica, infinite if none is."""
    in_transit = [] if cluster.is_central else cluster.queue_of(replica).in_transit
    return in_transit[0][0] if in_transit else math.inf
