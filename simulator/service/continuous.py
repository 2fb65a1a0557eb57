"""Continuous batching: sequences join and leave the running set between iterations.

Between two changes of that set all iterations are decoding, and the context grows by one token a
sequence: their durations are summed in closed form, so the cost is by event, not by token.
"""

import math

from simulator import fifo
from simulator.bookkeeping import (
    begins_serving,
    ends_serving,
    log_event,
    request_is_answered,
    reschedule,
)
from simulator.jit import int64, kernel, rare_kernel
from simulator.parameters import Parameters
from simulator.state import ClusterState, EventKind, ReplicaTimer, RequestStatus

_ADMITTED, _FIRST = int64(EventKind.REQUEST_ADMITTED), int64(EventKind.FIRST_TOKEN)
_PREEMPTED, _COMPLETION = (
    int64(EventKind.REQUEST_PREEMPTED),
    int64(EventKind.REQUEST_COMPLETION),
)
_ENDS = int64(ReplicaTimer.COMPLETION)
_WAITING, _IN_SERVICE = int64(RequestStatus.WAITING), int64(RequestStatus.IN_SERVICE)


@kernel
def iterations_s(
    parameters: Parameters, replica: int, decoding: int, context: int, count: int
) -> float:
    """Seconds of `count` decoding iterations that begin with `context` tokens.

    `j (t0 + t_decode D + t_kv C) + t_kv D j (j - 1) / 2`: the i-th reads `C + (i - 1) D` tokens.
    """
    t0_s, t_decode_s = parameters.iteration_s[replica, 0], parameters.iteration_s[replica, 2]
    t_kv_s = parameters.iteration_s[replica, 3]
    return count * (t0_s + t_decode_s * decoding + t_kv_s * context) + t_kv_s * decoding * (
        count * (count - 1) // 2
    )


@rare_kernel
def iterations_begin(parameters: Parameters, state: ClusterState, lane: int, replica: int) -> None:
    """At a boundary: makes room, prefills and admits, and plans until the next that matters."""
    capacity = parameters.kv_capacity[replica]
    while state.kv_used[lane, replica] + state.decoding[lane, replica] > capacity:
        newest_is_preempted(state, lane, replica)
    decoding = state.decoding[lane, replica]
    prefill = 0
    budget = max(0, parameters.max_batched_tokens[replica] - decoding)
    for place in range(decoding, state.running[lane, replica]):
        left = state.sequence_prefill[lane, replica, place]
        taken = min(left, budget)
        state.sequence_prefill[lane, replica, place] = left - taken
        prefill += taken
        budget -= taken
    prefill += requests_are_admitted(parameters, state, lane, replica, budget)
    running = state.running[lane, replica]
    if running == 0:
        state.planned[lane, replica] = 0
        state.replica_timer_s[lane, replica, _ENDS] = math.inf
        reschedule(parameters, state, lane, replica)
        return
    if not state.serving[lane, replica]:
        begins_serving(parameters, state, lane, replica)
    state.anchor_s[lane, replica] = state.clock_s[lane]
    context = state.context[lane, replica]
    if decoding < running:
        planned = 1
        per = parameters.iteration_s[replica]
        took_s = per[0] + per[1] * prefill + per[2] * decoding + per[3] * context
    else:
        iteration = state.iteration[lane, replica]
        planned = (capacity - state.kv_used[lane, replica]) // decoding
        for place in range(running):
            finish = state.sequence_finish[lane, replica, place]
            planned = min(planned, finish - iteration)
        took_s = iterations_s(parameters, replica, decoding, context, planned)
    state.planned[lane, replica] = planned
    state.replica_timer_s[lane, replica, _ENDS] = state.clock_s[lane] + took_s
    reschedule(parameters, state, lane, replica)


@kernel
def requests_are_admitted(
    parameters: Parameters, state: ClusterState, lane: int, replica: int, budget: int
) -> int:
    """Ready requests join the running set while there is room; returns their prefill tokens.

    First come, first admitted, over all classes. A request holds its prompt, the tokens that it
    kept when it was preempted, and a place for its next token.
    """
    limit = min(state.set_num_seqs[lane], parameters.max_num_seqs[replica])
    decoding = state.decoding[lane, replica]
    prefill = 0
    while budget > 0 and state.running[lane, replica] < limit:
        request_class = fifo.head_class(state, lane, replica)
        if request_class < 0:
            break
        request = fifo.oldest(state, lane, replica, request_class)
        target = int64(state.prompt_tokens[lane, request]) + state.generated[lane, request]
        held = state.kv_used[lane, replica] + target + 1
        if held + decoding > parameters.kv_capacity[replica]:
            break
        fifo.leave(state, lane, replica, request_class)
        taken = min(target, budget)
        prefill += taken
        budget -= taken
        place = state.running[lane, replica]
        state.sequence_request[lane, replica, place] = request
        state.sequence_prefill[lane, replica, place] = target - taken
        state.running[lane, replica] = place + 1
        state.kv_used[lane, replica] = held
        if state.request_status.shape[1] > 0:
            state.request_status[lane, request] = _IN_SERVICE
            state.request_replica[lane, request] = replica
            if math.isnan(state.request_dispatch_s[lane, request]):
                state.request_dispatch_s[lane, request] = state.clock_s[lane]
        log_event(state, lane, _ADMITTED, request)
    return prefill


