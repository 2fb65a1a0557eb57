"""How long a batch takes: the line, a measured table, padding, mixed classes, memory, noise."""

import math

from simulator import fifo
from simulator.jit import int64, kernel, rare_kernel
from simulator.parameters import SLOWEST, SUM, Parameters
from simulator.state import ClusterState


@kernel
def expected_latency_s(
    parameters: Parameters, replica: int, request_class: int, total_size: float
) -> float:
    """Batch latency without noise: `alpha + beta * total size` (paper, 3.1), or a table's."""
    if parameters.table_count[replica, request_class] > 0:
        return table_latency_s(parameters, replica, request_class, total_size)
    return (
        parameters.alpha_s[replica, request_class]
        + parameters.beta_s[replica, request_class] * total_size
    )


@rare_kernel
def table_latency_s(
    parameters: Parameters, replica: int, request_class: int, total_size: float
) -> float:
    """Interpolated batch latency of a measured table.

    Constant before the first point; beyond the last, along the last segment unless that falls.
    """
    count = parameters.table_count[replica, request_class]
    sizes = parameters.table_size[replica, request_class]
    latencies_s = parameters.table_latency_s[replica, request_class]
    if total_size <= sizes[0] or count == 1:
        return latencies_s[0]
    point = 1
    while point < count - 1 and sizes[point] < total_size:
        point += 1
    before_s, after_s = latencies_s[point - 1], latencies_s[point]
    before, after = sizes[point - 1], sizes[point]
    if total_size > after:
        slope_s = max(0.0, (after_s - before_s) / (after - before))
        return after_s + slope_s * (total_size - after)
    return before_s + (after_s - before_s) * ((total_size - before) / (after - before))


@kernel
def noise_factor(parameters: Parameters, replica: int, request_class: int, z: float) -> float:
    """The factor of a standard normal z: a measured residual, or lognormal of mean 1.

    The residual is the quantile at the normal probability of z, so that slow spells, which make z
    correlated, reach it as well. Lognormal: `exp(sigma z - sigma^2 / 2)`.
    """
    count = parameters.residual_count[replica, request_class]
    if count > 0:
        place = int(0.5 * math.erfc(-z / math.sqrt(2.0)) * count)
        return parameters.residual[replica, request_class, min(place, count - 1)]
    sigma = parameters.noise_sigma[replica, request_class]
    if sigma > 0.0:
        return math.exp(sigma * z - 0.5 * sigma * sigma)
    return 1.0


@rare_kernel
def special_batch_is_taken(
    parameters: Parameters,
    state: ClusterState,
    lane: int,
    replica: int,
    slot: int,
    request_class: int,
    limit: int,
) -> float:
    """Moves the oldest requests that fit into the slot; returns the expected latency in s.

    As many as `limit` and the memory of the replica allow, at least one; of all classes where
    batches are mixed.
    """
    queue = replica if parameters.replica_queues else 0
    used_gib = 0.0
    count = 0
    while count < limit:
        next_class = request_class
        if parameters.mixed != 0:
            next_class = fifo.head_class(state, lane, queue)
        if next_class < 0 or fifo.ready(state, lane, queue, next_class) == 0:
            break
        size = state.size[lane, fifo.oldest(state, lane, queue, next_class)]
        used_gib += parameters.request_memory_gib[replica, next_class] * size
        if count > 0 and used_gib > parameters.memory_gib[replica]:
            break
        request = fifo.leave(state, lane, queue, next_class)
        state.batch_request[lane, replica, slot, count] = request
        count += 1
    state.batch_size[lane, replica, slot] = count
    oldest = state.batch_request[lane, replica, slot, 0]
    state.batch_class[lane, replica, slot] = state.request_class[lane, oldest]
    if parameters.mixed == SUM:
        return _sum_latency_s(parameters, state, lane, replica, slot)
    return _class_latency_s(parameters, state, lane, replica, slot)


@kernel
def _largest_size(state: ClusterState, lane: int, replica: int, slot: int) -> float:
    largest = 0.0
    for place in range(state.batch_size[lane, replica, slot]):
        request = state.batch_request[lane, replica, slot, place]
        largest = max(largest, state.size[lane, request])
    return largest


@kernel
def _as_padded(parameters: Parameters, replica: int, count: int, total: float) -> float:
    """What a total over `count` requests becomes when the batch is padded to an allowed size."""
    padded = parameters.padded_size[replica, count]
    if padded != count:
        return total * padded / count
    return total


@kernel
def _sum_latency_s(
    parameters: Parameters, state: ClusterState, lane: int, replica: int, slot: int
) -> float:
    """The largest alpha of the classes present, plus beta times size of every request."""
    count = state.batch_size[lane, replica, slot]
    largest = _largest_size(state, lane, replica, slot)
    alpha_s, work_s = 0.0, 0.0
    for place in range(count):
        request = state.batch_request[lane, replica, slot, place]
        request_class = state.request_class[lane, request]
        size = largest if parameters.pads_to_largest[replica] else state.size[lane, request]
        alpha_s = max(alpha_s, parameters.alpha_s[replica, request_class])
        work_s += parameters.beta_s[replica, request_class] * size
    return alpha_s + _as_padded(parameters, replica, count, work_s)


@kernel
def _class_latency_s(
    parameters: Parameters, state: ClusterState, lane: int, replica: int, slot: int
) -> float:
    """The latency of the slowest class present; of the one class where batches are not mixed."""
    count = state.batch_size[lane, replica, slot]
    total_size = 0.0
    for place in range(count):
        total_size += state.size[lane, state.batch_request[lane, replica, slot, place]]
    if parameters.pads_to_largest[replica]:
        total_size = count * _largest_size(state, lane, replica, slot)
    total_size = _as_padded(parameters, replica, count, total_size)
    if parameters.mixed != SLOWEST:
        request_class = state.batch_class[lane, replica, slot]
        return expected_latency_s(parameters, replica, request_class, total_size)
    slowest_s = 0.0
    for place in range(count):
        request = state.batch_request[lane, replica, slot, place]
        request_class = int64(state.request_class[lane, request])
        slowest_s = max(
            slowest_s, expected_latency_s(parameters, replica, request_class, total_size)
        )
    return slowest_s
