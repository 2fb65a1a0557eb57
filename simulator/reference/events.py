"""What can happen in a cluster. One event, one function, in the words of the domain."""

import math

from simulator.reference.accounting import enter_system, note_arrival, note_busy, shed
from simulator.reference.batches import batch_departs, batch_starts
from simulator.reference.batching import batch_from_central_queue, replica_may_start
from simulator.reference.cluster import Cluster, log_event
from simulator.reference.continuous import begin_iteration, iterations_end
from simulator.reference.parts import ReplicaState, Request
from simulator.reference.routing import inner_choice, request_is_routed
from simulator.reference.scaling import activate_for, autoscale, settle
from simulator.reference.signals import current_signals
from simulator.scenario import DecisionKind
from simulator.state import EventKind, ReplicaMode, RequestStatus


def request_arrives(cluster: Cluster) -> None:
    """The next request joins the central queue, is routed, is shed, or waits at the door."""
    request = cluster.requests[cluster.next_request]
    cluster.next_request += 1
    note_arrival(cluster, request.request_class)
    activate_for(cluster, request.request_class)
    if cluster.kind == DecisionKind.ROUTE:
        cluster.at_the_door = request
    elif not cluster.is_central:
        request_is_routed(cluster, request, inner_choice(cluster, request))
    else:
        request_joins_central_queue(cluster, request)


def request_joins_central_queue(cluster: Cluster, request: Request) -> None:
    """The request is last in the line of its class, or is shed where the queue is full."""
    queue = cluster.queues[0]
    if queue.total_length >= cluster.scenario.queue_capacity:
        shed(cluster, request)
    else:
        enter_system(cluster, request)
        queue.ready[request.request_class].append(request)
    if cluster.kind == DecisionKind.TUNE:
        batch_from_central_queue(cluster)


def service_completes(cluster: Cluster, replica: ReplicaState) -> None:
    """A batch departs, or planned iterations are over; the replica goes on with what waits."""
    if cluster.scenario.continuous:
        iterations_end(cluster, replica)
        settle(cluster, replica)
        begin_iteration(cluster, replica)
    else:
        batch_departs(cluster, replica)
        settle(cluster, replica)
        replica_may_start(cluster, replica)


def replica_is_ready(cluster: Cluster, replica: ReplicaState) -> None:
    """The cold start is over."""
    replica.ready_s = math.inf
    replica.mode = ReplicaMode.UP
    log_event(cluster, EventKind.REPLICA_READY, replica.number)
    settle(cluster, replica)
    replica_may_start(cluster, replica)


def batch_arrives(cluster: Cluster, replica: ReplicaState) -> None:
    """A batch that was in transit reaches a replica that serves nothing, and starts."""
    batch_starts(cluster, replica)


def timeout_passes(cluster: Cluster, replica: ReplicaState) -> None:
    """The oldest request has waited for company long enough."""
    replica_may_start(cluster, replica)


def fault_boundary_passes(cluster: Cluster, replica: ReplicaState) -> None:
    """A fault begins or ends. A replica that is off is spared."""
    begins = replica.boundary % 2 == 0
    replica.boundary += 1
    if begins and replica.mode in (ReplicaMode.STARTING, ReplicaMode.UP):
        replica_fails(cluster, replica)
    elif not begins and replica.mode == ReplicaMode.DOWN:
        replica_is_repaired(cluster, replica)


def replica_fails(cluster: Cluster, replica: ReplicaState) -> None:
    """The replica is DOWN; all that it serves or was sent is lost, its own queue is not."""
    if replica.busy:
        note_busy(cluster, replica, was_busy=True)
    replica.mode = ReplicaMode.DOWN
    replica.ready_s = math.inf
    log_event(cluster, EventKind.REPLICA_DOWN, replica.number)
    lost = [request for batch in replica.batches for request in batch.requests]
    lost += [sequence.request for sequence in replica.running]
    replica.batches, replica.running = [], []
    replica.planned, replica.iteration_end_s = 0, math.inf
    replica.kv_used = replica.context = 0
    for request in reversed(lost):  # so that the oldest is at the front again
        request_is_lost(cluster, replica, request)
    settle(cluster, replica)
    requeued = lost and cluster.scenario.faults.requeue
    if requeued and cluster.is_central and cluster.kind == DecisionKind.TUNE:
        batch_from_central_queue(cluster)


def request_is_lost(cluster: Cluster, replica: ReplicaState, request: Request) -> None:
    """The request starts anew at the front of its line, whatever the capacity; or is shed."""
    if cluster.scenario.faults.requeue:
        cluster.queue_of(replica).ready[request.request_class].appendleft(request)
        request.status = RequestStatus.WAITING
        request.dispatch_s = math.nan
        request.generated = 0
        log_event(cluster, EventKind.REQUEST_REQUEUED, request.number)
    else:
        cluster.number_in_system[request.request_class] -= 1
        shed(cluster, request)


def replica_is_repaired(cluster: Cluster, replica: ReplicaState) -> None:
    """The replica is UP again, and empty."""
    replica.mode = ReplicaMode.UP
    log_event(cluster, EventKind.REPLICA_REPAIRED, replica.number)
    settle(cluster, replica)
    replica_may_start(cluster, replica)


def view_is_refreshed(cluster: Cluster) -> None:
    """The dispatcher notes the signals of all replicas."""
    cluster.views += 1
    cluster.view = current_signals(cluster)


def control_passes(cluster: Cluster) -> None:
    """The autoscaler of the engine is asked, where there is one."""
    cluster.controls += 1
    rule = cluster.scenario.scaling.autoscaler
    if rule is not None:
        autoscale(cluster, rule)


def tick_passes(cluster: Cluster) -> None:
    """The wait is over: a decision may be due again."""
    cluster.holds = False
    cluster.tick_s = math.inf
    if cluster.at_ticks:
        cluster.ticks += 1
        cluster.tick_s = (cluster.ticks + 1) * cluster.scenario.tick_s