@rare_kernel
def newest_is_preempted(state: ClusterState, lane: int, replica: int) -> None:
    """The sequence admitted last gives up its memory; its tokens will be computed again."""
    place = state.running[lane, replica] - 1
    request = int64(state.sequence_request[lane, replica, place])
    tokens = int64(state.prompt_tokens[lane, request]) + state.generated[lane, request] + 1
    if place < state.decoding[lane, replica]:
        left = state.sequence_finish[lane, replica, place] - state.iteration[lane, replica]
        generated = state.output_tokens[lane, request] - left
        tokens = int64(state.prompt_tokens[lane, request]) + generated
        state.generated[lane, request] = generated
        state.decoding[lane, replica] -= 1
        state.context[lane, replica] -= tokens
    state.kv_used[lane, replica] -= tokens
    state.running[lane, replica] = place
    fifo.join_in_front(state, lane, replica, request)
    if state.request_status.shape[1] > 0:
        state.request_status[lane, request] = _WAITING
    log_event(state, lane, _PREEMPTED, request)


@rare_kernel
def iterations_end(parameters: Parameters, state: ClusterState, lane: int, replica: int) -> None:
    """Every decoding sequence has its tokens, prefilled ones their first; the finished depart."""
    planned, grown = state.planned[lane, replica], state.decoding[lane, replica]
    state.iteration[lane, replica] += planned
    state.context[lane, replica] += grown * planned
    state.kv_used[lane, replica] += grown * planned
    iteration, clock_s = state.iteration[lane, replica], state.clock_s[lane]
    for place in range(grown, state.running[lane, replica]):
        if state.sequence_prefill[lane, replica, place] > 0:
            break
        request = int64(state.sequence_request[lane, replica, place])
        generated = int64(state.generated[lane, request]) + 1
        state.sequence_finish[lane, replica, place] = (
            iteration + state.output_tokens[lane, request] - generated
        )
        state.decoding[lane, replica] += 1
        state.context[lane, replica] += state.prompt_tokens[lane, request] + generated
        if math.isnan(state.request_first_token_s[lane, request]):
            state.request_first_token_s[lane, request] = clock_s
            log_event(state, lane, _FIRST, request)
    finished_depart(parameters, state, lane, replica)


@kernel
def finished_depart(parameters: Parameters, state: ClusterState, lane: int, replica: int) -> None:
    """Sequences that have their last token depart; the others close ranks, in order."""
    iteration = state.iteration[lane, replica]
    decoding = state.decoding[lane, replica]
    kept = 0
    for place in range(state.running[lane, replica]):
        request = int64(state.sequence_request[lane, replica, place])
        finish = state.sequence_finish[lane, replica, place]
        if place < decoding and finish == iteration:
            tokens = int64(state.prompt_tokens[lane, request]) + state.output_tokens[lane, request]
            state.kv_used[lane, replica] -= tokens
            state.context[lane, replica] -= tokens
            state.decoding[lane, replica] -= 1
            request_is_answered(parameters, state, lane, request)
            log_event(state, lane, _COMPLETION, request)
            continue
        if kept < place:
            state.sequence_request[lane, replica, kept] = request
            state.sequence_finish[lane, replica, kept] = finish
            state.sequence_prefill[lane, replica, kept] = state.sequence_prefill[
                lane, replica, place
            ]
        kept += 1
    state.running[lane, replica] = kept
    if kept == 0 and state.serving[lane, replica]:
        ends_serving(parameters, state, lane, replica)


@rare_kernel
def iterations_are_cut(
    parameters: Parameters, state: ClusterState, lane: int, replica: int
) -> None:
    """The plan ends at the next boundary, so that a newcomer may be admitted there."""
    decoding, context = state.decoding[lane, replica], state.context[lane, replica]
    if decoding < state.running[lane, replica] or state.planned[lane, replica] <= 1:
        return
    anchor_s, clock_s = state.anchor_s[lane, replica], state.clock_s[lane]
    first_s = iterations_s(parameters, replica, decoding, context, 1)
    growth_s = parameters.iteration_s[replica, 3] * decoding
    count = int((clock_s - anchor_s) / first_s)
    if growth_s > 0.0:
        half = first_s - 0.5 * growth_s
        count = int(
            (math.sqrt(half * half + 2.0 * growth_s * (clock_s - anchor_s)) - half) / growth_s
        )
    # The root is within rounding of the boundary; these settle which side it is on.
    count = max(1, count)
    while (
        count > 1
        and anchor_s + iterations_s(parameters, replica, decoding, context, count - 1) > clock_s
    ):
        count -= 1
    while (
        count < state.planned[lane, replica]
        and anchor_s + iterations_s(parameters, replica, decoding, context, count) <= clock_s
    ):
        count += 1
    if count < state.planned[lane, replica]:
        state.planned[lane, replica] = count
        state.replica_timer_s[lane, replica, _ENDS] = anchor_s + iterations_s(
            parameters, replica, decoding, context, count
        )
        reschedule(parameters, state, lane, replica)
