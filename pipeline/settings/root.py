"""The whole configuration, and the checks across its sections."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pipeline.settings.checks import check_name
from pipeline.settings.cluster import ClusterSettings
from pipeline.settings.data import (
    CalibrationSettings,
    IngestSettings,
    SourceSettings,
    SplitSettings,
)
from pipeline.settings.learning import (
    AGENTS,
    OFFLINE_AGENTS,
    ONLINE_AGENTS,
    AgentSettings,
    ArenaSettings,
    GateSettings,
    PolicySettings,
    ReplaySettings,
    TuneSettings,
    ValidateSettings,
)
from pipeline.settings.simulation import RewardSettings, ScenarioSettings
from pipeline.settings.workload import WORKLOADS, WorkloadSettings, workload_classes
from simulator.checks import check


@dataclass(frozen=True)
class RunSettings:
    """What the pipeline works on; dvc.yaml makes one stage of each behavior policy and agent."""

    sources: tuple[str, ...]
    behavior: tuple[str, ...]
    offline: tuple[str, ...]
    online: tuple[str, ...]

    def __post_init__(self) -> None:
        for key in ("sources", "behavior"):
            check(len(getattr(self, key)) > 0, key, getattr(self, key), "must not be empty")
        for key in ("sources", "behavior", "offline", "online"):
            names = getattr(self, key)
            check(len(set(names)) == len(names), key, names, "must not name anything twice")


@dataclass(frozen=True)
class PickSettings:
    """The item of a stage that works on one item; dvc.yaml sets it."""

    policy: str
    agent: str


@dataclass(frozen=True)
class Settings:
    """Everything that `conf/` says, typed and checked."""

    seed: int
    run: RunSettings
    pick: PickSettings
    sources: dict[str, SourceSettings]
    ingest: IngestSettings
    split: SplitSettings
    calibration: CalibrationSettings
    cluster: ClusterSettings
    scenario: ScenarioSettings
    workload: WorkloadSettings = field(metadata={"choose": ("kind", WORKLOADS)})
    reward: RewardSettings
    policies: dict[str, PolicySettings]
    tune: TuneSettings
    arena: ArenaSettings
    replay: ReplaySettings
    agents: dict[str, AgentSettings] = field(metadata={"choose": ("algorithm", AGENTS)})
    validate: ValidateSettings
    gate: GateSettings

    def __post_init__(self) -> None:
        check(0 <= self.seed < 2**32, "seed", self.seed, "must be in 0 .. 2**32 - 1")
        for key in ("sources", "policies", "agents"):
            for name in getattr(self, key):
                check_name(key, name)
        self._check_lists()
        self._check_classes()

    def _check_lists(self) -> None:
        run, agents = self.run, self.agents
        offline = [name for name in agents if agents[name].algorithm in OFFLINE_AGENTS]
        online = [name for name in agents if agents[name].algorithm in ONLINE_AGENTS]
        _check_known("run.sources", run.sources, self.sources)
        _check_known("run.behavior", run.behavior, self.policies)
        _check_known("run.offline", run.offline, offline)
        _check_known("run.online", run.online, online)
        _check_known("pick.policy", [self.pick.policy], self.policies)
        _check_known("pick.agent", [self.pick.agent], agents)
        # That it is also in run.sources is for calibrate to ask: ingest alone can do without.
        _check_known("calibration.source", [self.calibration.source], self.sources)

    def _check_classes(self) -> None:
        classes = set(self.scenario.slo_s)
        by_class: dict[str, Any] = {"reward.class_weight": self.reward.class_weight}
        named = workload_classes(self.workload)
        if named is not None:
            by_class[f"workload.{named[0]}"] = named[1]
        sizes = getattr(self.workload, "sizes", {})
        if sizes:
            by_class["workload.sizes"] = sizes
        for key, numbers in by_class.items():
            rule = f"needs the classes of scenario.slo_s: {', '.join(sorted(classes))}"
            check(set(numbers) == classes, key, numbers, rule)


def _check_known(key: str, names: Iterable[str], known: Iterable[str]) -> None:
    choices = sorted(known)
    for name in names:
        check(name in choices, key, name, f"must be one of {', '.join(choices) or 'nothing'}")
