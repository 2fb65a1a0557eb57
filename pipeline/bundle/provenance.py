"""Where a bundle comes from, and the figures that it may claim."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.bundle.manifest import LARGEST_BATCH, Result, runtime_plays
from pipeline.bundle.runtime import BY_CLASS, BY_REPLICA, RULES
from simulator.observation import Encoder
from simulator.scenario import Scenario


def bundle_hashes(data: Path, params: Path) -> dict[str, str]:
    """The sha256 of the warehouse's manifest, the calibration and the composed configuration."""
    files = {
        "data": data / "warehouse.json",
        "calibration": data / "calibration.json",
        "config": params,
    }
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}


def bundle_results(card: dict[str, Any], confidence: float) -> Sequence[Result]:
    """The winner's reward and its difference to the best rule, on the test split."""
    standing = next(s for s in card["standings"] if s["name"] == card["winner"])
    unit = "reward/s"
    reward, gain = standing["reward_per_s"], standing["difference"]
    return [
        Result("reward_per_s", unit, reward["mean"], reward["low"], reward["high"], confidence),
        Result(
            "reward_per_s",
            unit,
            gain["mean"],
            gain["low"],
            gain["high"],
            confidence,
            against=card["best_rule"],
        ),
    ]


def fallback_for(
    standings: Sequence[dict[str, Any]], encoder: Encoder, scenario: Scenario
) -> tuple[str, dict[str, Any]]:
    """The rule that the runtime falls back to, with its parameters.

    The best tuned rule where the runtime can compute it from the features in this scenario, else
    the next best that it can; the largest legal batch where the features do not say enough for any.
    """
    names = {feature.name.split(".")[0] for feature in encoder.features}
    if {*BY_CLASS, *BY_REPLICA} <= names:
        for standing in standings:  # best first
            name, parameters = standing["name"], standing["parameters"]
            known = standing["kind"] == "rule" and name in RULES
            if known and runtime_plays(name, parameters, scenario):
                return name, parameters
    return LARGEST_BATCH, {}
