"""The queues of a lane: one first-in-first-out ring buffer for each queue and request class.

Queue 0 is the central queue; with replica queues, queue k is that of replica k. Requests in transit
to a replica are the last of its queue.
"""

import numpy as np

from simulator.jit import int64, kernel, rare_kernel
from simulator.parameters import Parameters
from simulator.state import ClusterState

CENTRAL = int64(0)  # not a literal, for which Numba would compile every callee once more


@kernel
def waiting(state: ClusterState, lane: int, queue: int) -> int:
    """Requests of the queue over all classes, those in transit included."""
    total = 0
    for request_class in range(state.queue_length.shape[2]):
        total += state.queue_length[lane, queue, request_class]
    return total


@kernel
def ready(state: ClusterState, lane: int, queue: int, request_class: int) -> int:
    """Requests of the class that may be served now."""
    return (
        state.queue_length[lane, queue, request_class]
        - state.queue_transit[lane, queue, request_class]
    )


@kernel
def ready_in_all(state: ClusterState, lane: int, queue: int) -> int:
    """Requests of the queue, over all classes, that may be served now."""
    total = 0
    for request_class in range(state.queue_length.shape[2]):
        total += ready(state, lane, queue, request_class)
    return total


@kernel
def join(state: ClusterState, lane: int, queue: int, request_class: int, request: int) -> None:
    """The request takes the last place of its class."""
    capacity = state.queue_request.shape[3]
    place = state.queue_start[lane, queue, request_class]
    place += state.queue_length[lane, queue, request_class]
    if place >= capacity:
        place -= capacity
    state.queue_request[lane, queue, request_class, place] = request
    state.queue_length[lane, queue, request_class] += 1


@kernel
def join_in_front(state: ClusterState, lane: int, queue: int, request: int) -> None:
    """The request takes the first place of its class."""
    request_class = state.request_class[lane, request]
    start = state.queue_start[lane, queue, request_class] - 1
    if start < 0:
        start += state.queue_request.shape[3]
    state.queue_start[lane, queue, request_class] = start
    state.queue_request[lane, queue, request_class, start] = request
    state.queue_length[lane, queue, request_class] += 1


@kernel
def leave(state: ClusterState, lane: int, queue: int, request_class: int) -> int:
    """The oldest request of the class leaves the queue; returns its number."""
    start = state.queue_start[lane, queue, request_class]
    request = int64(state.queue_request[lane, queue, request_class, start])
    start += 1
    if start == state.queue_request.shape[3]:
        start = 0
    state.queue_start[lane, queue, request_class] = start
    state.queue_length[lane, queue, request_class] -= 1
    return request


@kernel
def oldest(state: ClusterState, lane: int, queue: int, request_class: int) -> int:
    """Number of the oldest waiting request of the class, which must have one."""
    start = state.queue_start[lane, queue, request_class]
    return int64(state.queue_request[lane, queue, request_class, start])


@kernel
def head_class(state: ClusterState, lane: int, queue: int) -> int:
    """Class of the ready request that came first, -1 where none waits.

    Requests are numbered in the order of arrival, so the smallest number is at the head.
    """
    head, head_request = -1, 0
    for request_class in range(state.queue_length.shape[2]):
        if ready(state, lane, queue, request_class) > 0:
            request = oldest(state, lane, queue, request_class)
            if head < 0 or request < head_request:
                head, head_request = request_class, request
    return head


@rare_kernel
def next_to_join(state: ClusterState, lane: int, queue: int) -> int:
    """The request in transit that reaches the replica first, -1 without one."""
    first = -1
    capacity = state.queue_request.shape[3]
    for request_class in range(state.queue_length.shape[2]):
        if state.queue_transit[lane, queue, request_class] > 0:
            place = state.queue_start[lane, queue, request_class]
            place += ready(state, lane, queue, request_class)
            if place >= capacity:
                place -= capacity
            request = int64(state.queue_request[lane, queue, request_class, place])
            if first < 0 or request < first:
                first = request
    return first


@rare_kernel
def firing_class(
    parameters: Parameters, state: ClusterState, lane: int, queue: int, replica: int
) -> int:
    """The class of which the local rule starts a batch on the replica now, -1 without one.

    A class fires when `max_batch_size` requests are ready or its oldest has waited
    `batch_timeout_s`; of those that fire, the one whose oldest came first. Mixed batches count all
    classes as one.
    """
    limit = min(state.set_batch_size[lane], parameters.max_batch_size[replica])
    clock_s, timeout_s = state.clock_s[lane], state.set_timeout_s[lane]
    if parameters.mixed != 0:
        head = head_class(state, lane, queue)
        if head >= 0 and ready_in_all(state, lane, queue) < limit:
            request = oldest(state, lane, queue, head)
            if clock_s < state.arrival_s[lane, request] + timeout_s:
                head = -1
        return head
    first, first_request = -1, 0
    for request_class in range(state.queue_length.shape[2]):
        count = ready(state, lane, queue, request_class)
        if count > 0 and parameters.serves[replica, request_class]:
            request = oldest(state, lane, queue, request_class)
            fires = count >= limit or clock_s >= state.arrival_s[lane, request] + timeout_s
            if fires and (first < 0 or request < first_request):
                first, first_request = request_class, request
    return first


@rare_kernel
def next_firing_s(
    parameters: Parameters, state: ClusterState, lane: int, queue: int, replica: int
) -> float:
    """When a batch timeout of the queue expires for the replica, infinite with nothing ready."""
    earliest_s = np.inf
    for request_class in range(state.queue_length.shape[2]):
        if (
            ready(state, lane, queue, request_class) > 0
            and parameters.serves[replica, request_class]
        ):
            request = oldest(state, lane, queue, request_class)
            fires_s = state.arrival_s[lane, request] + state.set_timeout_s[lane]
            earliest_s = min(earliest_s, fires_s)
    return earliest_s
