"""The cost in KV blocks of the NVIDIA Dynamo router."""

import numpy as np

from simulator.checks import checked_number
from simulator.observation import Observation
from simulator.policies.choose import exact_rows
from simulator.policies.route.choose_replica import (
    MEAN_PROMPT_TOKENS,
    PROMPT_TOKENS,
    emptiest,
    least,
    waiting_at,
)
from simulator.policies.rule import Rule
from simulator.policies.space import Axis, Choice, Space
from simulator.scenario import Scenario


class DynamoKv(Rule):
    """The least `scale * prefill blocks + decode blocks + w * active requests` (ai-dynamo 1.6.1).

    Prefill blocks: the tokens to be prefilled if the request went there, its own prompt and
    `mean_prompt_tokens` for each that waits, over `block_tokens`. Decode blocks: KV memory in use.
    Active: requests pending there. With `temperature` T above 0 not the least, but a replica drawn
    from the softmax of `-(cost - min) / (max - min) / T`, all alike where all cost the same.

    No credit for overlap: our requests share no prefix. The source tracks the tokens and blocks
    of its own requests, here they are read off the view; and the request's own decode blocks,
    the same for every replica, are left out. Ties are random.
    """

    name = "dynamo_kv"

    def __init__(
        self,
        scenario: Scenario,
        prefill_scale: float = 1.0,
        active_weight: float = 0.0,
        temperature: float = 0.0,
        mean_prompt_tokens: float = MEAN_PROMPT_TOKENS,
        block_tokens: int = 16,
    ) -> None:
        self._scale = checked_number("prefill_scale", prefill_scale)
        self._active_weight = checked_number("active_weight", active_weight)
        self._temperature = checked_number("temperature", temperature)
        self._prompt = checked_number("mean_prompt_tokens", mean_prompt_tokens, above=True)
        self._block = checked_number("block_tokens", block_tokens, low=1.0)
        self._kv_capacity = scenario.parameters().kv_capacity

    @classmethod
    def misfit(cls, scenario: Scenario) -> str | None:
        """It counts KV blocks."""
        return None if scenario.continuous else "needs continuous batching"

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """What prefilling weighs against decoding, and how random it is."""
        axes: dict[str, Axis] = {
            "prefill_scale": Choice((0.0, 0.25, 0.5, 1.0, 2.0, 4.0)),
            "active_weight": Choice((0.0, 1.0, 4.0, 16.0, 64.0)),
            "temperature": Choice((0.0, 0.1, 0.3, 1.0)),
            "mean_prompt_tokens": PROMPT_TOKENS,
        }
        default = {"prefill_scale": 1.0, "active_weight": 0.0, "temperature": 0.0}
        return Space(axes, {**default, "mean_prompt_tokens": MEAN_PROMPT_TOKENS})

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """Rows `[B, K]`: an equal share for each of the least cost, or the softmax."""
        prefill = observation.head_size[:, None] + waiting_at(observation) * self._prompt
        decode = observation.kv_fill * self._kv_capacity
        cost = (self._scale * prefill + decode) / self._block
        cost += self._active_weight * observation.in_flight
        if self._temperature == 0.0:
            return least(cost, action_mask)
        # emptiest is 1 at the least cost and 0 at the most: -(cost - min) / (max - min), plus 1.
        preference = (emptiest(cost, action_mask) - 1.0) / self._temperature
        weight = np.where(action_mask, np.exp(np.minimum(preference, 0.0)), 0.0)
        return exact_rows(weight / weight.sum(axis=1, keepdims=True))
