"""What a policy may see, in natural units, and how it becomes the feature vector of a network."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from simulator.parameters import Scenario

RESPONSE_WINDOW = 32  # answered requests that `response_p95_s` looks back on


class Observation(NamedTuple):
    """What the dispatcher knows at a decision, lane first. B lanes, C classes, K replicas.

    The arrays that an environment hands out are overwritten by its next step: copy what you keep.
    """

    queue_length: np.ndarray  # [B, C] requests waiting
    oldest_wait_s: np.ndarray  # [B, C] s that the oldest of the class has waited, 0 if none waits
    head_class: np.ndarray  # [B] class of the request that has waited longest, -1 if none waits
    since_dispatch_s: np.ndarray  # [B] s since the last dispatch, or since the start
    last_replica: np.ndarray  # [B] replica of the last dispatch, -1 before the first
    can_take: np.ndarray  # [B, K] 1.0 where the replica can take a batch now
    remaining_service_s: np.ndarray  # [B, K] expected s to completion, 0 where idle or overdue
    in_service: np.ndarray  # [B, K] requests of the batch in service
    arrival_rate_rps: np.ndarray  # [B, C] exponentially weighted over rate_window_s
    response_p95_s: np.ndarray  # [B] nearest-rank P95 of the last RESPONSE_WINDOW answered; 0 first
    utilization: np.ndarray  # [B, K] share of time busy, exponentially weighted over rate_window_s


@dataclass(frozen=True)
class Feature:
    """One number of the feature vector: its name, its unit and the range it can take."""

    name: str
    unit: str
    low: float
    high: float  # may be infinite


@dataclass(frozen=True)
class Encoder:
    """Turns an `Observation` into features `[B, F]` float32, in the order of `features`."""

    name: str
    features: tuple[Feature, ...]
    encode: Callable[[Observation], np.ndarray]


def _one_hot(number: np.ndarray, size: int) -> np.ndarray:
    return (number[:, None] == np.arange(size)).astype(np.float32)


def full_encoder(scenario: Scenario) -> Encoder:
    """Every field of the observation in natural units; classes one-hot."""
    names, replicas = scenario.class_names, range(len(scenario.replicas))
    infinite, capacity = float("inf"), float(scenario.queue_capacity)
    features = (
        *(Feature(f"queue_length.{c}", "requests", 0, capacity) for c in names),
        *(Feature(f"oldest_wait_s.{c}", "s", 0, infinite) for c in names),
        *(Feature(f"head_class.{c}", "1", 0, 1) for c in names),
        Feature("since_dispatch_s", "s", 0, infinite),
        *(Feature(f"last_replica.{k}", "1", 0, 1) for k in replicas),
        *(Feature(f"can_take.{k}", "1", 0, 1) for k in replicas),
        *(Feature(f"remaining_service_s.{k}", "s", 0, infinite) for k in replicas),
        *(
            Feature(f"in_service.{k}", "requests", 0, float(scenario.replicas[k].max_batch_size))
            for k in replicas
        ),
        *(Feature(f"arrival_rate_rps.{c}", "requests/s", 0, infinite) for c in names),
        Feature("response_p95_s", "s", 0, infinite),
        *(Feature(f"utilization.{k}", "1", 0, 1) for k in replicas),
    )

    def encode(observation: Observation) -> np.ndarray:
        return np.concatenate(
            [
                observation.queue_length,
                observation.oldest_wait_s,
                _one_hot(observation.head_class, len(names)),
                observation.since_dispatch_s[:, None],
                _one_hot(observation.last_replica, len(replicas)),
                observation.can_take,
                observation.remaining_service_s,
                observation.in_service,
                observation.arrival_rate_rps,
                observation.response_p95_s[:, None],
                observation.utilization,
            ],
            axis=1,
            dtype=np.float32,
        )

    return Encoder("full", features, encode)


def paper_encoder(scenario: Scenario, window_s: float = 1.0) -> Encoder:
    """The paper's state (section 4.1): queue length over capacity, time since the last batch over
    `window_s` (clipped to 1), class at the head of the line one-hot, busy flags; padded with zeros
    to the paper's 8 numbers where there are fewer (D13, D21, D22)."""
    names, replicas = scenario.class_names, range(len(scenario.replicas))
    features = [
        Feature("queue_fill", "1", 0, 1),
        Feature("since_dispatch_share", "1", 0, 1),
        *(Feature(f"head_class.{c}", "1", 0, 1) for c in names),
        *(Feature(f"busy.{k}", "1", 0, 1) for k in replicas),
    ]
    padding = max(0, 8 - len(features))
    features += [Feature(f"padding.{i}", "1", 0, 0) for i in range(padding)]

    def encode(observation: Observation) -> np.ndarray:
        lanes = len(observation.head_class)
        return np.concatenate(
            [
                observation.queue_length.sum(1, keepdims=True) / scenario.queue_capacity,
                np.minimum(observation.since_dispatch_s[:, None] / window_s, 1.0),
                _one_hot(observation.head_class, len(names)),
                1.0 - observation.can_take,
                np.zeros((lanes, padding)),
            ],
            axis=1,
            dtype=np.float32,
        )

    return Encoder("paper", tuple(features), encode)


ENCODERS: dict[str, Callable[[Scenario], Encoder]] = {"full": full_encoder, "paper": paper_encoder}
