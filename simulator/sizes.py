"""What requests ask for: mixes of request classes, and distributions of sizes and tokens."""

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from simulator.checks import check


class Distribution(Protocol):
    """Positive amounts, of independent requests."""

    @property
    def mean(self) -> float:
        """Their expectation."""

    def draw(self, count: int, generator: np.random.Generator) -> np.ndarray:
        """`count` amounts `[count]`, all above 0."""


def check_positive(field: str, value: float) -> None:
    """Raises ValueError unless the value is positive and finite."""
    check(math.isfinite(value) and value > 0, field, value, "must be positive and finite")


def check_shares(field: str, shares: tuple[float, ...]) -> None:
    """Raises ValueError unless these are probabilities that sum to 1."""
    each = len(shares) > 0 and all(math.isfinite(share) and share >= 0 for share in shares)
    check(
        each and abs(math.fsum(shares) - 1.0) <= 1e-9,
        field,
        shares,
        "must be probabilities of at least 0 that sum to 1",
    )


def _choose(weights: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Indices `[count]` drawn in proportion to `weights`, one uniform number each."""
    # The last bound is exactly 1, above every uniform number: no index is out of range, and
    # weights of 0 at the end are never chosen.
    bound = np.cumsum(weights)
    bound /= bound[-1]
    return np.searchsorted(bound, generator.random(count), side="right")


@dataclass(frozen=True)
class Constant:
    """The same amount for every request; nothing is drawn."""

    value: float

    def __post_init__(self) -> None:
        check_positive("value", self.value)

    @property
    def mean(self) -> float:
        """The amount."""
        return self.value

    def draw(self, count: int, generator: np.random.Generator) -> np.ndarray:
        """`count` times the amount; the generator is not used."""
        return np.full(count, float(self.value))


@dataclass(frozen=True)
class Lognormal:
    """`exp(mu + sigma z)` with `sigma^2 = log(1 + cv^2)` and `mu = log(mean) - sigma^2 / 2`."""

    mean: float
    cv: float  # standard deviation / mean

    def __post_init__(self) -> None:
        check_positive("mean", self.mean)
        check_positive("cv", self.cv)

    def draw(self, count: int, generator: np.random.Generator) -> np.ndarray:
        """`count` amounts, one normal number each."""
        variance = math.log1p(self.cv**2)
        return generator.lognormal(math.log(self.mean) - variance / 2.0, math.sqrt(variance), count)


@dataclass(frozen=True)
class Empirical:
    """Amounts that were seen, each as often as it was counted; equally often without counts."""

    values: tuple[float, ...]  # [V]
    counts: tuple[float, ...] = ()  # [V] or none

    def __post_init__(self) -> None:
        check(len(self.values) > 0, "values", self.values, "needs one value or more")
        for number, value in enumerate(self.values):
            check_positive(f"values[{number}]", value)
        check(
            len(self.counts) in (0, len(self.values)),
            "counts",
            self.counts,
            f"needs one count for each of {len(self.values)} values, or none",
        )
        for number, count in enumerate(self.counts):
            holds = math.isfinite(count) and count >= 0
            check(holds, f"counts[{number}]", count, "must be finite and at least 0")
        check(not self.counts or sum(self.counts) > 0, "counts", self.counts, "must not all be 0")

    @property
    def mean(self) -> float:
        """The mean of the values, weighted by their counts."""
        return float(np.average(self.values, weights=self.counts or None))

    def draw(self, count: int, generator: np.random.Generator) -> np.ndarray:
        """`count` of the values, one uniform number each."""
        weights = np.array(self.counts or np.ones(len(self.values)), float)
        return np.array(self.values, float)[_choose(weights, count, generator)]


@dataclass(frozen=True)
class Quantiles:
    """A continuous distribution through known quantiles, uniform between two neighbors."""

    levels: tuple[float, ...]  # [Q] from 0 to 1, rising
    values: tuple[float, ...]  # [Q] the quantiles at these levels, ascending

    def __post_init__(self) -> None:
        levels, values = np.array(self.levels, float), np.array(self.values, float)
        whole = len(levels) >= 2 and levels[0] == 0 and levels[-1] == 1
        rising = whole and bool((np.diff(levels) > 0).all())
        check(rising, "levels", self.levels, "must rise from 0 to 1, without equals")
        check(
            len(values) == len(levels),
            "values",
            self.values,
            f"needs one value for each of {len(levels)} levels",
        )
        for number, value in enumerate(self.values):
            check_positive(f"values[{number}]", value)
        check(bool((np.diff(values) >= 0).all()), "values", self.values, "must be ascending")

    @property
    def mean(self) -> float:
        """The area under the quantile function."""
        return float(np.trapezoid(self.values, self.levels))

    def draw(self, count: int, generator: np.random.Generator) -> np.ndarray:
        """`count` amounts, one uniform number each, by the inverse of the distribution."""
        return np.interp(generator.random(count), self.levels, self.values)


@dataclass(frozen=True)
class RequestSizes:
    """The amounts of the requests of one class.

    Tokens are rounded to the nearest whole number, and up to 1, because a request has at least one
    token each way; that raises the mean where many amounts are below 1.
    """

    size: Distribution = Constant(1.0)
    prompt_tokens: Distribution | None = None
    output_tokens: Distribution | None = None


def check_sizes(sizes: tuple[RequestSizes, ...], classes: int) -> None:
    """Raises ValueError unless sizes are given for every class or none, and tokens likewise."""
    check(
        len(sizes) in (0, classes),
        "sizes",
        sizes,
        f"needs the sizes of each of {classes} classes, or none",
    )
    for field in ("prompt_tokens", "output_tokens"):
        known = [getattr(of_class, field) is not None for of_class in sizes]
        check(
            all(known) or not any(known),
            f"sizes.{field}",
            sizes,
            "must be given for every class, or for none",
        )


@dataclass(frozen=True)
class RequestMix:
    """The classes of a stream of requests, each drawn on its own, and their sizes by class."""

    probability: tuple[float, ...]  # [C]
    sizes: tuple[RequestSizes, ...] = ()  # [C]; without it all sizes are 1 and there are no tokens

    def __post_init__(self) -> None:
        check_shares("probability", self.probability)
        check_sizes(self.sizes, len(self.probability))

    def draw_classes(self, count: int, generator: np.random.Generator) -> np.ndarray:
        """Request classes `[count]`, one uniform number each; none is drawn for a single class."""
        if len(self.probability) == 1:
            return np.zeros(count, np.int64)
        return _choose(np.array(self.probability), count, generator)


ONE_CLASS = RequestMix((1.0,))


class DrawnSizes(NamedTuple):
    """The amounts of R requests."""

    size: np.ndarray  # [R]
    prompt_tokens: np.ndarray  # [R] int, or [0] without tokens
    output_tokens: np.ndarray  # [R] int, or [0] without tokens


def draw_sizes(
    request_class: np.ndarray, sizes: tuple[RequestSizes, ...], generator: np.random.Generator
) -> DrawnSizes:
    """The amounts of requests of these classes `[R]`.

    Draws: class by class its sizes, then its prompt tokens, then its output tokens.
    """
    count, first = len(request_class), sizes[0]
    drawn = DrawnSizes(
        np.empty(count),
        np.empty(0 if first.prompt_tokens is None else count, np.int64),
        np.empty(0 if first.output_tokens is None else count, np.int64),
    )
    for number, of_class in enumerate(sizes):
        here = np.flatnonzero(request_class == number)
        drawn.size[here] = of_class.size.draw(len(here), generator)
        for tokens, column in (
            (of_class.prompt_tokens, drawn.prompt_tokens),
            (of_class.output_tokens, drawn.output_tokens),
        ):
            if tokens is not None:
                column[here] = np.maximum(np.rint(tokens.draw(len(here), generator)), 1.0)
    return drawn
