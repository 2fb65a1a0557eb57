"""What bounds the running set of an engine: places, memory, and tokens of an iteration."""

from enum import StrEnum
from typing import NamedTuple

import numpy as np

from pipeline.calibration.tokens.log import LoggedTokens
from simulator.checks import check_whole

_PLATEAU = 0.5  # of the time in which requests wait: a set full for so long is bound by places
_NEAR = 0.9  # of the most that was ever held: as much while others wait, and memory is the reason
_PATIENCE = 2.0  # median prefills: so long a request waits for a boundary, and not for room
_FULL = 0.98  # a set this full counts as full: a place is empty for an iteration after a departure


class Known(StrEnum):
    """How a limit is known: told, met by the log, or only a bound that the log stayed below."""

    STATED = "stated"
    REACHED = "reached"
    NOT_REACHED = "not_reached"


class Limit(NamedTuple):
    """A limit of the engine and how it is known."""

    value: int
    known: Known


class TokenLimits(NamedTuple):
    """The limits of each replica."""

    max_num_seqs: Limit
    kv_capacity_tokens: Limit
    max_batched_tokens: Limit


class StatedLimits(NamedTuple):
    """What the engine's configuration says; None where it is silent."""

    max_num_seqs: int | None = None
    kv_capacity_tokens: int | None = None
    max_batched_tokens: int | None = None


class Occupancy(NamedTuple):
    """The engine at each instant at which something was admitted or departed, m of them."""

    running: np.ndarray  # [m] sequences admitted and not departed, of all replicas
    waiting: np.ndarray  # [m] bool, some request has waited for longer than for a boundary
    admits: np.ndarray  # [m] bool, a request is dispatched for the first time
    held: np.ndarray  # [m] tokens of prompt and output that the running sequences hold
    span_s: np.ndarray  # [m] s until the next such instant


