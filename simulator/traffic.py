"""Generated traffic: Poisson, bursts, Markov-modulated, renewal and diurnal arrivals."""

import math
from dataclasses import dataclass

import numpy as np

from simulator.arrivals import (
    GapLaw,
    diurnal_instants,
    markov_phases,
    phase_instants,
    poisson_instants,
    renewal_instants,
    square_phases,
    stationary_shares,
)
from simulator.checks import check
from simulator.sizes import (
    ONE_CLASS,
    RequestMix,
    RequestSizes,
    check_positive,
    check_shares,
    check_sizes,
    draw_sizes,
)
from simulator.workload import Arrivals

ClassSizes = tuple[RequestSizes, ...]  # [C], or none: all sizes 1, no tokens, nothing drawn


def _check_rates(field: str, rates_rps: tuple[float, ...]) -> None:
    check(
        len(rates_rps) > 0 and all(math.isfinite(rate) and rate >= 0 for rate in rates_rps),
        field,
        rates_rps,
        "needs a finite rate of at least 0 per class",
    )


def _merge(instants: list[np.ndarray], classes: list[int]) -> Arrivals:
    arrival_s = np.concatenate(instants)
    request_class = np.repeat(np.array(classes), [len(part) for part in instants])
    order = np.argsort(arrival_s, kind="stable")
    return Arrivals(arrival_s[order], request_class[order], np.ones(len(order)))


def _sized(arrivals: Arrivals, sizes: ClassSizes, generator: np.random.Generator) -> Arrivals:
    """The same arrivals with drawn sizes and tokens. They are drawn last: sizes move no arrival."""
    if not sizes:
        return arrivals
    drawn = draw_sizes(arrivals.request_class, sizes, generator)
    return Arrivals(arrivals.arrival_s, arrivals.request_class, *drawn)


@dataclass(frozen=True)
class PoissonWorkload:
    """Independent Poisson arrivals of each class at a constant rate."""

    rate_rps: tuple[float, ...]  # [C]
    sizes: ClassSizes = ()

    def __post_init__(self) -> None:
        _check_rates("rate_rps", self.rate_rps)
        check_sizes(self.sizes, len(self.rate_rps))

    def draw(self, horizon_s: float, generator: np.random.Generator) -> Arrivals:
        """The requests that arrive in [0, horizon_s)."""
        instants = [poisson_instants(rate, 0.0, horizon_s, generator) for rate in self.rate_rps]
        return _sized(_merge(instants, list(range(len(instants)))), self.sizes, generator)


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
    sizes: ClassSizes = ()

    def __post_init__(self) -> None:
        _check_rates("low_rps", self.low_rps)
        _check_rates("high_rps", self.high_rps)
        classes = len(self.low_rps)
        alike = len(self.high_rps) == classes
        check(alike, "high_rps", self.high_rps, "needs as many classes as low_rps")
        check_positive("low_s", self.low_s)
        check_positive("high_s", self.high_s)
        check_sizes(self.sizes, classes)

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
        return _sized(_merge(instants, classes), self.sizes, generator)


