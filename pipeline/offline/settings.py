"""Hyperparameters of the offline agents: names, defaults, units and checks. Imports no torch."""

import math
from dataclasses import dataclass

from pipeline.agents.settings import NETWORK_KINDS
from simulator.checks import check


@dataclass(frozen=True)
class OfflineSettings:
    """What all offline agents share."""

    updates: int = 10_000  # gradient steps
    updates_per_epoch: int = 500  # updates between two rows of the curve; divides `updates`
    minibatch: int = 256  # transitions a gradient step
    learning_rate: float = 1e-3  # of Adam
    network: str = "mlp"  # kind of body: mlp or attention
    hidden: tuple[int, ...] = (64, 64)

    def __post_init__(self) -> None:
        for field in ("updates", "updates_per_epoch", "minibatch"):
            check(getattr(self, field) >= 1, field, getattr(self, field), "must be at least 1")
        # d3rlpy would leave out the updates of an unfinished epoch, and say nothing.
        rule = f"must be a multiple of updates_per_epoch = {self.updates_per_epoch}"
        check(self.updates % self.updates_per_epoch == 0, "updates", self.updates, rule)
        rate = self.learning_rate
        check(math.isfinite(rate) and rate > 0, "learning_rate", rate, "must be finite, above 0")
        check(self.network in NETWORK_KINDS, "network", self.network, f"one of {NETWORK_KINDS}")
        positive = bool(self.hidden) and min(self.hidden) >= 1
        check(positive, "hidden", self.hidden, "needs sizes of at least 1")


@dataclass(frozen=True)
class DiscreteBCSettings(OfflineSettings):
    """Behavior cloning: the network learns the behavior policy's action probabilities."""

    logit_penalty: float = 0.0  # weight of the mean squared log-probability (d3rlpy's beta)

    def __post_init__(self) -> None:
        super().__post_init__()
        value = self.logit_penalty
        check(math.isfinite(value) and value >= 0, "logit_penalty", value, "finite, at least 0")


@dataclass(frozen=True)
class DiscreteCQLSettings(OfflineSettings):
    """Conservative Q-learning (arXiv 2006.04779) over double Q-learning.

    A transition is discounted by `discount * exp(-discount_rate * holding_s)`, as for the online
    agents.
    """

    discount: float = 1.0  # a step
    discount_rate: float = 0.5  # 1/s
    target_update_interval: int = 100  # updates between two copies into the target network
    conservative_weight: float = 0.2  # of the conservative term; 0 is double Q-learning

    def __post_init__(self) -> None:
        super().__post_init__()
        check(0 < self.discount <= 1, "discount", self.discount, "must be in (0, 1]")
        for field in ("discount_rate", "conservative_weight"):
            value = getattr(self, field)
            check(math.isfinite(value) and value >= 0, field, value, "must be finite, at least 0")
        interval = self.target_update_interval
        check(interval >= 1, "target_update_interval", interval, "must be at least 1")


OFFLINE_SETTINGS: dict[str, type[OfflineSettings]] = {
    "discrete_bc": DiscreteBCSettings,
    "discrete_cql": DiscreteCQLSettings,
}
