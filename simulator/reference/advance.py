"""The order of events: what happens next, until a decision is due or the episode ends."""

import math
from collections.abc import Callable
from operator import itemgetter

from simulator.reference import events
from simulator.reference.accounting import pass_time
from simulator.reference.batches import start_s
from simulator.reference.batching import batch_from_central_queue
from simulator.reference.cluster import Cluster
from simulator.reference.decisions import dispatch_is_due, end_if_drained
from simulator.reference.parts import ReplicaState
from simulator.reference.routing import join_s, request_joins
from simulator.scenario import DecisionKind
from simulator.state import Ending


def replica_timers(
    cluster: Cluster, replica: ReplicaState
) -> list[tuple[float, Callable[[Cluster, ReplicaState], None]]]:
    """When what happens next at the replica; at equal times in this order."""
    batch, boundaries = replica.batch_in_service, replica.fault_boundaries[replica.boundary :]
    completion_s = batch.departure_s if batch else replica.iteration_end_s
    return [
        (completion_s, events.service_completes),
        (boundaries[0] if boundaries else math.inf, events.fault_boundary_passes),
        (replica.ready_s, events.replica_is_ready),
        (start_s(replica), events.batch_arrives),
        (join_s(cluster, replica), request_joins),
        (replica.timeout_s, events.timeout_passes),
    ]


def lane_timers(cluster: Cluster) -> list[tuple[float, Callable[[Cluster], None]]]:
    """When what happens next beside arrivals and replicas; at equal times in this order."""
    return [
        (cluster.batching_s, batch_from_central_queue),
        (cluster.view_s, events.view_is_refreshed),
        (cluster.control_s, events.control_passes),
        (cluster.tick_s, events.tick_passes),
    ]


def advance(cluster: Cluster) -> None:
    """Runs until a decision is due or the episode ends.

    At one instant: the replicas by their number, then arrivals, then the timers of the lane, then
    the decision. After each event it is asked anew what comes first.
    """
    while cluster.ending == Ending.RUNNING:
        timers = [
            (*min(replica_timers(cluster, replica), key=itemgetter(0)), replica)
            for replica in cluster.replicas
        ]
        event_s, event, replica = min(timers, key=itemgetter(0))
        arrival_s = math.inf
        if cluster.next_request < len(cluster.requests):
            arrival_s = cluster.requests[cluster.next_request].arrival_s
        timer_s, timer = min(lane_timers(cluster), key=itemgetter(0))
        # A batch can be overdue already, when a fault has put a younger request before it.
        next_s = max(cluster.clock_s, min(event_s, arrival_s, timer_s))
        if next_s > cluster.clock_s and dispatch_is_due(cluster):
            return
        if next_s >= cluster.horizon_s:
            pass_time(cluster, cluster.horizon_s)
            cluster.ending = Ending.TRUNCATED
            return
        pass_time(cluster, next_s)
        if event_s <= next_s:
            event(cluster, replica)
            release_hold(cluster)
            end_if_drained(cluster)
        elif arrival_s <= next_s:
            events.request_arrives(cluster)
            release_hold(cluster)
            end_if_drained(cluster)
            if cluster.at_the_door is not None:
                return
        else:
            timer(cluster)
            if timer is events.control_passes and cluster.kind == DecisionKind.TUNE:
                return


def release_hold(cluster: Cluster) -> None:
    """After WAIT a decision may be due at the next event; at ticks only at the next tick."""
    if not cluster.at_ticks:
        cluster.holds, cluster.tick_s = False, math.inf