@dataclass(frozen=True)
class MarkovModulatedWorkload:
    """Poisson arrivals whose rates follow the phase of a Markov chain, common to all classes.

    Phase i lasts an exponential time of mean `mean_phase_s[i]`, then the chain jumps to another
    phase j with probability `jump_probability[i][j]`. An episode starts in `first_phase`; without
    it, in the steady state, as a window onto traffic that has been running. Fischer and
    Meier-Hellstern, The Markov-modulated Poisson process cookbook (1993).
    """

    rate_rps: tuple[tuple[float, ...], ...]  # [P, C]
    mean_phase_s: tuple[float, ...]  # [P]
    jump_probability: tuple[tuple[float, ...], ...]  # [P, P] rows sum to 1, 0 on the diagonal
    first_phase: int | None = None
    sizes: ClassSizes = ()

    def __post_init__(self) -> None:
        phases = len(self.rate_rps)
        rule = "needs two phases or more; one is a PoissonWorkload"
        check(phases >= 2, "rate_rps", self.rate_rps, rule)
        classes = len(self.rate_rps[0])
        for number, rates_rps in enumerate(self.rate_rps):
            _check_rates(f"rate_rps[{number}]", rates_rps)
            rule = "needs as many classes as rate_rps[0]"
            check(len(rates_rps) == classes, f"rate_rps[{number}]", rates_rps, rule)
        for field in ("mean_phase_s", "jump_probability"):
            value = getattr(self, field)
            check(
                len(value) == phases, field, value, f"needs one entry for each of {phases} phases"
            )
        for number, length_s in enumerate(self.mean_phase_s):
            check_positive(f"mean_phase_s[{number}]", length_s)
        _check_jumps(self.jump_probability)
        first = self.first_phase
        rule = f"must be in 0..{phases - 1}, or None for the steady state"
        check(first is None or first in range(phases), "first_phase", first, rule)
        check_sizes(self.sizes, classes)

    @classmethod
    def on_off(
        cls,
        on_rps: tuple[float, ...],
        on_s: float,
        off_s: float,
        first_phase: int | None = None,
        sizes: ClassSizes = (),
    ) -> "MarkovModulatedWorkload":
        """Silent in phase 0, of mean length `off_s`; Poisson in phase 1, of mean length `on_s`."""
        silent = (0.0,) * len(on_rps)
        jumps = ((0.0, 1.0), (1.0, 0.0))
        return cls((silent, on_rps), (off_s, on_s), jumps, first_phase, sizes)

    @classmethod
    def from_generator_matrix(
        cls,
        rate_rps: tuple[tuple[float, ...], ...],
        jumps_per_s: tuple[tuple[float, ...], ...],
        first_phase: int | None = None,
        sizes: ClassSizes = (),
    ) -> "MarkovModulatedWorkload":
        """The chain with generator matrix Q = `jumps_per_s` `[P, P]`.

        `Q[i][j] >= 0` jumps per second lead from i to j; a row sums to 0. So phase i lasts
        `-1 / Q[i][i]`, and a jump from i leads to j with probability `-Q[i][j] / Q[i][i]`.
        """
        lengths, rows = [], []
        for number, row in enumerate(jumps_per_s):
            leaving = math.fsum(rate for other, rate in enumerate(row) if other != number)
            holds = len(row) == len(jumps_per_s) and math.isfinite(leaving)
            holds = holds and abs(leaving + row[number]) <= 1e-9 * leaving
            rule = f"must sum to 0, with its only negative entry at {number}"
            check(holds and sum(rate < 0 for rate in row) == 1, f"jumps_per_s[{number}]", row, rule)
            lengths.append(1.0 / leaving)
            rows.append(tuple(0.0 if rate < 0 else rate / leaving for rate in row))
        return cls(rate_rps, tuple(lengths), tuple(rows), first_phase, sizes)

    @property
    def phase_shares(self) -> np.ndarray:
        """Long-run share of time in each phase `[P]`."""
        return stationary_shares(np.array(self.mean_phase_s), np.array(self.jump_probability))

    @property
    def mean_rate_rps(self) -> np.ndarray:
        """Long-run arrival rate of each class `[C]`."""
        return self.phase_shares @ np.array(self.rate_rps)

    def draw(self, horizon_s: float, generator: np.random.Generator) -> Arrivals:
        """The requests in [0, horizon_s). Draws: the phases, then class by class the arrivals."""
        lengths_s, jumps = np.array(self.mean_phase_s), np.array(self.jump_probability)
        first = self.first_phase
        if first is None:
            bound = np.cumsum(self.phase_shares)[:-1]
            first = int(np.searchsorted(bound, generator.random(), side="right"))
        phase, edge_s = markov_phases(lengths_s, jumps, first, horizon_s, generator)
        rates_rps = np.array(self.rate_rps)[phase].T  # [C, P]
        instants = [phase_instants(rate_rps, edge_s, generator) for rate_rps in rates_rps]
        return _sized(_merge(instants, list(range(len(instants)))), self.sizes, generator)


