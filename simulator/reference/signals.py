"""What the dispatcher knows: the signals of the replicas, live or as of the last view."""

import math
from typing import TYPE_CHECKING, NamedTuple

from simulator.reference.parts import ReplicaState, Request
from simulator.state import ReplicaMode

if TYPE_CHECKING:
    from simulator.reference.cluster import Cluster

IDLE, BUSY = 2, 3  # as the dispatcher sees a replica that is UP
RESPONSE_WINDOW = 32  # answers that response_p95_s looks back on


class Signals(NamedTuple):
    """What a view notes: by replica, and of replica queues by class."""

    replica_state: list[int]  # [K]
    in_service: list[int]  # [K] requests of the batch in service, or running sequences
    remaining_service_s: list[float]  # [K] expected, 0 where idle, overdue or continuous
    replica_queue_length: list[list[int]]  # [K][C] in transit included; 0 with a central queue
    in_flight: list[int]  # [K] requests at the replica: waiting, in service or sent to it
    kv_fill: list[float]  # [K]
    utilization: list[float]  # [K]
    queue_length: list[int]  # [C]
    oldest_wait_s: list[float]  # [C] of the request at the front, 0 if none waits


def current_signals(cluster: "Cluster") -> Signals:
    """The signals as they are at the clock."""
    replicas, classes = cluster.replicas, range(len(cluster.scenario.request_classes))
    own = [None if cluster.is_central else cluster.queue_of(replica) for replica in replicas]
    return Signals(
        replica_state=[seen_state(replica) for replica in replicas],
        in_service=[in_service(replica) for replica in replicas],
        remaining_service_s=[_remaining_service_s(cluster, replica) for replica in replicas],
        replica_queue_length=[[queue.length(c) if queue else 0 for c in classes] for queue in own],
        in_flight=[in_flight(cluster, replica) for replica in replicas],
        kv_fill=[
            replica.kv_used / replica.model.tokens.kv_capacity_tokens if replica.model.tokens else 0
            for replica in replicas
        ],
        utilization=[_utilization(cluster, replica) for replica in replicas],
        queue_length=[sum(queue.length(c) for queue in cluster.queues) for c in classes],
        oldest_wait_s=[_oldest_wait_s(cluster, c) for c in classes],
    )


def observed(cluster: "Cluster") -> dict[str, object]:
    """The observation at the clock, by the name of its field.

    Where the view is stale the signals of the replicas are those of the last refresh, and with
    replica queues so are the waiting requests; what is central is always known live.
    """
    live, scenario = current_signals(cluster), cluster.scenario
    signals = live
    if scenario.view.refresh_s > 0:
        signals = cluster.view
        if scenario.view.own_in_flight:
            signals = signals._replace(in_flight=live.in_flight)
        if cluster.is_central:
            signals = signals._replace(
                queue_length=live.queue_length, oldest_wait_s=live.oldest_wait_s
            )
    set_points, head = cluster.set_points, request_to_decide_on(cluster)
    last = [replica.last_batch for replica in cluster.replicas]
    return {
        **signals._asdict(),
        "clock_s": cluster.clock_s,
        "arrived": cluster.arrived,
        "oldest_waits_s": _oldest_waits_s(cluster),
        "batches": [replica.completed for replica in cluster.replicas],
        "last_batch_class": [batch.requests[0].request_class if batch else -1 for batch in last],
        "last_batch_size": [len(batch.requests) if batch else 0 for batch in last],
        "last_batch_s": [batch.service_s if batch else 0.0 for batch in last],
        "head_class": -1 if head is None else head.request_class,
        "head_size": 0.0 if head is None else head.prompt_tokens or head.size,
        "arrival_rate_rps": _arrival_rate_rps(cluster),
        "response_p95_s": _response_p95_s(cluster),
        "since_dispatch_s": cluster.clock_s - cluster.last_dispatch_s,
        "last_replica": cluster.last_replica,
        "can_take": [can_take(cluster, replica) for replica in cluster.replicas],
        "set_points": [
            set_points.max_batch_size,
            set_points.batch_timeout_s,
            set_points.max_num_seqs,
            cluster.replicas_on,
        ],
    }


