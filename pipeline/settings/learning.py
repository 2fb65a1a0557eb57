"""Settings of behavior policies, agents, their evaluation, the gate and the export."""

from dataclasses import dataclass, field
from typing import Any

from pipeline.agents.settings import PPOSettings, ReinforceSettings
from pipeline.offline.settings import DiscreteBCSettings, DiscreteCQLSettings
from pipeline.settings.checks import (
    check_choice,
    check_name,
    check_not_negative,
    check_positive,
    check_share,
)
from simulator.checks import check

ENCODERS = ("full", "paper")


@dataclass(frozen=True)
class PolicySettings:
    """A behavior policy: a rule, mixed with uniform choice so that every action has support."""

    rule: str  # a name of the registry of rules
    epsilon: float = 0.1  # share of the uniform choice
    parameters: dict[str, Any] | None = None  # of the rule; null: as tuned

    def __post_init__(self) -> None:
        check_name("rule", self.rule)
        check(0 < self.epsilon <= 1, "epsilon", self.epsilon, "must be in (0, 1]")


@dataclass(frozen=True)
class TuneSettings:
    """The budget of each rule in its search for parameters, the same for all."""

    budget: int = 32  # settings tried on the training split, at most
    finalists: int = 4  # of these, tried on the validation split, which decides
    episodes: int = 32  # for each of them, the same arrivals for all
    processes: int = 2  # side by side; the results do not depend on it

    def __post_init__(self) -> None:
        check_positive(self, "budget", "finalists", "episodes", "processes")


@dataclass(frozen=True)
class ArenaSettings:
    """The league of rules on the calibrated scenario, where they may shed and see all waits."""

    policies: tuple[str, ...] | None = None  # rules that take part; null: all that fit
    budget: int = 16  # settings of each that are tried, as in `tune`
    episodes: int = 64  # of the test split, at least

    def __post_init__(self) -> None:
        check_positive(self, "budget", "episodes")


@dataclass(frozen=True)
class ReplaySettings:
    """How much is recorded of each behavior policy."""

    episodes: int = 128
    lanes: int = 64

    def __post_init__(self) -> None:
        check_positive(self, "episodes", "lanes")
        rule = f"must be a multiple of lanes = {self.lanes}"
        check(self.episodes % self.lanes == 0, "episodes", self.episodes, rule)


@dataclass(frozen=True)
class ReinforceAgentSettings(ReinforceSettings):
    """REINFORCE as an agent of the pipeline."""

    algorithm: str = "reinforce"
    encoder: str = "full"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "encoder", ENCODERS)


@dataclass(frozen=True)
class PPOAgentSettings(PPOSettings):
    """PPO as an agent of the pipeline."""

    algorithm: str = "ppo"
    encoder: str = "full"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "encoder", ENCODERS)


@dataclass(frozen=True)
class DiscreteBCAgentSettings(DiscreteBCSettings):
    """Behavior cloning as an agent of the pipeline; its features are those of the transitions."""

    algorithm: str = "discrete_bc"


@dataclass(frozen=True)
class DiscreteCQLAgentSettings(DiscreteCQLSettings):
    """Conservative Q-learning as an agent; its features are those of the transitions."""

    algorithm: str = "discrete_cql"


ONLINE_AGENTS: dict[str, type] = {"reinforce": ReinforceAgentSettings, "ppo": PPOAgentSettings}
OFFLINE_AGENTS: dict[str, type] = {
    "discrete_bc": DiscreteBCAgentSettings,
    "discrete_cql": DiscreteCQLAgentSettings,
}
AGENTS = {**ONLINE_AGENTS, **OFFLINE_AGENTS}
OnlineAgentSettings = ReinforceAgentSettings | PPOAgentSettings
OfflineAgentSettings = DiscreteBCAgentSettings | DiscreteCQLAgentSettings
AgentSettings = OnlineAgentSettings | OfflineAgentSettings


@dataclass(frozen=True)
class ValidateSettings:
    """How policies are compared: paired episodes, and intervals from resampling them."""

    episodes: int = 128  # of each policy and split, at least; the same luck for all policies
    resamples: int = 2000  # of the episodes, for an interval
    confidence: float = 0.95  # of every interval shown

    def __post_init__(self) -> None:
        check_positive(self, "episodes", "resamples", "confidence")
        check_share(self, "confidence")


@dataclass(frozen=True)
class MarginSettings:
    """How much worse than the best tuned rule a guarded metric may be."""

    response_p99_s: float = 0.1  # relative
    shed_fraction: float = 0.005  # absolute
    slo_attainment: float = 0.01  # absolute, of each request class

    def __post_init__(self) -> None:
        check_not_negative(self, "response_p99_s", "shed_fraction", "slo_attainment")


@dataclass(frozen=True)
class StressSettings:
    """A stress scenario, in multiples of the calibrated one."""

    rate_scale: float = 1.0  # of the arrivals
    service_scale: float = 1.0  # of the service times

    def __post_init__(self) -> None:
        check_positive(self, "rate_scale", "service_scale")


@dataclass(frozen=True)
class GateSettings:
    """What a policy must show before it is exported."""

    confidence: float = 0.95  # one-sided, of the gain over the best tuned rule
    margins: MarginSettings = MarginSettings()
    stress: dict[str, StressSettings] = field(default_factory=dict)  # by name

    def __post_init__(self) -> None:
        check_positive(self, "confidence")
        check_share(self, "confidence")
