"""The manifest of a bundle: what the policy reads, what its answers mean, where it comes from."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pipeline.agents.artifact import AgentDescription
from pipeline.bundle.runtime import BY_CLASS, BY_REPLICA, FORMAT, RULES, VERSION
from simulator.action import WAIT, ActionTable, action_table
from simulator.observation import Encoder
from simulator.policies import build_policy
from simulator.scenario import MixedBatches, Scenario

HASHES = ("data", "calibration", "config")
LARGEST_BATCH = "largest_batch"  # the one rule of the runtime that reads no feature


@dataclass(frozen=True)
class Result:
    """A figure of the policy with its interval, on the test split."""

    metric: str  # such as response_p95_s
    unit: str
    value: float
    low: float
    high: float
    level: float = 0.95  # of the interval
    against: str = ""  # the policy that this is a paired difference from; empty: the figure itself

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and self.low <= self.value <= self.high < math.inf):
            interval = (self.low, self.value, self.high)
            raise ValueError(f"results.{self.metric} = {interval!r}: low <= value <= high, finite")


def feature_rows(encoder: Encoder) -> list[dict[str, Any]]:
    """Name, unit and range of each feature, in the order of the input; null: no bound."""

    def bound(value: float) -> float | None:
        return float(value) if math.isfinite(value) else None

    return [
        {"name": f.name, "unit": f.unit, "low": bound(f.low), "high": bound(f.high)}
        for f in encoder.features
    ]


def action_rows(table: ActionTable, class_names: Sequence[str]) -> list[dict[str, Any]]:
    """Replica, request class and batch size of each action.

    WAIT has replica null and batch size 0; request class null is the class at the head of the line.
    """
    rows: list[dict[str, Any]] = []
    columns = (table.replica, table.request_class, table.batch_size)
    for replica, number, batch_size in np.stack(columns, axis=1).tolist():
        rows.append(
            {
                "replica": replica if replica >= 0 else None,
                "request_class": class_names[number] if number >= 0 else None,
                "batch_size": batch_size,
            }
        )
    if rows[WAIT]["batch_size"] != 0:
        raise RuntimeError(f"action {WAIT} is not WAIT")
    return rows


def fallback_rows(
    rule: str, parameters: Mapping[str, Any], scenario: Scenario, encoder: Encoder
) -> dict[str, Any]:
    """All that `runtime.FallbackRule` needs: the rule, and the scenario's numbers that it uses.

    Raises ValueError for a rule that the runtime does not have, a parameter that the rule does not
    take, or an encoder without the features that the rule reads.
    """
    if rule not in RULES:
        raise ValueError(f"fallback.rule = {rule!r}: must be one of {', '.join(RULES)}")
    if rule != LARGEST_BATCH:
        build_policy(rule, scenario, parameters)  # its checks of the parameters
        _check_features(rule, scenario, encoder)
        if not runtime_plays(rule, parameters, scenario):
            raise ValueError(
                f"fallback.rule = {rule!r}: the features do not say what it needs to know in this "
                f"scenario; use {LARGEST_BATCH!r}, which reads no feature"
            )
    constants = scenario.parameters()
    weight = np.array([request_class.weight for request_class in scenario.request_classes])
    # c * mu, with mu the service rate one by one on the fastest replica of the class.
    priority = weight / (constants.alpha_s + constants.beta_s).min(axis=0)
    return {
        "rule": rule,
        "parameters": dict(parameters),
        "class_choice": str(scenario.class_choice),
        "class_priority": priority.tolist(),
        "alpha_s": constants.alpha_s.tolist(),
        "beta_s": constants.beta_s.tolist(),
        "max_batch_size": constants.max_batch_size.tolist(),
    }


def runtime_plays(rule: str, parameters: Mapping[str, Any], scenario: Scenario) -> bool:
    """Whether the runtime's version of the rule does in this scenario what the rule does.

    It counts on replicas that serve every class and batches of one class; its shortest queue, on
    replicas that take a batch only when idle; its blocking round robin, on replicas that are on.
    """
    plain = bool(scenario.parameters().serves.all()) and scenario.mixed == MixedBatches.NEVER
    ties = rule != "shortest_queue" or scenario.replica_backlog == 0
    turns = parameters.get("on_busy") != "blocking" or not scenario.may_start_replicas
    return plain and ties and turns


def _check_features(rule: str, scenario: Scenario, encoder: Encoder) -> None:
    needed = [f"{gauge}.{name}" for gauge in BY_CLASS for name in scenario.class_names]
    needed += [f"{gauge}.{k}" for gauge in BY_REPLICA for k in range(len(scenario.replicas))]
    missing = sorted(set(needed) - {feature.name for feature in encoder.features})
    if missing:
        raise ValueError(
            f"fallback.rule = {rule!r}: the encoder {encoder.name!r} lacks {', '.join(missing)}; "
            f"use {LARGEST_BATCH!r}, which reads no feature"
        )


def model_metadata(features: list[dict[str, Any]], actions: list[dict[str, Any]]) -> dict[str, str]:
    """What the ONNX file itself tells, so that it cannot be paired with another manifest."""
    return {
        "batchwright.version": json.dumps(VERSION),
        "batchwright.features": json.dumps([feature["name"] for feature in features]),
        "batchwright.units": json.dumps([feature["unit"] for feature in features]),
        "batchwright.actions": json.dumps(actions),
    }


def build_manifest(
    description: AgentDescription,
    encoder: Encoder,
    scenario: Scenario,
    fallback: dict[str, Any],
    hashes: Mapping[str, str],
    results: Sequence[Result],
) -> dict[str, Any]:
    """The manifest without `files`, which is added when the other files exist.

    hashes: sha256 of `data`, `calibration` and `config`. Raises ValueError where one is absent, or
    the agent's features or actions are not the encoder's and the scenario's.
    """
    if set(hashes) != set(HASHES):
        raise ValueError(f"hashes = {sorted(hashes)}: must be {sorted(HASHES)}")
    features = feature_rows(encoder)
    actions = action_rows(action_table(scenario), scenario.class_names)
    if description["features"] != [feature["name"] for feature in features]:
        raise ValueError(f"agent.features: are not those of the encoder {encoder.name!r}")
    if description["actions"] != len(actions):
        raise ValueError(
            f"agent.actions = {description['actions']}: the scenario has {len(actions)}"
        )
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": description["name"],
        "algorithm": description["algorithm"],
        "seed": description["seed"],
        "decision_epochs": str(scenario.decision_epochs),
        "tick_s": scenario.tick_s,
        "encoder": encoder.name,
        "score": description["score"],
        "features": features,
        "class_names": list(scenario.class_names),
        "actions": actions,
        "fallback": fallback,
        "hashes": dict(hashes),
        "results": [asdict(result) for result in results],
    }