def request_to_decide_on(cluster: "Cluster") -> Request | None:
    """The request at the door, or the one at the head of the central line, if there is one."""
    if not cluster.is_central:
        return cluster.at_the_door
    return min(cluster.queues[0].heads(), key=lambda request: request.number, default=None)


def seen_state(replica: ReplicaState) -> int:
    """The state of the replica: that it is UP shows as IDLE or BUSY."""
    if replica.mode != ReplicaMode.UP:
        return int(replica.mode)
    return BUSY if replica.busy else IDLE


def in_service(replica: ReplicaState) -> int:
    """Requests of the batch in service, or running sequences."""
    batch = replica.batch_in_service
    return len(batch.requests) if batch else len(replica.running)


def at_work(replica: ReplicaState) -> int:
    """Requests that were given to the replica: batches in service or sent, running sequences."""
    return sum(len(batch.requests) for batch in replica.batches) + len(replica.running)


def in_flight(cluster: "Cluster", replica: ReplicaState) -> int:
    """Requests at the replica: in its own queue, in service, or sent to it."""
    queued = 0 if cluster.is_central else cluster.queue_of(replica).total_length
    return queued + at_work(replica)


def can_take(cluster: "Cluster", replica: ReplicaState) -> bool:
    """True where a central dispatcher may send the replica a batch."""
    room = len(replica.batches) <= cluster.scenario.replica_backlog
    return replica.mode == ReplicaMode.UP and cluster.wants(replica) and room


def busy_share(cluster: "Cluster", replica: ReplicaState, was_busy: bool) -> float:
    """The average of the share of time busy, brought up to the clock."""
    elapsed_s = cluster.clock_s - replica.utilization_at_s
    decay = math.exp(-elapsed_s / cluster.scenario.rate_window_s)
    return replica.utilization * decay + (1.0 - decay if was_busy else 0.0)


def _utilization(cluster: "Cluster", replica: ReplicaState) -> float:
    return busy_share(cluster, replica, was_busy=replica.busy)


def _remaining_service_s(cluster: "Cluster", replica: ReplicaState) -> float:
    batch = replica.batch_in_service
    return max(0.0, batch.expected_departure_s - cluster.clock_s) if batch else 0.0


def _oldest_wait_s(cluster: "Cluster", request_class: int) -> float:
    fronts = [queue.front(request_class) for queue in cluster.queues]
    return max((cluster.clock_s - r.arrival_s for r in fronts if r is not None), default=0.0)


def _oldest_waits_s(cluster: "Cluster") -> list[list[float]]:
    """How long each of the first requests of every class has waited, 0 where there are fewer."""
    places = cluster.scenario.view.oldest_requests
    if places == 0:
        return []
    rows = []
    for line in cluster.queues[0].ready:
        waits_s = [cluster.clock_s - request.arrival_s for request in list(line)[:places]]
        rows.append(waits_s + [0.0] * (places - len(waits_s)))
    return rows


def _arrival_rate_rps(cluster: "Cluster") -> list[float]:
    window_s = cluster.scenario.rate_window_s
    return [
        rate_rps * math.exp(-(cluster.clock_s - at_s) / window_s)
        for rate_rps, at_s in zip(cluster.arrival_rate_rps, cluster.rate_at_s, strict=True)
    ]


def _response_p95_s(cluster: "Cluster") -> float:
    """The nearest-rank P95 of the last answers, 0 before the first."""
    recent = sorted(cluster.responses_s[-RESPONSE_WINDOW:])
    # In whole numbers: 0.95 times 20 is above 19 in floating point.
    return recent[(95 * len(recent) + 99) // 100 - 1] if recent else 0.0
