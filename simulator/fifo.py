"""The central queue of a lane: one first-in-first-out ring buffer for each request class."""

from simulator.jit import kernel
from simulator.state import ClusterState


@kernel
def waiting(state: ClusterState, lane: int) -> int:
    """Requests that wait in the lane, over all classes."""
    total = 0
    for request_class in range(state.queue_length.shape[1]):
        total += state.queue_length[lane, request_class]
    return total


@kernel
def join(state: ClusterState, lane: int, request_class: int, request: int) -> None:
    """The request takes the last place of its class."""
    capacity = state.queue_request.shape[2]
    place = state.queue_start[lane, request_class] + state.queue_length[lane, request_class]
    if place >= capacity:
        place -= capacity
    state.queue_request[lane, request_class, place] = request
    state.queue_length[lane, request_class] += 1


@kernel
def leave(state: ClusterState, lane: int, request_class: int) -> int:
    """The oldest request of the class leaves the queue; returns its number."""
    start = state.queue_start[lane, request_class]
    request = state.queue_request[lane, request_class, start]
    start += 1
    state.queue_start[lane, request_class] = 0 if start == state.queue_request.shape[2] else start
    state.queue_length[lane, request_class] -= 1
    return request


@kernel
def oldest(state: ClusterState, lane: int, request_class: int) -> int:
    """Number of the oldest waiting request of the class, which must have one."""
    return state.queue_request[lane, request_class, state.queue_start[lane, request_class]]


@kernel
def head_class(state: ClusterState, lane: int) -> int:
    """Class of the request that has waited longest, -1 where none waits.

    Requests are numbered in the order of arrival, so the smallest number is at the head.
    """
    head, head_request = -1, 0
    for request_class in range(state.queue_length.shape[1]):
        if state.queue_length[lane, request_class] > 0:
            request = oldest(state, lane, request_class)
            if head < 0 or request < head_request:
                head, head_request = request_class, request
    return head
