"""Which replicas are on: cold starts, draining, and the rules that ask for more or fewer."""

import math

from simulator.conditions import Autoscaler
from simulator.reference.cluster import Cluster, log_event
from simulator.reference.parts import ReplicaState
from simulator.reference.signals import in_flight
from simulator.state import EventKind, ReplicaMode


def settle(cluster: Cluster, replica: ReplicaState) -> None:
    """A wanted replica that is off starts; one that is not wanted and has nothing left is off."""
    if cluster.wants(replica):
        if replica.mode == ReplicaMode.OFF:
            replica_starts(cluster, replica)
    elif replica.mode != ReplicaMode.OFF and in_flight(cluster, replica) == 0:
        replica.mode = ReplicaMode.OFF
        replica.ready_s = math.inf
        log_event(cluster, EventKind.REPLICA_OFF, replica.number)


def replica_starts(cluster: Cluster, replica: ReplicaState) -> None:
    """The cold start begins; the durations drawn for the replica are taken in turns."""
    durations = cluster.luck.cold_start_s
    cold_start_s = 0.0
    if durations.size:
        drawn = durations[replica.number]
        cold_start_s = float(drawn[replica.starts % len(drawn)])
    replica.starts += 1
    replica.mode = ReplicaMode.STARTING
    replica.ready_s = cluster.clock_s + cold_start_s
    log_event(cluster, EventKind.REPLICA_START, replica.number)


def set_replicas_on(cluster: Cluster, replicas_on: int) -> None:
    """So many replicas are wanted from now on: those with the lowest numbers."""
    cluster.replicas_on = replicas_on
    for replica in cluster.replicas:
        settle(cluster, replica)


def activate_for(cluster: Cluster, request_class: int) -> None:
    """Raises the wanted number of replicas until one of them serves the class."""
    while not any(
        cluster.wants(replica) and replica.serves(request_class) for replica in cluster.replicas
    ):
        set_replicas_on(cluster, cluster.replicas_on + 1)


def autoscale(cluster: Cluster, rule: Autoscaler) -> None:
    """More replicas at once; fewer only when that was wanted for `scale_down_delay_s`."""
    in_system = sum(cluster.number_in_system)
    desired = max(rule.keep_warm_replicas, math.ceil(in_system / rule.target_in_system))
    desired = min(len(cluster.replicas), desired)
    if desired < cluster.replicas_on:
        cluster.below_since_s = min(cluster.below_since_s, cluster.clock_s)
        if cluster.clock_s - cluster.below_since_s < rule.scale_down_delay_s:
            return
    cluster.below_since_s = math.inf
    if desired != cluster.replicas_on:
        set_replicas_on(cluster, desired)
