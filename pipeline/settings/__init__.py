"""The schema of the configuration: frozen dataclasses with names, types, defaults and units.

`conf/` only chooses and overrides. A bad value raises ValueError with its full key, the value and
the rule. The hyperparameters of an agent are defined beside its algorithm.
"""

from pipeline.settings.build import build_settings
from pipeline.settings.checks import CLASS_NAME, NAME, check_name
from pipeline.settings.cluster import (
    AutoscalerSettings,
    ClusterSettings,
    DispatchDelaySettings,
    FaultSettings,
    FaultsSettings,
    ScalingSettings,
    ViewSettings,
)
from pipeline.settings.data import (
    AUTO,
    SOURCE_KINDS,
    CalibrationSettings,
    FetchSettings,
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
from pipeline.settings.simulation import RewardSettings, ScenarioSettings
from pipeline.settings.sizes import (
    ConstantSizeSettings,
    EmpiricalSizeSettings,
    LoggedSizeSettings,
    LognormalSizeSettings,
    QuantilesSizeSettings,
    SizeSettings,
)
from pipeline.settings.workload import (
    DiurnalWorkloadSettings,
    LoggedWorkloadSettings,
    MarkovModulatedWorkloadSettings,
    PoissonWorkloadSettings,
    RenewalWorkloadSettings,
    SquareBurstWorkloadSettings,
    WorkloadSettings,
)

__all__ = [
    "AUTO",
    "CLASS_NAME",
    "NAME",
    "SOURCE_KINDS",
    "AgentSettings",
    "AutoscalerSettings",
    "CalibrationSettings",
    "ClusterSettings",
    "ConstantSizeSettings",
    "DiscreteBCAgentSettings",
    "DiscreteCQLAgentSettings",
    "DispatchDelaySettings",
    "DiurnalWorkloadSettings",
    "EmpiricalSizeSettings",
    "FaultSettings",
    "FaultsSettings",
    "FetchSettings",
    "GateSettings",
    "IngestSettings",
    "LoggedSizeSettings",
    "LoggedWorkloadSettings",
    "LognormalSizeSettings",
    "MarginSettings",
    "MarkovModulatedWorkloadSettings",
    "OfflineAgentSettings",
    "OnlineAgentSettings",
    "PPOAgentSettings",
    "PickSettings",
    "PoissonWorkloadSettings",
    "PolicySettings",
    "QuantilesSizeSettings",
    "ReinforceAgentSettings",
    "RenewalWorkloadSettings",
    "ReplaySettings",
    "RewardSettings",
    "RunSettings",
    "ScalingSettings",
    "ScenarioSettings",
    "Settings",
    "SizeSettings",
    "SourceSettings",
    "SplitSettings",
    "SquareBurstWorkloadSettings",
    "StressSettings",
    "ToleranceSettings",
    "TuneSettings",
    "ValidateSettings",
    "ViewSettings",
    "WorkloadSettings",
    "build_settings",
    "check_name",
]
