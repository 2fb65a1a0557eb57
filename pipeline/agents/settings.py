"""Hyperparameters of the online agents: names, defaults, units and checks. Imports no torch."""

import math
from dataclasses import dataclass

from simulator.checks import check

NETWORK_KINDS = ("mlp", "attention")


@dataclass(frozen=True)
class PolicyGradientSettings:
    """What REINFORCE and PPO share.

    A transition is discounted by `discount * exp(-discount_rate * holding_s)`: set `discount`
    alone for the paper's 0.95 a step, `discount_rate` alone for a semi-Markov discount.
    """

    steps: int = 400_000  # decisions of all lanes together, at least
    lanes: int = 128
    learning_rate: float = 3e-3  # of Adam
    anneal_learning_rate: bool = True  # linearly to 0 over `steps`
    discount: float = 1.0  # a step
    discount_rate: float = 1.0  # 1/s
    entropy_weight: float = 0.003
    max_gradient_norm: float = 0.5
    minibatch: int = 2048  # transitions a gradient step
    network: str = "mlp"  # kind of the policy's body: mlp or attention
    hidden: tuple[int, ...] = (64, 64)  # of the policy; the paper's attention network has (64,)
    value_hidden: tuple[int, ...] = (64, 64)  # of the value network, an MLP
    normalizer_steps: int = 128  # a lane, by the uniform policy, to fit normalizer and reward scale
    validate_every: int = 0  # updates between two validations; 0: keep the last network

    def __post_init__(self) -> None:
        for field in ("steps", "lanes", "minibatch", "normalizer_steps"):
            check(getattr(self, field) >= 1, field, getattr(self, field), "must be at least 1")
        for field in ("learning_rate", "max_gradient_norm"):
            value = getattr(self, field)
            check(math.isfinite(value) and value > 0, field, value, "must be finite, above 0")
        for field in ("discount_rate", "entropy_weight"):
            value = getattr(self, field)
            check(math.isfinite(value) and value >= 0, field, value, "must be finite, at least 0")
        check(0 < self.discount <= 1, "discount", self.discount, "must be in (0, 1]")
        check(self.network in NETWORK_KINDS, "network", self.network, f"one of {NETWORK_KINDS}")
        for field in ("hidden", "value_hidden"):
            sizes = getattr(self, field)
            check(bool(sizes) and min(sizes) >= 1, field, sizes, "needs sizes of at least 1")
        check(self.validate_every >= 0, "validate_every", self.validate_every, "must be >= 0")


@dataclass(frozen=True)
class ReinforceSettings(PolicyGradientSettings):
    """REINFORCE with a learned baseline (paper section 4.3): updates at the end of episodes."""

    lanes: int = 16  # episodes an update
    learning_rate: float = 1e-2  # one pass a round: larger steps than PPO's
    value_epochs: int = 4  # passes over an update's transitions to fit the baseline
    max_episode_steps: int = 20_000  # an episode longer than this is truncated

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("value_epochs", "max_episode_steps"):
            check(getattr(self, field) >= 1, field, getattr(self, field), "must be at least 1")


@dataclass(frozen=True)
class PPOSettings(PolicyGradientSettings):
    """Proximal policy optimization (arXiv 1707.06347, clipped objective)."""

    rollout_steps: int = 64  # a lane, between two updates
    epochs: int = 4  # passes over a rollout
    gae_lambda: float = 0.95
    clip_range: float = 0.2  # paper section 4.3

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("rollout_steps", "epochs"):
            check(getattr(self, field) >= 1, field, getattr(self, field), "must be at least 1")
        check(0 <= self.gae_lambda <= 1, "gae_lambda", self.gae_lambda, "must be in [0, 1]")
        check(0 < self.clip_range < 1, "clip_range", self.clip_range, "must be in (0, 1)")
