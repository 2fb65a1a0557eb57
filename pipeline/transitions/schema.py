"""The columns of a transitions file, and the meaning of its features and actions (metadata)."""

import json
import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import polars as pl

from simulator.action import action_table
from simulator.observation import Encoder, Feature
from simulator.reward import reward_term_names
from simulator.scenario import Scenario

METADATA_KEY = "batchwright"
CLOSING_ACTION = -1  # the action of a closing row


class ActionMeaning(NamedTuple):
    """One action: WAIT is (-1, -1, 0); request class -1 is the class at the head of the line."""

    replica: int
    request_class: int
    batch_size: int


@dataclass(frozen=True)
class TransitionSchema:
    """What the numbers of a transitions file mean. F features, A actions, T reward terms."""

    encoder: str
    features: tuple[Feature, ...]  # [F]
    actions: tuple[ActionMeaning, ...]  # [A]
    reward_terms: tuple[str, ...]  # [T]
    class_names: tuple[str, ...]

    def columns(self) -> pl.Schema:
        """The columns in order, with their types."""
        return pl.Schema(
            {
                "run": pl.Int32(),
                "episode": pl.Int32(),
                "step": pl.Int32(),
                "clock_s": pl.Float64(),
                "holding_s": pl.Float64(),
                "features": pl.Array(pl.Float32(), len(self.features)),
                "action_mask": pl.Array(pl.Boolean(), len(self.actions)),
                "action": pl.Int32(),
                "propensity": pl.Float64(),
                **dict.fromkeys(self.reward_terms, pl.Float64()),
                "terminated": pl.Boolean(),
                "truncated": pl.Boolean(),
                "behavior_policy": pl.String(),
                "scenario": pl.String(),
                "seed": pl.Int64(),
            }
        )

    def to_json(self) -> str:
        """The schema as JSON text; an infinite end of a feature's range is null."""
        content = asdict(self)
        content["actions"] = [action._asdict() for action in self.actions]
        for feature in content["features"]:
            for end in ("low", "high"):
                feature[end] = feature[end] if math.isfinite(feature[end]) else None
        return json.dumps(content, sort_keys=True, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "TransitionSchema":
        """The schema that `to_json` wrote. Raises ValueError for any other text."""
        try:
            content = json.loads(text)
            return cls(
                encoder=content["encoder"],
                features=tuple(_feature(**feature) for feature in content["features"]),
                actions=tuple(ActionMeaning(**action) for action in content["actions"]),
                reward_terms=tuple(content["reward_terms"]),
                class_names=tuple(content["class_names"]),
            )
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"is not a transition schema ({error!r})") from error


def _feature(low: float | None, high: float | None, **rest: Any) -> Feature:
    return Feature(
        low=-math.inf if low is None else low, high=math.inf if high is None else high, **rest
    )


def transition_schema(scenario: Scenario, encoder: Encoder) -> TransitionSchema:
    """The schema of transitions recorded in `scenario` through `encoder`."""
    table = action_table(scenario)
    columns = (table.replica, table.request_class, table.batch_size)
    return TransitionSchema(
        encoder=encoder.name,
        features=encoder.features,
        actions=tuple(
            ActionMeaning(*action)
            for action in zip(*(column.tolist() for column in columns), strict=True)
        ),
        reward_terms=reward_term_names(scenario.class_names),
        class_names=scenario.class_names,
    )
