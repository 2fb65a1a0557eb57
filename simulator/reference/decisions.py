"""When the policy must act, and how what it decides takes effect."""

from dataclasses import dataclass

from simulator.reference.accounting import shed
from simulator.reference.batches import batch_is_dispatched
from simulator.reference.batching import batch_from_central_queue, replica_may_start
from simulator.reference.cluster import Cluster, log_event
from simulator.reference.continuous import newcomer_cuts_jump
from simulator.reference.routing import request_is_routed
from simulator.reference.scaling import set_replicas_on
from simulator.reference.signals import can_take
from simulator.scenario import DecisionKind
from simulator.state import Ending, EventKind


@dataclass(frozen=True)
class Wait:
    """`dispatch`: nothing is sent until the next event or tick."""


@dataclass(frozen=True)
class Dispatch:
    """`dispatch`: a batch for a replica. Without a class, that of the head of the line."""

    replica: int
    request_class: int | None
    batch_size: int


@dataclass(frozen=True)
class Shed:
    """`dispatch`: the oldest request of a class is given up. Without one, of the head of line."""

    request_class: int | None


@dataclass(frozen=True)
class Route:
    """`route`: the replica for the request at the door."""

    replica: int


@dataclass(frozen=True)
class Tune:
    """`tune`: new set-points, None where one stays as it is. The number is for the log."""

    number: int
    max_batch_size: int | None = None
    batch_timeout_s: float | None = None
    max_num_seqs: int | None = None
    replicas_on: int | None = None


Action = Wait | Dispatch | Shed | Route | Tune


def dispatch_is_due(cluster: Cluster) -> bool:
    """True where the policy must form a batch or wait, all events of this instant being past."""
    if cluster.kind != DecisionKind.DISPATCH or cluster.holds:
        return False
    if cluster.at_ticks:
        return True
    waiting = {request.request_class for request in cluster.queues[0].heads()}
    return any(
        can_take(cluster, replica) and replica.serves(request_class)
        for replica in cluster.replicas
        for request_class in waiting
    )


def take_action(cluster: Cluster, action: Action) -> None:
    """The decision takes effect."""
    match action:
        case Wait():
            cluster.holds = True
            if not cluster.at_ticks:
                cluster.tick_s = cluster.clock_s + cluster.scenario.tick_s
        case Dispatch():
            replica = cluster.replicas[action.replica]
            batch_is_dispatched(cluster, replica, action.request_class, action.batch_size)
            cluster.holds = cluster.at_ticks
        case Shed():
            heads = cluster.queues[0].heads()
            oldest = min(
                (r for r in heads if action.request_class in (None, r.request_class)),
                key=lambda request: request.number,
            )
            cluster.queues[0].ready[oldest.request_class].popleft()
            cluster.number_in_system[oldest.request_class] -= 1
            shed(cluster, oldest)
            end_if_drained(cluster)
        case Route():
            request, cluster.at_the_door = cluster.at_the_door, None
            if request is None:
                raise RuntimeError("no request waits to be routed")
            request_is_routed(cluster, request, cluster.replicas[action.replica])
            end_if_drained(cluster)
        case Tune():
            set_points_change(cluster, action)


def set_points_change(cluster: Cluster, action: Tune) -> None:
    """The set-points take their new values, and every replica looks at its queue again."""
    log_event(cluster, EventKind.SET_POINTS, action.number)
    set_points, seqs_before = cluster.set_points, cluster.set_points.max_num_seqs
    if action.max_batch_size is not None:
        set_points.max_batch_size = action.max_batch_size
    if action.batch_timeout_s is not None:
        set_points.batch_timeout_s = action.batch_timeout_s
    if action.max_num_seqs is not None:
        set_points.max_num_seqs = action.max_num_seqs
    if action.replicas_on is not None:
        set_replicas_on(cluster, action.replicas_on)
    if cluster.is_central:
        batch_from_central_queue(cluster)
        return
    for replica in cluster.replicas:
        runs = bool(replica.running)
        replica_may_start(cluster, replica)
        waits = cluster.queue_of(replica).ready_count > 0
        if runs and waits and set_points.max_num_seqs != seqs_before:
            newcomer_cuts_jump(cluster, replica)


def end_if_drained(cluster: Cluster) -> None:
    """The episode ends when every request of the trace has arrived and none is left."""
    arrived = cluster.next_request == len(cluster.requests) and cluster.at_the_door is None
    if cluster.drains and arrived and not any(cluster.number_in_system):
        cluster.ending = Ending.TERMINATED
