"""Settings of what is asked of the cluster, and of its reward."""

from dataclasses import dataclass

from pipeline.settings.checks import (
    check_by_class,
    check_choice,
    check_not_negative,
    check_positive,
)
from simulator.checks import check


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


_GAINS = ("completed",)
_COSTS = (
    "response_s",
    "number_in_system_s",
    "shed",
    "slo_misses",
    "replica_seconds",
    "energy_j",
    "bill",
)


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
    bill: float = 0.0  # a unit of money, at the price of the cluster's replicas
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
