"""Does the calibrated simulator retell the log? Logged arrivals, logged policy, what came of it."""

from pipeline.calibration.fidelity.bands import ALL_BANDS, LoadBands, band_names, load_bands
from pipeline.calibration.fidelity.compare import FidelityRow, FidelityRules, fidelity_rows
from pipeline.calibration.fidelity.describe import describe_fidelity
from pipeline.calibration.fidelity.gate import (
    Gate,
    Judgment,
    fidelity_failures,
    fidelity_warnings,
    judged,
)
from pipeline.calibration.fidelity.policy import largest_batch, logged_policy, logged_rule
from pipeline.calibration.fidelity.quantiles import QuantileRow, quantile_rows
from pipeline.calibration.fidelity.replay import (
    Outcome,
    Replay,
    replay_batches,
    replay_response_s,
    replay_tokens,
)
from pipeline.calibration.fidelity.report import (
    BandShare,
    Fidelity,
    ReplayedPolicy,
    fidelity_of_log,
    from_json,
    replayed_policy,
    to_json,
)

__all__ = [
    "ALL_BANDS",
    "BandShare",
    "Fidelity",
    "FidelityRow",
    "FidelityRules",
    "Gate",
    "Judgment",
    "LoadBands",
    "Outcome",
    "QuantileRow",
    "Replay",
    "ReplayedPolicy",
    "band_names",
    "describe_fidelity",
    "fidelity_failures",
    "fidelity_of_log",
    "fidelity_rows",
    "fidelity_warnings",
    "from_json",
    "judged",
    "largest_batch",
    "load_bands",
    "logged_policy",
    "logged_rule",
    "quantile_rows",
    "replay_batches",
    "replay_response_s",
    "replay_tokens",
    "replayed_policy",
    "to_json",
]
