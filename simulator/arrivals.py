"""Arrival instants of generated traffic."""

import math
from bisect import bisect_right
from enum import StrEnum
from typing import NamedTuple

import numpy as np


def poisson_instants(
    rate_rps: float, start_s: float, end_s: float, generator: np.random.Generator
) -> np.ndarray:
    """Ascending instants in [start_s, end_s) of a Poisson process.

    Given their number, the instants of a Poisson process are independent and uniform.
    """
    count = generator.poisson(rate_rps * (end_s - start_s))
    return np.sort(generator.uniform(start_s, end_s, count))


def square_phases(
    low_s: float, high_s: float, offset_s: float, horizon_s: float
) -> list[tuple[float, float, bool]]:
    """Phases (start, end, high) that cover [0, horizon_s), the cycle entered `offset_s` late.

    A cycle is low for `low_s`, then high for `high_s`.
    """
    phases = []
    start_s = -offset_s
    while start_s < horizon_s:
        for length_s, high in ((low_s, False), (high_s, True)):
            end_s = start_s + length_s
            if end_s > 0.0 and start_s < horizon_s:
                phases.append((max(start_s, 0.0), min(end_s, horizon_s), high))
            start_s = end_s
    return phases


def phase_instants(
    rate_rps: np.ndarray, edge_s: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Ascending instants of a Poisson process whose rate is constant within each phase.

    Phase i lasts from `edge_s[i]` to `edge_s[i + 1]` (`[P + 1] s`) at `rate_rps[i]` (`[P]`).
    """
    length_s = np.diff(edge_s)
    count = generator.poisson(rate_rps * length_s)
    instants_s = generator.random(count.sum())
    instants_s *= np.repeat(length_s, count)
    instants_s += np.repeat(edge_s[:-1], count)
    instants_s.sort()
    return instants_s


def stationary_shares(mean_phase_s: np.ndarray, jump_probability: np.ndarray) -> np.ndarray:
    """Long-run shares of time `[P]` of the phases of a semi-Markov chain; they sum to 1.

    `share_i = nu_i m_i / sum_j nu_j m_j`, where `m_i` is the mean length of phase i (`[P] s`) and
    `nu = nu J` the stationary distribution of the jumps (`J`: `[P, P]`). Ross, Stochastic
    Processes, section 4.8. Solving for the jumps rather than for the generator matrix keeps the
    equations well scaled where one phase is a million times longer than another.
    """
    balance = jump_probability.T - np.eye(len(mean_phase_s))
    balance[-1] = 1.0  # one balance equation follows from the others: the sum takes its place
    right = np.zeros(len(mean_phase_s))
    right[-1] = 1.0
    time_s = np.linalg.solve(balance, right) * mean_phase_s
    return np.asarray(time_s / time_s.sum())


def markov_phases(
    mean_phase_s: np.ndarray,
    jump_probability: np.ndarray,
    first_phase: int,
    horizon_s: float,
    generator: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Phases `[P]` of a Markov chain in [0, horizon_s) and their edges `[P + 1] s`.

    Phase i lasts an exponential time of mean `mean_phase_s[i]`; then the chain jumps to j with
    probability `jump_probability[i, j]`. Draws in blocks of 16 phases, 32, 64, ...: uniforms for
    the jumps, then exponentials for the lengths.
    """
    cumulative = jump_probability.cumsum(1)
    # Exactly 1 at the end, above every uniform number: no jump leads out of range.
    bounds = (cumulative / cumulative[:, -1:]).tolist()
    block, phase, path, edges = 16, first_phase, [], [np.zeros(1)]
    while edges[-1][-1] < horizon_s:
        for uniform in generator.random(block).tolist():
            path.append(phase)
            phase = bisect_right(bounds[phase], uniform)
        length_s = mean_phase_s[path[-block:]] * generator.standard_exponential(block)
        edges.append(edges[-1][-1] + np.cumsum(length_s))
        block *= 2
    edge_s = np.concatenate(edges)
    entered = int(np.searchsorted(edge_s, horizon_s))
    return np.array(path[:entered], np.int64), np.append(edge_s[:entered], horizon_s)


class GapLaw(StrEnum):
    """The distribution of the inter-arrival times of a renewal process."""

    GAMMA = "gamma"
    WEIBULL = "weibull"


class _Gaps(NamedTuple):
    """Gaps of mean 1 as powers of Gamma variates: `gap = scale * Gamma(shape) ** (1 / power)`.

    The generalized gamma distribution (Stacy 1962, equation 1). Power 1 is Gamma, shape 1 is
    Weibull. Seen from a uniform instant, gaps count by their length; that is the same law with
    `shape + 1 / power`.
    """

    shape: float
    power: float
    scale: float


def weibull_shape(cv: float) -> float:
    """Shape k of a Weibull distribution with coefficient of variation `cv`, from 0.001 to 100.

    The root of `cv^2 + 1 = G(1 + 2/k) / G(1 + 1/k)^2` with the Gamma function G; the right side
    falls with k. Bisected in log k until the bracket has no number inside.
    """
    target = math.log1p(cv * cv)
    low, high = math.log(0.05), math.log(1e4)  # cv 4e5 and 1.3e-4
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return math.exp(middle)
        over = math.exp(-middle)
        if math.lgamma(1.0 + 2.0 * over) - 2.0 * math.lgamma(1.0 + over) > target:
            low = middle
        else:
            high = middle


def _gaps(law: GapLaw, cv: float) -> _Gaps:
    if law == GapLaw.GAMMA:
        shape = 1.0 / cv**2
        return _Gaps(shape, 1.0, 1.0 / shape)
    power = weibull_shape(cv)
    return _Gaps(1.0, power, 1.0 / math.gamma(1.0 + 1.0 / power))


def renewal_instants(
    law: GapLaw, rate_rps: float, cv: float, horizon_s: float, generator: np.random.Generator
) -> np.ndarray:
    """Ascending instants in [0, horizon_s) of a stationary renewal process.

    Gaps are independent, of mean `1 / rate_rps` and coefficient of variation `cv`. The first
    arrival comes after the remainder of a gap under way at 0, whose density is
    `(1 - F(x)) rate_rps` (Cox, Renewal Theory, section 2.2, equilibrium process): drawn as a
    uniform share of a gap chosen by its length.
    """
    shape, power, scale = _gaps(law, cv)
    scale /= rate_rps
    under_way_s = scale * generator.standard_gamma(shape + 1.0 / power) ** (1.0 / power)
    blocks = [np.array([generator.random() * under_way_s])]
    expected = rate_rps * horizon_s
    block = 16 + int(expected + 4.0 * cv * math.sqrt(expected))
    while blocks[-1][-1] < horizon_s:
        instants_s = generator.standard_gamma(shape, block)
        if power != 1.0:
            instants_s **= 1.0 / power
        instants_s *= scale
        instants_s[0] += blocks[-1][-1]
        blocks.append(np.cumsum(instants_s, out=instants_s))
    instants_s = np.concatenate(blocks)
    return instants_s[: np.searchsorted(instants_s, horizon_s)]


def diurnal_instants(
    rate_rps: float,
    amplitude: float,
    angle_per_s: float,
    offset_s: float,
    horizon_s: float,
    generator: np.random.Generator,
) -> np.ndarray:
    """Ascending instants in [0, horizon_s) of a Poisson process with a sinusoidal rate.

    `rate(t) = rate_rps (1 + amplitude sin(angle_per_s (t + offset_s)))`, by thinning a process at
    the highest rate (Lewis and Shedler 1979). At least half of the candidates are kept.
    """
    peak = 1.0 + amplitude
    instants_s = poisson_instants(rate_rps * peak, 0.0, horizon_s, generator)
    kept = 1.0 + amplitude * np.sin(angle_per_s * (instants_s + offset_s))
    return instants_s[generator.random(len(instants_s)) * peak < kept]
