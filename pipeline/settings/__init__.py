"""The schema of the configuration: frozen dataclasses with names, types, defaults and units.

`conf/` only chooses and overrides. A bad value raises ValueError with its full key, the value and
the rule. The hyperparameters of an agent are defined beside its algorithm.
"""

from pipeline.settings.build import build_settings
from pipeline.settings.checks import CLASS_NAME, NAME, check_name
from pipeline.settings.data import (
    CalibrationSettings,
    IngestSettings,
    SourceSettings,
    SplitSettings,
    ToleranceSettings,
)
from pipeline.settings.learning import (
    AgentSettings,
    DiscreteBCAgentSettings,
    DiscreteCQLAgentSettings,
    GateSettings,
    MarginSettings,
    OfflineAgentSettings,
    OnlineAgentSettings,
    PolicySettings,
    PPOAgentSettings,
    ReinforceAgentSettings,
    ReplaySettings,
    StressSettings,
    TuneSettings,
    ValidateSettings,
)
from pipeline.settings.root import PickSettings, RunSettings, Settings
from pipeline.settings.simulation import (
    ClusterSettings,
    LoggedWorkloadSettings,
    PoissonWorkloadSettings,
    RewardSettings,
    ScenarioSettings,
    SquareBurstWorkloadSettings,
    WorkloadSettings,
)

__all__ = [
    "CLASS_NAME",
    "NAME",
    "AgentSettings",
    "CalibrationSettings",
    "ClusterSettings",
    "DiscreteBCAgentSettings",
    "DiscreteCQLAgentSettings",
    "GateSettings",
    "IngestSettings",
    "LoggedWorkloadSettings",
    "MarginSettings",
    "OfflineAgentSettings",
    "OnlineAgentSettings",
    "PPOAgentSettings",
    "PickSettings",
    "PoissonWorkloadSettings",
    "PolicySettings",
    "ReinforceAgentSettings",
    "ReplaySettings",
    "RewardSettings",
    "RunSettings",
    "ScenarioSettings",
    "Settings",
    "SourceSettings",
    "SplitSettings",
    "SquareBurstWorkloadSettings",
    "StressSettings",
    "ToleranceSettings",
    "TuneSettings",
    "ValidateSettings",
    "WorkloadSettings",
    "build_settings",
    "check_name",
]
