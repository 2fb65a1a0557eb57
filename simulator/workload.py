"""What arrives in an episode: instants, request classes and sizes."""

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from simulator.arrivals import poisson_instants, square_phases


class Arrivals(NamedTuple):
    """The requests of an episode in the order of their arrival."""

    arrival_s: np.ndarray  # [R] s from the start of the episode, ascending
    request_class: np.ndarray  # [R]
    size: np.ndarray  # [R] 1.0 where the class has a fixed cost

    def window(self, start_s: float, end_s: float) -> "Arrivals":
        """The requests in [start_s, end_s), their instants counted from `start_s`."""
        low, high = np.searchsorted(self.arrival_s, [start_s, end_s])
        return Arrivals(
            self.arrival_s[low:high] - start_s, self.request_class[low:high], self.size[low:high]
        )


class Workload(Protocol):
    """A source of arrivals. All randomness comes from the generator that is passed."""

    def draw(self, horizon_s: float, generator: np.random.Generator) -> Arrivals:
        """The requests that arrive in [0, horizon_s)."""


def check_arrivals(arrivals: Arrivals, classes: int) -> None:
    """Raises ValueError where the arrivals could not have happened."""
    arrival_s, request_class, size = arrivals
    if not (len(arrival_s) == len(request_class) == len(size)):
        raise ValueError(
            f"arrivals: {len(arrival_s)} instants, {len(request_class)} classes and {len(size)} "
            "sizes; the lengths must be equal"
        )
    if len(arrival_s) == 0:
        return
    if not np.isfinite(arrival_s).all() or arrival_s[0] < 0 or (np.diff(arrival_s) < 0).any():
        raise ValueError("arrival_s: must be finite, at least 0, and ascending")
    if request_class.min() < 0 or request_class.max() >= classes:
        raise ValueError(f"request_class: must be in 0..{classes - 1}, not {request_class.max()}")
    if not (np.isfinite(size).all() and (size > 0).all()):
        raise ValueError("size: must be finite and above 0")


def _check_rates(field: str, rates_rps: tuple[float, ...]) -> None:
    if not rates_rps or not all(math.isfinite(rate) and rate >= 0 for rate in rates_rps):
        raise ValueError(f"{field} = {rates_rps!r}: needs a finite rate of at least 0 per class")


def _merge(instants: list[np.ndarray], classes: list[int]) -> Arrivals:
    arrival_s = np.concatenate(instants)
    request_class = np.repeat(np.array(classes), [len(part) for part in instants])
    order = np.argsort(arrival_s, kind="stable")
    return Arrivals(arrival_s[order], request_class[order], np.ones(len(order)))


@dataclass(frozen=True)
class PoissonWorkload:
    """Independent Poisson arrivals of each class at a constant rate."""

    rate_rps: tuple[float, ...]  # [C]

    def __post_init__(self) -> None:
        _check_rates("rate_rps", self.rate_rps)

    def draw(self, horizon_s: float, generator: np.random.Generator) -> Arrivals:
        """The requests that arrive in [0, horizon_s)."""
        instants = [poisson_instants(rate, 0.0, horizon_s, generator) for rate in self.rate_rps]
        return _merge(instants, list(range(len(instants))))


@dataclass(frozen=True)
class SquareBurstWorkload:
    """Poisson arrivals whose rate switches squarely between low and high.

    The paper's Extreme Burst is 0 and 100 req/s (section 3.2). It starts low (D23); with
    `random_phase` an episode enters the cycle at a uniform instant.
    """

    low_rps: tuple[float, ...]  # [C]
    high_rps: tuple[float, ...]  # [C]
    low_s: float
    high_s: float
    random_phase: bool = False

    def __post_init__(self) -> None:
        _check_rates("low_rps", self.low_rps)
        _check_rates("high_rps", self.high_rps)
        if len(self.low_rps) != len(self.high_rps):
            raise ValueError(f"high_rps = {self.high_rps!r}: needs as many classes as low_rps")
        for field in ("low_s", "high_s"):
            value = getattr(self, field)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{field} = {value!r}: must be positive and finite")

    def draw(self, horizon_s: float, generator: np.random.Generator) -> Arrivals:
        """The requests that arrive in [0, horizon_s)."""
        cycle_s = self.low_s + self.high_s
        offset_s = generator.uniform(0.0, cycle_s) if self.random_phase else 0.0
        instants, classes = [np.zeros(0)], [0]
        for start_s, end_s, high in square_phases(self.low_s, self.high_s, offset_s, horizon_s):
            rates_rps = self.high_rps if high else self.low_rps
            for request_class, rate_rps in enumerate(rates_rps):
                instants.append(poisson_instants(rate_rps, start_s, end_s, generator))
                classes.append(request_class)
        return _merge(instants, classes)


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
        if not (math.isfinite(self.rate_scale) and self.rate_scale > 0):
            raise ValueError(f"rate_scale = {self.rate_scale!r}: must be positive and finite")
        if not (math.isfinite(self.span_s) and self.span_s > 0):
            raise ValueError(f"span_s = {self.span_s!r}: must be positive and finite")

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
