"""Where a tuner may look for the parameters of a rule."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from simulator.checks import check

RuleParameters = dict[str, Any]


@dataclass(frozen=True)
class Choice:
    """One of some values, in the order in which they are tried."""

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        check(len(self.values) > 0, "choice.values", self.values, "needs at least one value")


@dataclass(frozen=True)
class Real:
    """A number from `low` to `high`; with `log` each doubling counts as much as the next."""

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        holds = math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high
        check(holds, "real.low, real.high", (self.low, self.high), "must be finite and ascend")
        check(not self.log or self.low > 0, "real.low", self.low, "must be above 0 with log")


@dataclass(frozen=True)
class Whole:
    """A whole number from `low` to `high`, both included; `log` as in `Real`."""

    low: int
    high: int
    log: bool = False

    def __post_init__(self) -> None:
        check(self.low < self.high, "whole.low, whole.high", (self.low, self.high), "must ascend")
        check(not self.log or self.low > 0, "whole.low", self.low, "must be above 0 with log")


Axis = Choice | Real | Whole


@dataclass(frozen=True)
class Space:
    """The axes of a rule's parameters by name; `batch_size.fast` is key `fast` of `batch_size`.

    `default` is the point that is tried first, with a value for every axis: what the rule's source
    sets, or None where it says nothing.
    """

    axes: Mapping[str, Axis] = field(default_factory=dict)
    default: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.default is not None:
            holds = set(self.default) == set(self.axes)
            check(holds, "space.default", dict(self.default), f"needs {', '.join(self.axes)}")

    @property
    def size(self) -> int | None:
        """The number of points, None where an axis is a `Real`. One point without any axis."""
        size = 1
        for axis in self.axes.values():
            if isinstance(axis, Real):
                return None
            size *= len(axis.values) if isinstance(axis, Choice) else axis.high - axis.low + 1
        return size

    def grid(self) -> list[RuleParameters]:
        """Every point, the last axis fastest; ValueError where there are infinitely many."""
        check(self.size is not None, "space", list(self.axes), "has a real axis, and no grid")
        menus = [_values(axis) for axis in self.axes.values()]
        return [nested(dict(zip(self.axes, point, strict=True))) for point in product(*menus)]

    def corner(self, high: bool) -> RuleParameters:
        """The point with the first value of every axis, or with the last."""
        return nested({name: _end(axis, high) for name, axis in self.axes.items()})


def nested(point: Mapping[str, Any]) -> RuleParameters:
    """The parameters of a point: `{"size.fast": 8}` becomes `{"size": {"fast": 8}}`."""
    parameters: RuleParameters = {}
    for name, value in point.items():
        parameter, _, key = name.partition(".")
        if key:
            parameters.setdefault(parameter, {})[key] = value
        else:
            parameters[parameter] = value
    return parameters


def _values(axis: Axis) -> list[Any]:
    if isinstance(axis, Choice):
        return list(axis.values)
    return list(range(int(axis.low), int(axis.high) + 1))


def _end(axis: Axis, high: bool) -> Any:
    if isinstance(axis, Choice):
        return axis.values[-1 if high else 0]
    return axis.high if high else axis.low
