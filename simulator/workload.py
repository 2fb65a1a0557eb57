"""What arrives in an episode: instants, request classes, sizes and tokens; recorded traces."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from simulator.checks import check

_TOKENS = ("prompt_tokens", "output_tokens")
_NO_TOKENS = np.zeros(0, np.int64)
_NO_TOKENS.flags.writeable = False  # shared by all arrivals without tokens


class Arrivals(NamedTuple):
    """The requests of an episode in the order of their arrival."""

    arrival_s: np.ndarray  # [R] s from the start of the episode, ascending
    request_class: np.ndarray  # [R]
    size: np.ndarray  # [R] 1.0 where the class has a fixed cost
    prompt_tokens: np.ndarray = _NO_TOKENS  # [R] int, at least 1; [0] where requests have no tokens
    output_tokens: np.ndarray = _NO_TOKENS  # [R] int, at least 1; [0] where requests have no tokens

    def window(self, start_s: float, end_s: float) -> "Arrivals":
        """The requests in [start_s, end_s), their instants counted from `start_s`."""
        low, high = np.searchsorted(self.arrival_s, [start_s, end_s])
        # A slice of the empty column of requests without tokens is empty.
        arrival_s, *others = (column[low:high] for column in self)
        return Arrivals(arrival_s - start_s, *others)


class Workload(Protocol):
    """A source of arrivals. All randomness comes from the generator that is passed."""

    def draw(self, horizon_s: float, generator: np.random.Generator) -> Arrivals:
        """The requests that arrive in [0, horizon_s)."""


def check_arrivals(arrivals: Arrivals, classes: int) -> None:
    """Raises ValueError where the arrivals could not have happened, naming the first such value."""
    _check_lengths(arrivals)
    arrival_s, request_class, size, *_ = arrivals
    finite = np.isfinite(arrival_s) & (arrival_s >= 0)
    _check_each(finite, "arrival_s", arrival_s, "must be finite and at least 0")
    ascending = arrival_s[1:] >= arrival_s[:-1]
    if not ascending.all():
        place = int(np.argmin(ascending))
        rule = f"must be ascending, after arrival_s[{place}] = {arrival_s[place].item()!r}"
        check(False, f"arrival_s[{place + 1}]", arrival_s[place + 1].item(), rule)
    known = _whole(request_class) & (request_class >= 0) & (request_class < classes)
    rule = f"must be a whole number in 0..{classes - 1}"
    _check_each(known, "request_class", request_class, rule)
    positive = np.isfinite(size) & (size > 0)
    _check_each(positive, "size", size, "must be finite and above 0")
    for field in _TOKENS:
        tokens = getattr(arrivals, field)
        rule = "must be a whole number of at least 1"
        _check_each(_whole(tokens) & (tokens >= 1), field, tokens, rule)


def _check_lengths(arrivals: Arrivals) -> None:
    count = len(arrivals.arrival_s)
    rule = f"the lengths must be equal, and there are {count} of arrival_s"
    for field in ("request_class", "size"):
        length = len(getattr(arrivals, field))
        check(length == count, f"len({field})", length, rule)
    for field in _TOKENS:
        length = len(getattr(arrivals, field))
        check(length in (0, count), f"len({field})", length, f"{rule}; or 0 without tokens")


def _check_each(holds: np.ndarray, field: str, values: np.ndarray, rule: str) -> None:
    """Raises ValueError that names the first value for which the rule does not hold."""
    if not holds.all():
        place = int(np.argmin(holds))
        check(False, f"{field}[{place}]", values[place].item(), rule)


def _whole(values: np.ndarray) -> np.ndarray:
    if np.issubdtype(values.dtype, np.integer):
        return np.ones(len(values), bool)
    return np.isfinite(values) & (values == np.rint(values))


@dataclass(frozen=True)
class RecordedWorkload:
    """The same recorded requests in every episode: for evaluation and for replaying a log."""

    arrivals: Arrivals

    def draw(self, horizon_s: float, generator: np.random.Generator) -> Arrivals:
        """The recorded requests in [0, horizon_s); the generator is not used."""
        return self.arrivals.window(0.0, horizon_s)


@dataclass(frozen=True)
class TraceWorkload:
    """Windows of a recorded trace, each entered at a uniform instant: for training.

    `rate_scale` above 1 compresses time, which raises the rate and keeps the shape.
    """

    arrivals: Arrivals
    span_s: float  # length of the recording
    rate_scale: float = 1.0

    def __post_init__(self) -> None:
        for field in ("rate_scale", "span_s"):
            value = getattr(self, field)
            check(math.isfinite(value) and value > 0, field, value, "must be positive and finite")

    @property
    def rate_rps(self) -> float:
        """Requests per second, on average over the whole trace as it is shown."""
        return self.rate_scale * len(self.arrivals.arrival_s) / self.span_s

    def rescaled_to(self, rate_rps: float) -> "TraceWorkload":
        """The same trace shown at a mean rate of `rate_rps`; its `rate_scale` is the factor.

        All gaps are divided by one factor, so their coefficient of variation and the order of
        classes, sizes and tokens are those of the trace. Report the factor: at 10, an hour of
        trace passes in six minutes (D24). Raises ValueError where the trace has no requests.
        """
        holds = math.isfinite(rate_rps) and rate_rps > 0
        check(holds, "rate_rps", rate_rps, "must be positive and finite")
        count = len(self.arrivals.arrival_s)
        check(count > 0, "len(arrival_s)", count, "a trace without requests has no rate to scale")
        return replace(self, rate_scale=rate_rps * self.span_s / count)

    def draw(self, horizon_s: float, generator: np.random.Generator) -> Arrivals:
        """The requests of a window of `horizon_s`; ValueError where the trace is shorter."""
        length_s = horizon_s * self.rate_scale
        if length_s > self.span_s:
            raise ValueError(
                f"horizon_s = {horizon_s!r}: an episode needs {length_s:g} s of the trace, which "
                f"spans {self.span_s:g} s"
            )
        start_s = generator.uniform(0.0, self.span_s - length_s)
        window = self.arrivals.window(start_s, start_s + length_s)
        return window._replace(arrival_s=window.arrival_s / self.rate_scale)
