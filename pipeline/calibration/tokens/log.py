"""A log of continuous batching as arrays, and what of it a fit may see."""

from typing import NamedTuple

import numpy as np

from simulator.checks import check
from simulator.workload import Arrivals, check_arrivals

TIMES = ("dispatch_s", "first_token_s", "departure_s")


class LoggedTokens(NamedTuple):
    """The requests of a log in the order of their arrival at the engine, all on one clock.

    In a vLLM log the arrival is `queued_ts`, the dispatch `scheduled_ts` (the first, whatever
    preemption came later): all four are monotonic, `arrival_time` is not of that clock
    (`reference/traces.md` 1e). A request whose times are NaN is known by its arrival and its
    tokens alone: it is simulated, and nothing is compared with it.
    """

    arrival_s: np.ndarray  # [n] s, ascending from 0 or later
    dispatch_s: np.ndarray  # [n] s, NaN where not seen
    first_token_s: np.ndarray  # [n] s, NaN where not seen
    departure_s: np.ndarray  # [n] s, NaN where not seen
    prompt_tokens: np.ndarray  # [n] int, at least 1
    output_tokens: np.ndarray  # [n] int, at least 1
    replica: np.ndarray  # [n] -1 where the log does not say

    @property
    def arrivals(self) -> Arrivals:
        """The load alone, of one request class."""
        count = len(self.arrival_s)
        return Arrivals(
            self.arrival_s,
            np.zeros(count, np.int64),
            np.ones(count),
            self.prompt_tokens.astype(np.int64),
            self.output_tokens.astype(np.int64),
        )


class TokenTimes(NamedTuple):
    """What a user feels. TPOT is of the tokens after the first: NaN where there is but one."""

    ttft_s: np.ndarray  # [n] s from the arrival to the first token
    tpot_s: np.ndarray  # [n] s per output token after the first
    response_s: np.ndarray  # [n] s from the arrival to the departure


def token_times(log: LoggedTokens) -> TokenTimes:
    """TTFT, TPOT and response time of each request, NaN where a time is."""
    later = np.where(log.output_tokens > 1, log.output_tokens - 1, np.nan)
    return TokenTimes(
        log.first_token_s - log.arrival_s,
        (log.departure_s - log.first_token_s) / later,
        log.departure_s - log.arrival_s,
    )


def check_tokens(log: LoggedTokens, replicas: int) -> None:
    """Raises ValueError where the log could not have happened, naming the first such value."""
    count = len(log.arrival_s)
    check(count > 0, "len(arrival_s)", count, "a log without requests says nothing")
    for field, column in log._asdict().items():
        check(len(column) == count, f"len({field})", len(column), f"must be {count}, as arrival_s")
    check_arrivals(log.arrivals, 1)
    before, earlier_s = "arrival_s", log.arrival_s
    for field in TIMES:
        times_s = getattr(log, field)
        bad = np.flatnonzero(np.isinf(times_s) | (times_s < earlier_s))
        for place in bad[:1]:
            rule = f"must be finite and not before {before} = {earlier_s[place].item()!r}"
            check(False, f"{field}[{place}]", times_s[place].item(), rule)
        earlier_s = np.where(np.isnan(times_s), earlier_s, times_s)
        before = field if not np.isnan(times_s).all() else before
    for place in np.flatnonzero((log.replica < -1) | (log.replica >= replicas))[:1]:
        rule = f"must be in 0..{replicas - 1}, or -1 where unknown"
        check(False, f"replica[{place}]", log.replica[place].item(), rule)


def seen_requests(log: LoggedTokens, share: float) -> int:
    """How many requests, in the order of arrival, are the first `share` of the log."""
    check(0 < share <= 1, "share", share, "must be above 0 and at most 1")
    return max(1, round(share * len(log.arrival_s)))


def hide_times(log: LoggedTokens, seen: int) -> LoggedTokens:
    """The log with the times of the first `seen` requests only.

    The others keep their arrival and their tokens, which a prediction is given as well; nothing
    that the engine did with them is left.
    """
    rows = np.arange(len(log.arrival_s)) >= seen
    hidden = {field: np.where(rows, np.nan, getattr(log, field)) for field in TIMES}
    return log._replace(**hidden, replica=np.where(rows, -1, log.replica))


def cut_at(log: LoggedTokens, seen: int) -> LoggedTokens:
    """The first `seen` requests alone, and of their times only those that no other could change.

    First come, first admitted: until the last of them is dispatched, no later arrival can have
    been. What happened after that instant becomes NaN, and so a fit to the result owes nothing to
    the requests left out, not even that they arrived.
    """
    first = LoggedTokens(*(column[:seen] for column in log))
    dispatched = first.dispatch_s[~np.isnan(first.dispatch_s)]
    end_s = dispatched.max() if len(dispatched) else -np.inf
    kept = {
        field: np.where(getattr(first, field) <= end_s, getattr(first, field), np.nan)
        for field in TIMES
    }
    return first._replace(**kept)
