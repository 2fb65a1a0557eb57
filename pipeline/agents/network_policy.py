"""A trained network as a policy of the simulator."""

import numpy as np
import torch

from pipeline.agents.networks import PolicyNetwork
from simulator.observation import Encoder, Observation


class NetworkPolicy:
    """Action probabilities from a `PolicyNetwork`.

    greedy: all probability on the legal action of the highest score (the first of equals);
    else the softmax of the scores, which is meant for logits.
    """

    def __init__(self, name: str, encoder: Encoder, network: PolicyNetwork, greedy: bool) -> None:
        if len(encoder.features) != network.features:
            raise ValueError(
                f"encoder {encoder.name!r} gives {len(encoder.features)} features: "
                f"must be {network.features}, as the network takes"
            )
        self.name, self.encoder, self.greedy = name, encoder, greedy
        self.network = network.eval()

    def reset(self, lanes: int) -> None:
        """Nothing to forget: the network sees the current observation alone."""

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """`[B, A]` float64 rows that sum to 1 and are 0 where `action_mask [B, A]` is False.

        Raises ValueError where a feature is NaN or infinite: argmax would answer all the same.
        """
        features = self.encoder.encode(observation)
        if not np.isfinite(features).all():
            lane, number = np.argwhere(~np.isfinite(features))[0]
            name = self.encoder.features[number].name
            raise ValueError(f"{name} = {features[lane, number]} in lane {lane}: must be finite")
        with torch.inference_mode():
            scores = self.network(torch.from_numpy(features), torch.from_numpy(action_mask)).numpy()
        return one_hot_argmax(scores) if self.greedy else masked_softmax(scores, action_mask)


def one_hot_argmax(scores: np.ndarray) -> np.ndarray:
    """`[B, A]` with 1.0 at the first highest score of each row."""
    probabilities = np.zeros(scores.shape)
    probabilities[np.arange(len(scores)), scores.argmax(axis=1)] = 1.0
    return probabilities


def masked_softmax(scores: np.ndarray, action_mask: np.ndarray) -> np.ndarray:
    """`[B, A]` softmax of the scores, exactly 0 where masked."""
    weights = np.exp(scores - scores.max(axis=1, keepdims=True), dtype=np.float64)
    weights *= action_mask
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
