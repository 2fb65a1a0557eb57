"""Settings of the sizes that generated requests have."""

from dataclasses import dataclass

from pipeline.settings.checks import check_positive
from simulator.checks import check


@dataclass(frozen=True)
class LoggedSizeSettings:
    """As often as each size occurs in the training split of the log."""

    kind: str = "logged"


@dataclass(frozen=True)
class ConstantSizeSettings:
    """One size for all requests of the class."""

    value: float = 1.0
    kind: str = "constant"

    def __post_init__(self) -> None:
        check_positive(self, "value")


@dataclass(frozen=True)
class LognormalSizeSettings:
    """Lognormal sizes."""

    mean: float
    cv: float  # coefficient of variation
    kind: str = "lognormal"

    def __post_init__(self) -> None:
        check_positive(self, "mean", "cv")


@dataclass(frozen=True)
class EmpiricalSizeSettings:
    """Sizes that were counted."""

    values: tuple[float, ...]
    counts: tuple[float, ...] = ()  # of each value; empty: equally often
    kind: str = "empirical"

    def __post_init__(self) -> None:
        check(bool(self.values), "values", self.values, "needs one value or more")
        check(min(self.values) > 0, "values", self.values, "must be above 0")
        fits = len(self.counts) in (0, len(self.values))
        check(fits, "counts", self.counts, "needs one count for each value, or none")
        counted = not self.counts or (min(self.counts) >= 0 and sum(self.counts) > 0)
        check(counted, "counts", self.counts, "must be at least 0, and one above 0")


@dataclass(frozen=True)
class QuantilesSizeSettings:
    """Sizes through known quantiles, uniform between two neighbors."""

    levels: tuple[float, ...]  # rising from 0 to 1
    values: tuple[float, ...]  # the sizes at these levels, ascending
    kind: str = "quantiles"

    def __post_init__(self) -> None:
        levels, values = self.levels, self.values
        rising = len(levels) >= 2 and (levels[0], levels[-1]) == (0.0, 1.0)
        rising = rising and list(levels) == sorted(set(levels))
        check(rising, "levels", levels, "must rise from 0 to 1, without equals")
        fits = len(values) == len(levels) and list(values) == sorted(values) and values[0] > 0
        check(fits, "values", values, "must ascend above 0, one for each level")


SizeSettings = (
    LoggedSizeSettings
    | ConstantSizeSettings
    | LognormalSizeSettings
    | EmpiricalSizeSettings
    | QuantilesSizeSettings
)
SIZE_KINDS: dict[str, type] = {
    "logged": LoggedSizeSettings,
    "constant": ConstantSizeSettings,
    "lognormal": LognormalSizeSettings,
    "empirical": EmpiricalSizeSettings,
    "quantiles": QuantilesSizeSettings,
}
