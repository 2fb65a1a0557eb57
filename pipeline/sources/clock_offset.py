"""Offset and drift between the clocks of two logs of the same requests, a gateway and an engine.

An engine works on a request while the gateway waits for it, so that on one clock its span lies
inside the gateway's. For pair i and an offset theta, in us, that is added to the engine's clock:

    gateway.arrival_i - engine.arrival_i  <=  theta  <=  gateway.departure_i - engine.departure_i

What all pairs allow is an interval. Its middle is the estimate, as in NTP (RFC 5905, section 8):
exact where the fastest way there takes as long as the fastest way back; half its width is the error
at most, whatever the delays, where all pairs nest. Pairs that fit no common offset (wrong matches,
clocks that were set) are outvoted, as by Marzullo's algorithm (RFC 5905, section 11.2.1).
It cannot tell a constant offset from unlike delays there and back: nothing in two logs can.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy import stats

from simulator.checks import check

WINDOWS = 20  # of the test for drift, at most
WINDOW_PAIRS = 30  # in each of them, at least
_LEAST_WINDOWS = 4
_ROUNDS = 6  # of the fit of a drift
_SURE = 0.9995  # quantile of Student's t that a drift must exceed


class Pairs(NamedTuple):
    """Requests that are in both logs, each log's times on its own clock in us, from its origin."""

    gateway_arrival_us: np.ndarray  # [n]
    gateway_departure_us: np.ndarray  # [n] NaN where it must not be compared: not answered
    engine_arrival_us: np.ndarray  # [n]
    engine_departure_us: np.ndarray  # [n] NaN as above


class Offset(NamedTuple):
    """What turns the engine's clock into the gateway's; see `on_gateway_clock`."""

    offset_us: float  # at `at_us` of the engine's clock
    uncertainty_us: float  # the offset is within so much of the true one
    at_us: float
    drift_ppm: float  # us that the offset grows in a second; 0 where none was found
    drift_tested_ppm: float  # the estimate that was tested; NaN: too few pairs
    drift_error_ppm: float  # its standard error
    pairs: int
    violating: int  # pairs whose spans do not nest within the tolerance

    @property
    def violating_share(self) -> float:
        """The share of pairs that do not nest."""
        return self.violating / self.pairs

    def on_gateway_clock(self, engine_us: np.ndarray) -> np.ndarray:
        """Instants of the engine on the gateway's clock, in us, not rounded."""
        drifted = self.drift_ppm * 1e-6 * (engine_us - self.at_us)
        return np.asarray(engine_us + (self.offset_us + drifted))


def estimate_offset(pairs: Pairs, tolerance_us: float = 0.0) -> Offset:
    """The offset between two clocks with its uncertainty, and the drift if there is one.

    `tolerance_us` is by how much a span may stick out since clocks round: the sum of their steps.
    Raises ValueError without a pair that was answered in both logs: then nothing bounds the offset
    from above.
    """
    bounds = _Bounds.of(pairs, tolerance_us)
    answered = int(np.isfinite(bounds.upper).sum())
    check(answered > 0, "pairs that were answered in both logs", answered, "must be at least 1")
    at_us = float((bounds.clock_us.min() + bounds.clock_us.max()) / 2)
    steady = _agreement(bounds.lower, bounds.upper)
    slope, error = _drift(bounds, at_us)
    used, agreed = 0.0, steady
    if _is_drift(slope, error, bounds):
        straight = bounds.without(slope, at_us)
        found = _agreement(straight.lower, straight.upper)
        span_us = float(np.ptp(bounds.clock_us))
        if abs(slope) * span_us > found.half_width:
            used, agreed = slope, found
    return Offset(
        agreed.middle,
        agreed.half_width,
        at_us,
        used * 1e6,
        slope * 1e6,
        error * 1e6,
        len(bounds.lower),
        agreed.violating,
    )


def in_words(offset: Offset) -> str:
    """The estimate as a sentence."""
    drift = "too few pairs to test for drift"
    if not math.isnan(offset.drift_tested_ppm):
        tested = f"{offset.drift_tested_ppm:+.2f} ± {offset.drift_error_ppm:.2f} ppm"
        drift = f"drift {tested}" if offset.drift_ppm else f"no drift found ({tested})"
    return (
        "clock offset: each counted from its log's time 0, the engine's clock "
        f"{offset.offset_us / 1e6:+.6f} s is the gateway's, within "
        f"{offset.uncertainty_us / 1e6:.6f} s; {drift}; the spans of {offset.violating:,} of "
        f"{offset.pairs:,} pairs ({offset.violating_share:.2%}) do not nest"
    )