def _check_jumps(jump_probability: tuple[tuple[float, ...], ...]) -> None:
    """Raises ValueError unless jumps leave their phase and lead from any phase to any other."""
    phases = len(jump_probability)
    for number, row in enumerate(jump_probability):
        field = f"jump_probability[{number}]"
        check(len(row) == phases, field, row, f"needs one entry for each of {phases} phases")
        check_shares(field, row)
        check(row[number] == 0, f"{field}[{number}]", row[number], "a jump must leave its phase")
    reached = np.array(jump_probability) > 0
    for _ in range(phases.bit_length()):  # each turn doubles the length of the paths
        reached |= reached @ reached
    rule = "every phase must be reachable from every other"
    check(bool(reached.all()), "jump_probability", jump_probability, rule)


@dataclass(frozen=True)
class RenewalWorkload:
    """One stream with independent gaps of mean `1 / rate_rps` and coefficient of variation `cv`.

    Gamma gaps describe BurstGPT, Gamma or Weibull gaps the clients of ServeGen; cv 1 is Poisson
    under either law. An episode starts within a gap, as a window onto traffic that has been
    running, so that `rate_rps * horizon_s` requests are expected whatever the horizon. Starting
    with a whole gap would add some `(cv^2 - 1) / 2` requests to every episode: twelve at cv 5.
    """

    rate_rps: float
    cv: float
    law: GapLaw = GapLaw.GAMMA
    mix: RequestMix = ONE_CLASS

    def __post_init__(self) -> None:
        check_positive("rate_rps", self.rate_rps)
        # Beyond 100 nearly all gaps are below the resolution of the clock; below 0.001 the
        # Weibull shape is lost in rounding.
        check(0.001 <= self.cv <= 100.0, "cv", self.cv, "must be in [0.001, 100]")
        check(self.law in tuple(GapLaw), "law", self.law, f"must be one of {', '.join(GapLaw)}")

    def draw(self, horizon_s: float, generator: np.random.Generator) -> Arrivals:
        """The requests in [0, horizon_s). Draws: the gaps, the classes, then the sizes."""
        arrival_s = renewal_instants(self.law, self.rate_rps, self.cv, horizon_s, generator)
        request_class = self.mix.draw_classes(len(arrival_s), generator)
        arrivals = Arrivals(arrival_s, request_class, np.ones(len(arrival_s)))
        return _sized(arrivals, self.mix.sizes, generator)


@dataclass(frozen=True)
class DiurnalWorkload:
    """Poisson arrivals whose rates rise and fall with the hour.

    `rate_c(t) = rate_rps[c] (1 + amplitude[c] sin(2 pi (t - rise_s[c]) / period_s))`: the rate of
    class c passes its mean upward at `rise_s[c]`. With `random_phase` an episode enters the cycle
    at a uniform instant.
    """

    rate_rps: tuple[float, ...]  # [C] means over a period
    amplitude: tuple[float, ...]  # [C] in [0, 1]
    period_s: float
    rise_s: tuple[float, ...]  # [C]
    random_phase: bool = False
    sizes: ClassSizes = ()

    def __post_init__(self) -> None:
        _check_rates("rate_rps", self.rate_rps)
        check_positive("period_s", self.period_s)
        classes = len(self.rate_rps)
        for field in ("amplitude", "rise_s"):
            value = getattr(self, field)
            check(len(value) == classes, field, value, f"needs one for each of {classes} classes")
        for number, (amplitude, rise_s) in enumerate(zip(self.amplitude, self.rise_s, strict=True)):
            check(0 <= amplitude <= 1, f"amplitude[{number}]", amplitude, "must be in [0, 1]")
            check(math.isfinite(rise_s), f"rise_s[{number}]", rise_s, "must be finite")
        check_sizes(self.sizes, classes)

    def draw(self, horizon_s: float, generator: np.random.Generator) -> Arrivals:
        """The requests in [0, horizon_s). Draws: the entry, then class by class the arrivals."""
        entry_s = generator.uniform(0.0, self.period_s) if self.random_phase else 0.0
        angle_per_s = 2.0 * math.pi / self.period_s
        instants = [
            diurnal_instants(rate, amplitude, angle_per_s, entry_s - rise_s, horizon_s, generator)
            for rate, amplitude, rise_s in zip(
                self.rate_rps, self.amplitude, self.rise_s, strict=True
            )
        ]
        return _sized(_merge(instants, list(range(len(instants)))), self.sizes, generator)
