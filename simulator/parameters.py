"""What a scenario is made of, checked where it enters, and its form as arrays for the kernels."""

import math
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from simulator.checks import check


class DecisionEpochs(StrEnum):
    """When a `dispatch` decision is due.

    `events`: as soon as a request waits and a replica can take it; after WAIT at the next event,
    or `tick_s` later, whichever comes first.
    `ticks`: at every multiple of `tick_s`, whether or not anything waits (the paper's step).
    """

    EVENTS = "events"
    TICKS = "ticks"


class ClassChoice(StrEnum):
    """Whether the action names the request class, or takes the class at the head of the line."""

    ANY = "any"
    HEAD_OF_LINE = "head_of_line"


@dataclass(frozen=True)
class RequestClass:
    """A kind of request: its name, its response-time target and its weight in the reward."""

    name: str
    slo_s: float
    weight: float = 1.0

    def __post_init__(self) -> None:
        check(bool(self.name), "request_class.name", self.name, "must not be empty")
        check(
            math.isfinite(self.slo_s) and self.slo_s > 0,
            f"{self.name}.slo_s",
            self.slo_s,
            "must be a positive, finite number of seconds",
        )
        check(
            math.isfinite(self.weight) and self.weight >= 0,
            f"{self.name}.weight",
            self.weight,
            "must be finite and at least 0",
        )


@dataclass(frozen=True)
class Replica:
    """One server. A batch of class c takes `(alpha_s[c] + beta_s[c] * sum of sizes) * noise`.

    The noise is lognormal with mean 1 and coefficient of variation `noise_cv[c]`.
    """

    alpha_s: tuple[float, ...]  # [C] seconds per batch
    beta_s: tuple[float, ...]  # [C] seconds per request of size 1
    noise_cv: tuple[float, ...]  # [C]
    max_batch_size: int
    idle_power_w: float = 0.0
    busy_power_w: float = 0.0

    def __post_init__(self) -> None:
        classes = len(self.alpha_s)
        for field in ("alpha_s", "beta_s", "noise_cv"):
            values = getattr(self, field)
            check(len(values) == classes, field, values, f"needs one value for each of {classes}")
            for value in values:
                check(
                    math.isfinite(value) and value >= 0, field, value, "must be finite, at least 0"
                )
        for alpha_s, beta_s in zip(self.alpha_s, self.beta_s, strict=True):
            check(alpha_s + beta_s > 0, "alpha_s + beta_s", 0.0, "a batch must take some time")
        check(self.max_batch_size >= 1, "max_batch_size", self.max_batch_size, "must be at least 1")
        for field in ("idle_power_w", "busy_power_w"):
            value = getattr(self, field)
            check(math.isfinite(value) and value >= 0, field, value, "must be finite, at least 0")


@dataclass(frozen=True)
class Scenario:
    """A cluster, its request classes, and the rules of its decisions. Immutable and checked."""

    request_classes: tuple[RequestClass, ...]
    replicas: tuple[Replica, ...]
    batch_sizes: tuple[int, ...]  # the menu of the action, ascending
    queue_capacity: int = 100
    class_choice: ClassChoice = ClassChoice.ANY
    decision_epochs: DecisionEpochs = DecisionEpochs.EVENTS
    tick_s: float = 0.005
    rate_window_s: float = 1.0  # time constant of the arrival-rate and utilization averages
    spell_share: float = 0.0  # of the variance of log noise, common to batches near in time
    spell_time_s: float = 1.0  # in which that correlation falls to 1/e

    def __post_init__(self) -> None:
        check(len(self.request_classes) >= 1, "request_classes", (), "needs at least one class")
        check(len(self.replicas) >= 1, "replicas", (), "needs at least one replica")
        names = [request_class.name for request_class in self.request_classes]
        check(len(set(names)) == len(names), "request_classes", names, "names must differ")
        for number, replica in enumerate(self.replicas):
            check(
                len(replica.alpha_s) == len(self.request_classes),
                f"replicas[{number}].alpha_s",
                replica.alpha_s,
                f"needs one value for each of {len(self.request_classes)} request classes",
            )
        menu = self.batch_sizes
        check(len(menu) >= 1, "batch_sizes", menu, "needs at least one batch size")
        check(menu[0] >= 1, "batch_sizes", menu[0], "a batch size must be at least 1")
        check(
            all(a < b for a, b in pairwise(menu)),
            "batch_sizes",
            menu,
            "must ascend, without repeats",
        )
        smallest = min(replica.max_batch_size for replica in self.replicas)
        check(menu[0] <= smallest, "batch_sizes", menu, f"no size fits max_batch_size {smallest}")
        check(self.queue_capacity >= 1, "queue_capacity", self.queue_capacity, "must be at least 1")
        check(0 <= self.spell_share < 1, "spell_share", self.spell_share, "must be in [0, 1)")
        for field in ("tick_s", "rate_window_s", "spell_time_s"):
            value = getattr(self, field)
            check(math.isfinite(value) and value > 0, field, value, "must be positive and finite")

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the request classes, in the order of their numbers."""
        return tuple(request_class.name for request_class in self.request_classes)

    def parameters(self) -> "Parameters":
        """The scenario as arrays for the kernels."""
        return Parameters(
            alpha_s=np.array([r.alpha_s for r in self.replicas], float),
            beta_s=np.array([r.beta_s for r in self.replicas], float),
            noise_sigma=np.sqrt(
                np.log1p(np.square(np.array([r.noise_cv for r in self.replicas], float)))
            ),
            max_batch_size=np.array([r.max_batch_size for r in self.replicas], np.int64),
            idle_power_w=np.array([r.idle_power_w for r in self.replicas], float),
            busy_power_w=np.array([r.busy_power_w for r in self.replicas], float),
            slo_s=np.array([c.slo_s for c in self.request_classes], float),
            queue_capacity=self.queue_capacity,
            at_ticks=self.decision_epochs == DecisionEpochs.TICKS,
            tick_s=self.tick_s,
            rate_window_s=self.rate_window_s,
        )


class Parameters(NamedTuple):
    """The constants of a scenario, the same for every lane. K replicas, C request classes."""

    alpha_s: np.ndarray  # [K, C] s per batch
    beta_s: np.ndarray  # [K, C] s per request of size 1
    noise_sigma: np.ndarray  # [K, C] sigma of the lognormal noise
    max_batch_size: np.ndarray  # [K]
    idle_power_w: np.ndarray  # [K] W
    busy_power_w: np.ndarray  # [K] W
    slo_s: np.ndarray  # [C] s
    queue_capacity: int
    at_ticks: bool
    tick_s: float
    rate_window_s: float
