"""Settings of the simulated cluster, its targets, its load and its reward."""

from dataclasses import dataclass

from pipeline.settings.checks import (
    check_by_class,
    check_choice,
    check_not_negative,
    check_positive,
)
from simulator.checks import check


@dataclass(frozen=True)
class ClusterSettings:
    """The cluster and the rules of its decisions; null is as logged."""

    queue_capacity: int | None = None  # requests that may wait
    batch_sizes: tuple[int, ...] | None = None  # the menu of the action, ascending
    max_batch_size: int | None = None  # of each replica
    class_choice: str | None = None  # any, or head_of_line
    decision_epochs: str | None = None  # events, or ticks
    tick_s: float | None = None
    rate_window_s: float | None = None
    replicas: int | None = None  # how many

    def __post_init__(self) -> None:
        check_positive(
            self, "queue_capacity", "max_batch_size", "tick_s", "rate_window_s", "replicas"
        )
        sizes = self.batch_sizes
        if sizes is not None:
            ascending = bool(sizes) and sizes[0] >= 1 and list(sizes) == sorted(set(sizes))
            check(ascending, "batch_sizes", sizes, "must ascend from at least 1, without repeats")
            largest = self.max_batch_size
            fits = not sizes or largest is None or sizes[0] <= largest
            check(fits, "batch_sizes", sizes, f"no size fits max_batch_size = {largest}")
        check_choice(self, "class_choice", (None, "any", "head_of_line"))
        check_choice(self, "decision_epochs", (None, "events", "ticks"))


@dataclass(frozen=True)
class ScenarioSettings:
    """What is asked of the cluster, and how long an episode lasts."""

    slo_s: dict[str, float]  # response-time target by request class
    horizon_s: float = 10.0

    def __post_init__(self) -> None:
        check_by_class(self, "slo_s")
        for name, value in self.slo_s.items():
            check(value > 0, f"slo_s.{name}", value, "must be above 0")
        check_positive(self, "horizon_s")


@dataclass(frozen=True)
class LoggedWorkloadSettings:
    """Windows of the logged arrivals."""

    kind: str = "logged"
    rate_scale: float = 1.0  # above 1: time is compressed

    def __post_init__(self) -> None:
        check_positive(self, "rate_scale")


@dataclass(frozen=True)
class PoissonWorkloadSettings:
    """Independent Poisson arrivals at a constant rate."""

    rate_rps: dict[str, float]  # by request class
    kind: str = "poisson"

    def __post_init__(self) -> None:
        check_by_class(self, "rate_rps")


@dataclass(frozen=True)
class SquareBurstWorkloadSettings:
    """Poisson arrivals whose rate switches squarely between low and high."""

    low_rps: dict[str, float]  # by request class
    high_rps: dict[str, float]  # by request class
    low_s: float
    high_s: float
    random_phase: bool = True  # an episode enters the cycle at a uniform instant
    kind: str = "square_burst"

    def __post_init__(self) -> None:
        check_by_class(self, "low_rps", "high_rps")
        check_positive(self, "low_s", "high_s")
        same = set(self.low_rps) == set(self.high_rps)
        check(same, "high_rps", self.high_rps, f"needs the classes of low_rps: {[*self.low_rps]}")


WorkloadSettings = LoggedWorkloadSettings | PoissonWorkloadSettings | SquareBurstWorkloadSettings
WORKLOADS: dict[str, type] = {
    "logged": LoggedWorkloadSettings,
    "poisson": PoissonWorkloadSettings,
    "square_burst": SquareBurstWorkloadSettings,
}

_GAINS = ("completed",)
_COSTS = ("response_s", "number_in_system_s", "shed", "slo_misses", "replica_seconds", "energy_j")


@dataclass(frozen=True)
class RewardSettings:
    """Weights of the reward terms, as they are added: a gain is positive, a cost negative.

    Preset `slo_cost` is `scale * sum of weight * term`, terms by class times their class weight.
    Preset `paper` is the paper's formula: it reads `class_weight` and `sla_s` alone, and every
    other weight must be 0, `scale` 1.
    """

    class_weight: dict[str, float]
    preset: str = "slo_cost"  # or paper
    completed: float = 0.0  # a request answered
    response_s: float = 0.0  # a second of response time
    number_in_system_s: float = 0.0  # a request in the system for a second
    shed: float = 0.0  # a request refused
    slo_misses: float = 0.0  # a request answered late
    replica_seconds: float = 0.0  # a replica on for a second
    energy_j: float = 0.0  # a joule
    scale: float = 1.0
    sla_s: float | None = None  # paper: what response times are divided by

    def __post_init__(self) -> None:
        check_choice(self, "preset", ("slo_cost", "paper"))
        check_by_class(self, "class_weight")
        heaviest = max(self.class_weight.values())
        check(heaviest > 0, "class_weight", self.class_weight, "one must be above 0")
        check_positive(self, "scale", "sla_s")
        check_not_negative(self, *_GAINS)
        for key in _COSTS:
            check(getattr(self, key) <= 0, key, getattr(self, key), "a cost must be at most 0")
        if self.preset == "paper":
            check(self.sla_s is not None, "sla_s", None, "the preset paper must be given it")
            check(self.scale == 1.0, "scale", self.scale, "the preset paper needs 1")
            for key in (*_GAINS, *_COSTS):
                check(getattr(self, key) == 0, key, getattr(self, key), "preset paper needs 0")
        else:
            check(self.sla_s is None, "sla_s", self.sla_s, "is for the preset paper; needs null")
            check(self.shed < 0, "shed", self.shed, "shedding must cost something")
