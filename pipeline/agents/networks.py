"""The networks that score actions: normalizer, body and head, from natural-unit features on."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

# Networks of this size run 2-30 times slower when two threads share a busy machine.
torch.set_num_threads(1)

MASKED_SCORE = -1e9  # not -inf: an all-masked row stays finite, and softmax still underflows to 0
NORMALIZED_LIMIT = 10.0  # standard deviations


class Normalizer(nn.Module):
    """`clamp((features - mean) / std, -10, 10)`, with mean and std fixed after `fit`."""

    mean: torch.Tensor  # [F] natural units
    std: torch.Tensor  # [F] natural units, positive

    def __init__(self, features: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("std", torch.ones(features))

    def fit(self, features: np.ndarray) -> None:
        """Take mean and std from `features [n, F]`, natural units; a constant feature gets std 1.

        Raises ValueError where a feature is not finite, or the shape does not fit.
        """
        if features.ndim != 2 or len(features) == 0 or features.shape[1] != len(self.mean):
            raise ValueError(f"features: shape {features.shape}: must be [n, {len(self.mean)}]")
        if not np.isfinite(features).all():
            raise ValueError("features: NaN or infinite value: must be finite to fit a normalizer")
        wide = features.astype(np.float64)  # float32 sums lose digits over millions of rows
        std = wide.std(axis=0)
        # Rounding leaves a constant feature a std of about 1e-16 of its size, not 0.
        constant = std <= 1e-7 * np.maximum(1.0, np.abs(wide).max(axis=0))
        self.mean.copy_(torch.from_numpy(wide.mean(axis=0)))
        self.std.copy_(torch.from_numpy(np.where(constant, 1.0, std)))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """`[B, F]` natural units -> `[B, F]` standard deviations from the mean."""
        normalized = (features - self.mean) / self.std
        return normalized.clamp(-NORMALIZED_LIMIT, NORMALIZED_LIMIT)


class MlpBody(nn.Module):
    """Fully connected layers with tanh: `[B, F]` -> `[B, H]`."""

    def __init__(self, features: int, hidden: Sequence[int]) -> None:
        super().__init__()
        sizes = [features, *hidden]
        layers: list[nn.Module] = []
        for size, next_size in pairwise(sizes):
            layers += [nn.Linear(size, next_size), nn.Tanh()]
        self.layers = nn.Sequential(*layers)
        self.output_size = sizes[-1]

    def forward(self, normalized: torch.Tensor) -> torch.Tensor:
        """`[B, F]` -> `[B, H]`."""
        hidden: torch.Tensor = self.layers(normalized)
        return hidden


class AttentionBody(nn.Module):
    """Self-attention over features, then fully connected layers with GELU: `[B, F]` -> `[B, H]`.

    Paper section 4.2, embedding 4 and 2 heads, read as one token per feature (open point D28):
    over a single token the softmax would be 1 and attention a linear map.
    """

    def __init__(
        self, features: int, hidden: Sequence[int], embedding: int = 4, heads: int = 2
    ) -> None:
        super().__init__()
        self.heads = heads
        self.scale = nn.Parameter(torch.empty(features, embedding))
        self.shift = nn.Parameter(torch.zeros(features, embedding))
        nn.init.normal_(self.scale)
        self.query_key_value = nn.Linear(embedding, 3 * embedding)
        self.mix = nn.Linear(embedding, embedding)
        sizes = [features * embedding, *hidden]
        layers: list[nn.Module] = []
        for size, next_size in pairwise(sizes):
            layers += [nn.Linear(size, next_size), nn.GELU()]
        self.layers = nn.Sequential(*layers)
        self.output_size = sizes[-1]

    def forward(self, normalized: torch.Tensor) -> torch.Tensor:
        """`[B, F]` -> `[B, H]`."""
        tokens = normalized.unsqueeze(-1) * self.scale + self.shift  # [B, F, E]
        packed = self.query_key_value(tokens).unflatten(-1, (3, self.heads, -1))
        query, key, value = packed.permute(2, 0, 3, 1, 4).unbind(0)  # each [B, heads, F, E/heads]
        weight = torch.softmax(query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5, dim=-1)
        attended = self.mix((weight @ value).transpose(1, 2).flatten(-2))  # [B, F, E]
        hidden: torch.Tensor = self.layers((tokens + attended).flatten(1))
        return hidden


_BODIES: dict[str, Callable[[int, Sequence[int]], nn.Module]] = {
    "mlp": MlpBody,
    "attention": AttentionBody,
}


def build_body(kind: str, features: int, hidden: Sequence[int]) -> nn.Module:
    """A module `[B, features]` -> `[B, output_size]`; `output_size` is `hidden[-1]`.

    `kind` is `mlp` (tanh; usually hidden 64, 64) or `attention` (paper section 4.2; hidden 64).
    Raises ValueError for another kind or an empty or non-positive `hidden`.
    """
    if kind not in _BODIES:
        raise ValueError(f"network.kind = {kind!r}: must be one of {sorted(_BODIES)}")
    if not hidden or min(hidden) < 1:
        raise ValueError(f"network.hidden = {list(hidden)!r}: needs sizes of at least 1")
    return _BODIES[kind](features, hidden)


def initialize(network: nn.Module, head_gain: float, generator: torch.Generator) -> None:
    """Redraw all weights from `generator`: orthogonal, biases 0, head scaled by `head_gain`.

    A small head gain (0.01 for a policy) starts near the uniform policy. Layer construction draws
    from torch's global generator; this makes the result depend on the passed one alone.
    """
    for name, module in network.named_modules():
        if isinstance(module, nn.Linear):
            gain = head_gain if name == "head" else 2**0.5
            nn.init.orthogonal_(module.weight, gain, generator=generator)
            nn.init.zeros_(module.bias)
        elif isinstance(module, AttentionBody):
            nn.init.normal_(module.scale, generator=generator)
            nn.init.normal_(module.shift, generator=generator)


class PolicyNetwork(nn.Module):
    """Normalizer, body and head: natural-unit features and a mask in, masked scores out.

    Scores are logits (policy gradient) or action values (offline); greedy is argmax for both.
    """

    def __init__(self, features: int, actions: int, kind: str, hidden: Sequence[int]) -> None:
        super().__init__()
        self.kind, self.hidden = kind, tuple(hidden)
        self.features, self.actions = features, actions
        self.normalizer = Normalizer(features)
        self.body = build_body(kind, features, hidden)
        self.head = nn.Linear(self.hidden[-1], actions)

    @property
    def description(self) -> dict[str, Any]:
        """What `build_body` needs again, as in agent.json under `network`."""
        return {"kind": self.kind, "hidden": list(self.hidden)}

    def scores(self, normalized: torch.Tensor, action_mask: torch.Tensor) -> torch.Tensor:
        """Like `forward`, for features that have been through the normalizer already."""
        return torch.where(action_mask, self.head(self.body(normalized)), MASKED_SCORE)

    def forward(self, features: torch.Tensor, action_mask: torch.Tensor) -> torch.Tensor:
        """Scores `[B, A]` of features `[B, F]` (natural units, float32), -1e9 where masked."""
        return self.scores(self.normalizer(features), action_mask)


class ValueNetwork(nn.Module):
    """An MLP of its own (paper section 4.2): the baseline of REINFORCE, the critic of PPO."""

    def __init__(self, features: int, hidden: Sequence[int]) -> None:
        super().__init__()
        self.body = build_body("mlp", features, hidden)
        self.head = nn.Linear(hidden[-1], 1)

    def forward(self, normalized: torch.Tensor) -> torch.Tensor:
        """Values `[B]`, in units of scaled reward, of normalized features `[B, F]`."""
        value: torch.Tensor = self.head(self.body(normalized)).squeeze(-1)
        return value
