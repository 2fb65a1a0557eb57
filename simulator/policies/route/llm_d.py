"""The weighted scores of the llm-d inference scheduler."""

from collections.abc import Mapping

import numpy as np

from simulator.checks import check, check_section, checked_number
from simulator.observation import Observation
from simulator.policies.route.choose_replica import (
    MEAN_PROMPT_TOKENS,
    emptiest,
    least,
    waiting_at,
)
from simulator.policies.route.predicted_latency import LatencyPredictor, headroom_score
from simulator.policies.rule import Rule
from simulator.policies.space import Choice, Space
from simulator.scenario import Scenario

FULL_QUEUE = 128.0  # requests at which the load-aware score is 0
SCORES = ("queue", "kv", "load_aware", "active_request", "latency")


class LlmD(Rule):
    """The largest weighted sum of scores in [0, 1], ties at random (llm-d scheduler, 2026-05).

    `queue`: (max - q) / (max - min) of the requests that wait, 1 if all are equal. `kv`: 1 - use of
    the KV memory. `load_aware`: 0.5 at an empty queue, falling to 0 at 128. `active_request`: 1 if
    nothing is pending, else (max - pending) / max. `latency`: see `headroom_score`; it packs, by
    preferring the replica that just keeps the targets. `weights` by these names, 0 where left out;
    queue 2 and KV 2 are those of its example configuration, whose prefix score (3) is the same for
    all of our requests.

    Not modeled: prefixes, sessions, learned predictors (ours is a formula), the 1 % of requests
    that explore replicas which would miss, admission, and filters by saturation. Its metrics are
    50 to 200 ms old: `view.refresh_s`.
    """

    name = "llm_d"

    def __init__(
        self,
        scenario: Scenario,
        weights: Mapping[str, float] | None = None,
        mean_prompt_tokens: float = MEAN_PROMPT_TOKENS,
    ) -> None:
        given = {"queue": 2.0, "kv": 2.0} if weights is None else weights
        check_section("weights", given)
        known = set(given) <= set(SCORES)
        check(known, "weights", given, f"must be by names of {', '.join(SCORES)}")
        self._weight = {
            name: checked_number(f"weights.{name}", given.get(name, 0.0)) for name in SCORES
        }
        prompt = checked_number("mean_prompt_tokens", mean_prompt_tokens, above=True)
        self._predictor = LatencyPredictor(scenario, prompt)
        parameters = scenario.parameters()
        self._slo_s = (parameters.slo_ttft_s, parameters.slo_tpot_s)

    @classmethod
    def misfit(cls, scenario: Scenario) -> str | None:
        """It looks at KV memory and predicts tokens."""
        return None if scenario.continuous else "needs continuous batching"

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """The weights, but for `load_aware`, which says the same as `queue`."""
        default = {"weights.queue": 2.0, "weights.kv": 2.0}
        default |= {"weights.active_request": 0.0, "weights.latency": 0.0}
        return Space(dict.fromkeys(default, Choice((0.0, 1.0, 2.0, 4.0))), default)

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """Rows `[B, K]` with one equal share for each replica of the largest score."""
        waiting = waiting_at(observation)
        weight = self._weight
        score = weight["queue"] * emptiest(waiting, action_mask)
        score += weight["kv"] * (1.0 - observation.kv_fill)
        if weight["load_aware"] > 0:
            score += weight["load_aware"] * 0.5 * (1.0 - np.minimum(waiting / FULL_QUEUE, 1.0))
        if weight["active_request"] > 0:
            pending = np.where(action_mask, observation.in_flight, 0.0)
            most = np.maximum(pending.max(axis=1, keepdims=True), 1.0)
            score += weight["active_request"] * (most - pending) / most
        if weight["latency"] > 0:
            head = observation.head_class.astype(np.int64, copy=False)
            predicted = self._predictor.predict(observation)
            slo_s = (self._slo_s[0][head], self._slo_s[1][head])
            score += weight["latency"] * headroom_score(predicted, slo_s, action_mask)
        return least(-score, action_mask)
