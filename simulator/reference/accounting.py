"""What is counted: the reward terms, the records of requests and the signals over time."""

import math

from simulator.reference.cluster import Cluster, log_event
from simulator.reference.parts import ReplicaState, Request
from simulator.reference.signals import busy_share
from simulator.state import EventKind, ReplicaMode, RequestStatus


def pass_time(cluster: Cluster, until_s: float) -> None:
    """The clock moves to `until_s`; number-in-system, replica-seconds, energy and bill accrue."""
    elapsed_s = until_s - cluster.clock_s
    for request_class, count in enumerate(cluster.number_in_system):
        cluster.terms["number_in_system_s"][request_class] += count * elapsed_s
    for replica in cluster.replicas:
        if replica.mode != ReplicaMode.OFF:
            cluster.replica_seconds += elapsed_s
            cluster.energy_j += power_w(replica) * elapsed_s
            cluster.bill += replica.model.price_per_hour / 3600.0 * elapsed_s
    cluster.clock_s = until_s


def power_w(replica: ReplicaState) -> float:
    """What the replica draws: nothing where it is off or down."""
    if replica.mode in (ReplicaMode.OFF, ReplicaMode.DOWN):
        return 0.0
    return replica.model.busy_power_w if replica.busy else replica.model.idle_power_w


def note_arrival(cluster: Cluster, request_class: int) -> None:
    """The average of the arrival rate decays over `rate_window_s`, and takes the arrival in."""
    window_s = cluster.scenario.rate_window_s
    decay = math.exp(-(cluster.clock_s - cluster.rate_at_s[request_class]) / window_s)
    rate_rps = cluster.arrival_rate_rps[request_class]
    cluster.arrival_rate_rps[request_class] = rate_rps * decay + 1.0 / window_s
    cluster.rate_at_s[request_class] = cluster.clock_s
    cluster.arrived[request_class] += 1


def note_busy(cluster: Cluster, replica: ReplicaState, was_busy: bool) -> None:
    """The average of the share of time busy is brought up to the clock, where that changes."""
    replica.utilization = busy_share(cluster, replica, was_busy)
    replica.utilization_at_s = cluster.clock_s


def enter_system(cluster: Cluster, request: Request) -> None:
    """The request was accepted: it waits, or is on its way to where it will."""
    cluster.number_in_system[request.request_class] += 1
    request.status = RequestStatus.WAITING
    log_event(cluster, EventKind.REQUEST_ARRIVAL, request.number)


def shed(cluster: Cluster, request: Request) -> None:
    """The request is refused, or given up."""
    cluster.terms["shed"][request.request_class] += 1
    request.status = RequestStatus.SHED
    log_event(cluster, EventKind.REQUEST_SHED, request.number)


def begin_service(cluster: Cluster, replica: ReplicaState, request: Request) -> None:
    """The request is in service. A preempted one keeps the instant at which it first was."""
    request.status = RequestStatus.IN_SERVICE
    request.replica = replica.number
    if math.isnan(request.dispatch_s):
        request.dispatch_s = cluster.clock_s


def answer(cluster: Cluster, request: Request) -> None:
    """The request departs, within its targets or not."""
    request_class, terms = request.request_class, cluster.terms
    request.departure_s = cluster.clock_s
    request.status = RequestStatus.COMPLETED
    response_s = cluster.clock_s - request.arrival_s
    terms["completed"][request_class] += 1
    terms["response_s"][request_class] += response_s
    terms["slo_misses"][request_class] += misses_slo(cluster, request, response_s)
    cluster.responses_s.append(response_s)
    cluster.number_in_system[request_class] -= 1


def misses_slo(cluster: Cluster, request: Request, response_s: float) -> bool:
    """True where the answer, its first token or the tokens after it came too late."""
    target = cluster.scenario.request_classes[request.request_class]
    if response_s > target.slo_s:
        return True
    if math.isnan(request.first_token_s):  # a whole batch: there are no tokens
        return False
    if request.first_token_s - request.arrival_s > target.slo_ttft_s:
        return True
    after_first = request.output_tokens - 1
    if after_first == 0:
        return False
    return (request.departure_s - request.first_token_s) / after_first > target.slo_tpot_s