class _Bounds(NamedTuple):
    """What each pair says of the offset."""

    clock_us: np.ndarray  # [n] when, on the engine's clock
    lower: np.ndarray  # [n] us
    upper: np.ndarray  # [n] us, inf where it says nothing

    @classmethod
    def of(cls, pairs: Pairs, tolerance_us: float) -> "_Bounds":
        lower = pairs.gateway_arrival_us - pairs.engine_arrival_us - tolerance_us
        upper = pairs.gateway_departure_us - pairs.engine_departure_us + tolerance_us
        upper = np.where(np.isnan(upper), np.inf, upper)
        return cls(np.asarray(pairs.engine_arrival_us, float), lower.astype(float), upper)

    def without(self, slope: float, at_us: float) -> "_Bounds":
        """The bounds of the offset at `at_us` where it grows by `slope`."""
        grown = slope * (self.clock_us - at_us)
        return _Bounds(self.clock_us, self.lower - grown, self.upper - grown)


class _Agreement(NamedTuple):
    """The offsets that most pairs allow."""

    low: float
    high: float
    violating: int

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


def _agreement(lower: np.ndarray, upper: np.ndarray) -> _Agreement:
    """The interval of offsets that as many pairs as possible allow (Marzullo).

    Where v pairs at least violate, offsets that v + 2 sqrt(v) violate are not told apart: v is a
    count of accidents, and one more that cuts through the interval must not halve it. With v = 0
    it is [max lower, min upper], which holds the true offset for sure.
    """
    possible = upper >= lower  # else the engine's span is the longer one: no offset helps
    low_ends, high_ends = np.sort(lower[possible]), np.sort(upper[possible])
    if len(low_ends) == 0:
        middle = (lower + upper) / 2
        return _Agreement(float(middle.min()), float(middle.max()), len(lower))

    def allowing(offset: np.ndarray) -> np.ndarray:
        begun = np.searchsorted(low_ends, offset, side="right")
        return np.asarray(begun - np.searchsorted(high_ends, offset, side="left"))

    at_low, at_high = allowing(low_ends), allowing(high_ends)
    most = int(at_low.max())
    missing = len(low_ends) - most
    enough = most - math.ceil(2 * math.sqrt(missing))
    low = float(low_ends[at_low >= enough][0])
    high = float(high_ends[at_high >= enough][-1])
    if not math.isfinite(high):  # few pairs have an upper end, and none of them is among the most
        high = float(high_ends[np.isfinite(high_ends)][-1]) if np.isfinite(high_ends).any() else low
    return _Agreement(low, max(low, high), len(lower) - most)


def _drift(bounds: _Bounds, at_us: float) -> tuple[float, float]:
    """By how much the offset grows in time, us in us, and the standard error; NaN: too few pairs.

    The slope of the least-squares line through the middles of windows, each with as many pairs. It
    is fitted again to what the line leaves, since a drift within a window blurs its interval.
    """
    windows = min(WINDOWS, len(bounds.lower) // WINDOW_PAIRS)
    if windows < _LEAST_WINDOWS or np.ptp(bounds.clock_us) == 0.0:
        return math.nan, math.nan
    order = np.argsort(bounds.clock_us, kind="stable")
    parts = np.array_split(order, windows)
    parts = [part for part in parts if np.isfinite(bounds.upper[part]).any()]
    if len(parts) < _LEAST_WINDOWS:
        return math.nan, math.nan
    clock_us = np.array([bounds.clock_us[part].mean() for part in parts])
    slope, error = 0.0, math.inf
    for _ in range(_ROUNDS):
        straight = bounds.without(slope, at_us)
        middles = [_agreement(straight.lower[part], straight.upper[part]).middle for part in parts]
        line = stats.linregress(clock_us, middles)
        slope += float(line.slope)
        error = 0.0 if math.isnan(line.stderr) else float(line.stderr)  # NaN: all on the line
        if abs(line.slope) <= 0.1 * error:
            break
    return slope, error


def _is_drift(slope: float, error: float, bounds: _Bounds) -> bool:
    """Whether a slope is beyond what noise of the windows makes likely."""
    if math.isnan(slope):
        return False
    windows = min(WINDOWS, len(bounds.lower) // WINDOW_PAIRS)
    return abs(slope) > float(stats.t.ppf(_SURE, windows - 2)) * error
