"""The interface of every policy: rules, networks, d3rlpy models and ONNX files."""

from typing import Protocol, runtime_checkable

import numpy as np

from simulator.observation import Observation


@runtime_checkable
class Policy(Protocol):
    """A map from observation to action probabilities. It never draws: `sample_actions` does."""

    name: str

    def reset(self, lanes: int) -> None:
        """Forget everything; the next call comes with `lanes` lanes."""

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """`[B, A]` rows that sum to 1 and are 0 where `action_mask [B, A]` is False."""
