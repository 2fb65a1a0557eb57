"""The latencies that a router of continuous replicas predicts, and the score it makes of them."""

from typing import NamedTuple

import numpy as np

from simulator.observation import Observation
from simulator.policies.route.choose_replica import waiting_at
from simulator.scenario import Scenario

TTFT_WEIGHT, TPOT_WEIGHT = 0.8, 0.2


class Prediction(NamedTuple):
    """What the request would get at each replica."""

    ttft_s: np.ndarray  # [B, K] time to the first token
    tpot_s: np.ndarray  # [B, K] time per output token after the first


class LatencyPredictor:
    """Predicts from the work that is queued, by the iteration times of the scenario.

    With P prompt tokens to prefill (the request's own and `mean_prompt_tokens` for each that
    waits), N sequences running and T tokens of KV memory in use:
    `TTFT = t_prefill P + ceil(P / max_batched_tokens) (t0 + t_decode N + t_kv T)` and
    `TPOT = t0 + t_decode (N + 1) + t_kv (T + own prompt)`.
    That a request may wait for a free sequence or for KV memory is left out.
    """

    def __init__(self, scenario: Scenario, mean_prompt_tokens: float) -> None:
        parameters = scenario.parameters()
        self._t0_s, self._t_prefill_s, self._t_decode_s, self._t_kv_s = parameters.iteration_s.T
        self._kv_capacity = parameters.kv_capacity
        self._batched = parameters.max_batched_tokens
        self._prompt = mean_prompt_tokens

    def predict(self, observation: Observation) -> Prediction:
        """TTFT and TPOT at each replica."""
        own = observation.head_size[:, None]
        running, used = observation.in_service, observation.kv_fill * self._kv_capacity
        prompts = own + waiting_at(observation) * self._prompt
        iteration_s = self._t0_s + self._t_decode_s * running + self._t_kv_s * used
        ttft_s = self._t_prefill_s * prompts + np.ceil(prompts / self._batched) * iteration_s
        return Prediction(ttft_s, iteration_s + self._t_decode_s + self._t_kv_s * own)


def headroom_score(
    predicted: Prediction, slo_s: tuple[np.ndarray, np.ndarray], action_mask: np.ndarray
) -> np.ndarray:
    """Scores `[B, K]` in [0, 1]: 1 for the least positive headroom, SLO minus prediction.

    `slo_s`: the targets of TTFT and of TPOT, `[B]` each, infinite where there is none. Replicas
    that keep both are ranked alone, the others get 0; where none does, the least deficit is best;
    without any target, the least prediction. Both headrooms are normalized over the ranked replicas
    and weighed 0.8 and 0.2; one that is the same for all of them leaves its weight to the other.
    llm-d-router `scorer/latency`, README.
    """
    target, value = np.stack(slo_s)[:, :, None], np.stack(predicted)  # [2, B, 1], [2, B, K]
    room = target - value
    keeps = action_mask & (room >= 0).all(axis=0)
    any_keeps = keeps.any(axis=1, keepdims=True)
    ranked = np.where(any_keeps, keeps, action_mask)
    distance = np.where(any_keeps, room, np.maximum(0.0, -room))
    # An infinite headroom is the same for all: it ranks nothing.
    promised = np.isfinite(target)
    distance = np.where(promised, distance, np.where(promised.any(axis=0), 0.0, value))
    low = np.where(ranked, distance, np.inf).min(axis=2, keepdims=True)
    high = np.where(ranked, distance, -np.inf).max(axis=2, keepdims=True)
    differs = high > low
    weight = np.array([TTFT_WEIGHT, TPOT_WEIGHT])[:, None, None] * differs
    total = (weight * (high - distance) / np.where(differs, high - low, 1.0)).sum(axis=0)
    weights = weight.sum(axis=0)
    score = np.where(weights > 0, total / np.where(weights > 0, weights, 1.0), 1.0)
    return np.where(ranked, score, 0.0)
