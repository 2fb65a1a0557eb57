"""Continuous batching (Orca, vLLM): sequences join and leave the running set at iterations.

A run of iterations in which nothing but decoding happens is one jump: its end is planned, and a
newcomer cuts it at the next boundary between two iterations.
"""

import math

from simulator.reference.accounting import answer, begin_service, note_busy
from simulator.reference.cluster import Cluster, log_event
from simulator.reference.parts import ReplicaState, Request, RunningSequence
from simulator.replica import TokenModel
from simulator.state import EventKind, ReplicaMode, RequestStatus


def begin_iteration(cluster: Cluster, replica: ReplicaState) -> None:
    """At a boundary: preempts for want of memory, prefills, admits, and plans what comes next."""
    if replica.mode != ReplicaMode.UP:
        return
    tokens = tokens_of(replica)
    was_busy = replica.busy
    while replica.kv_used + replica.decoding > tokens.kv_capacity_tokens:
        newest_is_preempted(cluster, replica)
    budget = max(0, tokens.max_batched_tokens - replica.decoding)
    prefilled = 0
    for sequence in replica.running:
        if not sequence.decodes:
            prefilled += prefill(sequence, budget - prefilled)
    prefilled += admit(cluster, replica, budget - prefilled)
    if replica.busy != was_busy:
        note_busy(cluster, replica, was_busy)
    plan(cluster, replica, prefilled)


def newest_is_preempted(cluster: Cluster, replica: ReplicaState) -> None:
    """The newest sequence gives its memory back; it will prefill again what it had generated."""
    sequence = replica.running.pop()
    request = sequence.request
    held = sequence.target + 1
    if sequence.decodes:
        request.generated = request.output_tokens - (sequence.finish - replica.iteration)
        held = request.prompt_tokens + request.generated
        replica.context -= held
    replica.kv_used -= held
    request.status = RequestStatus.WAITING
    cluster.queue_of(replica).ready[request.request_class].appendleft(request)
    log_event(cluster, EventKind.REQUEST_PREEMPTED, request.number)


def prefill(sequence: RunningSequence, budget: int) -> int:
    """Tokens of the sequence that this iteration prefills."""
    taken = min(sequence.left, budget)
    sequence.left -= taken
    return taken


def admit(cluster: Cluster, replica: ReplicaState, budget: int) -> int:
    """Takes waiting requests in, oldest first, while tokens, places and memory last.

    Returns the tokens that they prefill in this iteration.
    """
    tokens, queue = tokens_of(replica), cluster.queue_of(replica)
    places = min(cluster.set_points.max_num_seqs, tokens.max_num_seqs)
    prefilled = 0
    while prefilled < budget and len(replica.running) < places and queue.ready_count > 0:
        request = min(queue.heads(), key=lambda request: request.number)
        target = request.prompt_tokens + request.generated
        if replica.kv_used + target + 1 + replica.decoding > tokens.kv_capacity_tokens:
            break
        queue.ready[request.request_class].popleft()
        sequence = RunningSequence(request, target, left=target)
        replica.running.append(sequence)
        replica.kv_used += target + 1
        prefilled += prefill(sequence, budget - prefilled)
        begin_service(cluster, replica, request)
        log_event(cluster, EventKind.REQUEST_ADMITTED, request.number)
    return prefilled


def plan(cluster: Cluster, replica: ReplicaState, prefilled: int) -> None:
    """Plans one iteration if something is prefilled, else all until a sequence or memory ends."""
    if not replica.running:
        return
    tokens, decoding = tokens_of(replica), replica.decoding
    replica.anchor_s = cluster.clock_s
    if decoding < len(replica.running):
        replica.planned = 1
        duration_s = tokens.t0_s + tokens.t_prefill_s * prefilled
        duration_s += tokens.t_decode_s * decoding
        duration_s += tokens.t_kv_s * replica.context
    else:
        to_finish = min(sequence.finish - replica.iteration for sequence in replica.running)
        to_full = (tokens.kv_capacity_tokens - replica.kv_used) // decoding
        replica.planned = min(to_finish, to_full)
        duration_s = decoding_s(replica, replica.planned)
    replica.iteration_end_s = replica.anchor_s + duration_s


def decoding_s(replica: ReplicaState, iterations: int) -> float:
    """Seconds of so many iterations from the anchor on, in which every running sequence decodes.

    The context grows by one token a sequence in each: the sum over j of
    `t0 + t_decode * D + t_kv * (C + j * D)`.
    """
    tokens, j = tokens_of(replica), iterations
    first_s = tokens.t0_s + tokens.t_decode_s * replica.decoding + tokens.t_kv_s * replica.context
    return j * first_s + tokens.t_kv_s * replica.decoding * (j * (j - 1) // 2)


def newcomer_cuts_jump(cluster: Cluster, replica: ReplicaState) -> None:
    """A jump ends at the next boundary, because there a request could be admitted."""
    if replica.decoding < len(replica.running):
        return  # one iteration with a prefill is no jump
    iterations = 1
    while replica.anchor_s + decoding_s(replica, iterations) <= cluster.clock_s:
        iterations += 1
    if iterations < replica.planned:
        replica.planned = iterations
        replica.iteration_end_s = replica.anchor_s + decoding_s(replica, iterations)


def iterations_end(cluster: Cluster, replica: ReplicaState) -> None:
    """The planned iterations are over: every sequence has its tokens, and some are answered."""
    gained = replica.decoding * replica.planned
    replica.iteration += replica.planned
    replica.context += gained
    replica.kv_used += gained
    replica.planned, replica.iteration_end_s = 0, math.inf
    for sequence in replica.running:
        if not sequence.decodes and sequence.left == 0:
            first_token_comes(cluster, replica, sequence)
    for sequence in list(replica.running):
        if sequence.finish == replica.iteration:
            sequence_completes(cluster, replica, sequence)


def first_token_comes(cluster: Cluster, replica: ReplicaState, sequence: RunningSequence) -> None:
    """The prefill is done, which gives a token; from now on the sequence decodes."""
    request = sequence.request
    sequence.finish = replica.iteration + request.output_tokens - request.generated - 1
    replica.context += sequence.target + 1
    if math.isnan(request.first_token_s):
        request.first_token_s = cluster.clock_s
        log_event(cluster, EventKind.FIRST_TOKEN, request.number)


def sequence_completes(cluster: Cluster, replica: ReplicaState, sequence: RunningSequence) -> None:
    """The last token is out: the request departs and its memory is free."""
    request = sequence.request
    held = request.prompt_tokens + request.output_tokens
    replica.kv_used -= held
    replica.context -= held
    if len(replica.running) == 1:
        note_busy(cluster, replica, was_busy=True)
    replica.running.remove(sequence)
    answer(cluster, request)
    log_event(cluster, EventKind.REQUEST_COMPLETION, request.number)


def tokens_of(replica: ReplicaState) -> TokenModel:
    """The token model of a replica that runs continuous batching."""
    if replica.model.tokens is None:
        raise RuntimeError(f"replica {replica.number} serves whole batches")
    return replica.model.tokens


def is_newcomer(cluster: Cluster, replica: ReplicaState, request: Request) -> bool:
    """True where the request is the only one ready in the queue of the replica."""
    queue = cluster.queue_of(replica)
    return queue.ready_count == 1 and queue.heads()[0] is request