def fit_limits(log: LoggedTokens, replicas: int, stated: StatedLimits) -> TokenLimits:
    """The limits that are stated, and the others from what the log reached.

    `max_num_seqs`: the largest running set, reached where it is full for at least half the time in
    which requests wait. Where they wait and it is not, memory holds them: `kv_capacity_tokens` is
    then the most that was held when a request was first dispatched, if others waited when it was
    about as much. The preempted go before those, so at such an instant none is preempted; at
    others the log does not tell who holds memory. It is too small by up to a prompt.
    `max_batched_tokens`: see `_batched`; several replicas blur it where the log does not tell them
    apart. A limit that was not reached is a bound that the replay of this log does not meet: state
    it where a heavier load is to be predicted, or the replay will know no limit there.

    Raises ValueError where a stated limit is no whole number of at least 1.
    """
    for field, value in stated._asdict().items():
        if value is not None:
            check_whole(field, value, 1)
    occupancy = _occupancy(log)
    waits = occupancy.waiting
    largest = -(-int(occupancy.running.max(initial=1)) // replicas)
    full = occupancy.running >= _FULL * (stated.max_num_seqs or largest) * replicas
    waiting_s = float(occupancy.span_s[waits].sum())
    by_places = waiting_s > 0 and occupancy.span_s[waits & full].sum() >= _PLATEAU * waiting_s
    places = _places(stated, largest, by_places, len(log.arrival_s))
    filled = float(occupancy.held[occupancy.admits].max(initial=0.0))
    met = float(occupancy.held[occupancy.admits & waits].max(initial=0.0))
    if stated.kv_capacity_tokens is not None:
        memory = Limit(stated.kv_capacity_tokens, Known.STATED)
    elif met > 0 and met >= _NEAR * filled and not by_places:
        needed = int((log.prompt_tokens + log.output_tokens).max())
        memory = Limit(max(-(-int(filled) // replicas), needed), Known.REACHED)
    else:
        every_token = int((log.prompt_tokens + log.output_tokens + 1).sum())
        memory = Limit(2 * every_token, Known.NOT_REACHED)
    return TokenLimits(places, memory, _batched(log, places.value, stated.max_batched_tokens))


def _places(stated: StatedLimits, largest: int, reached: bool, requests: int) -> Limit:
    if stated.max_num_seqs is not None:
        return Limit(stated.max_num_seqs, Known.STATED)
    if reached:
        return Limit(largest, Known.REACHED)
    # An iteration gives each sequence a token, so it has no more places than tokens.
    return Limit(
        max(largest, min(requests, stated.max_batched_tokens or requests)), Known.NOT_REACHED
    )


def _batched(log: LoggedTokens, places: int, stated: int | None) -> Limit:
    """The tokens of an iteration, from requests that were dispatched together.

    All but the last of them had their whole prompt in that iteration, or the last would not have
    been admitted. So where all got their first token together, their prompts and the sequences that
    decoded fit into it; where they did not, they were too many. Engines are set to powers of two:
    the one between these bounds, if there is one, else the lower bound.
    """
    if stated is not None:
        return Limit(stated, Known.STATED)
    fits, exceeds = 1, np.inf
    seen = ~np.isnan(log.first_token_s) & ~np.isnan(log.dispatch_s)
    instants, counts = np.unique(log.dispatch_s[seen], return_counts=True)
    for instant_s in instants[counts > 1]:
        together = (log.dispatch_s == instant_s) & ~np.isnan(log.first_token_s)
        decoding = (log.first_token_s <= instant_s) & ~(log.departure_s <= instant_s)
        taken = int(log.prompt_tokens[together].sum() + decoding.sum())
        if len(np.unique(log.first_token_s[together])) == 1:
            fits = max(fits, taken)
        else:
            exceeds = min(exceeds, taken)
    if not exceeds > fits:  # no one budget explains the log; the lower bound is the safer one
        return Limit(max(fits, places), Known.NOT_REACHED)
    if np.isinf(exceeds):
        return Limit(max(fits, int(log.prompt_tokens.max()) + places), Known.NOT_REACHED)
    power = 1 << (fits - 1).bit_length()
    return Limit(max(power if power < exceeds else fits, places), Known.REACHED)


def _occupancy(log: LoggedTokens) -> Occupancy:
    """The engine after each admission and each departure that the log tells."""
    admitted = log.dispatch_s[~np.isnan(log.dispatch_s)]
    departed = log.departure_s[~np.isnan(log.departure_s)]
    last_s = admitted.max(initial=0.0)  # later, who else was admitted is not known
    instants = np.unique(np.concatenate([admitted, departed[departed <= last_s]]))
    running, held = np.zeros(len(instants), np.int64), np.zeros(len(instants))
    waiting = np.zeros(len(instants), bool)
    prefill_s = (log.first_token_s - log.dispatch_s)[~np.isnan(log.first_token_s)]
    patience_s = _PATIENCE * float(np.median(prefill_s)) if len(prefill_s) else 0.0
    for row in range(len(log.arrival_s)):
        dispatch_s, departure_s = log.dispatch_s[row], log.departure_s[row]
        unseen = np.isnan(dispatch_s)
        low, high = np.searchsorted(instants, [log.arrival_s[row] + patience_s, dispatch_s])
        waiting[low : len(instants) if unseen else high] = True
        if unseen:
            continue
        end = len(instants) if np.isnan(departure_s) else np.searchsorted(instants, departure_s)
        inside = slice(high, end)
        running[inside] += 1
        held[inside] += log.prompt_tokens[row] + _generated(log, row, instants[inside])
    admits = np.isin(instants, admitted)
    return Occupancy(running, waiting, admits, held, np.diff(instants, append=last_s))


def _generated(log: LoggedTokens, row: int, instants: np.ndarray) -> np.ndarray:
    """Output tokens of a request at the instants, even in time; none where its end is unseen."""
    first_s, departure_s = log.first_token_s[row], log.departure_s[row]
    if np.isnan(departure_s) or departure_s == first_s:
        return np.zeros(len(instants))
    part = np.clip((instants - first_s) / (departure_s - first_s), 0.0, 1.0)
    return np.where(instants < first_s, 0.0, 1.0 + part * (log.output_tokens[row] - 1))
