"""Small requests to some replicas, large ones to others."""

from statistics import NormalDist

import numpy as np

from simulator.checks import checked_number
from simulator.observation import Observation
from simulator.policies.choose import exact_rows
from simulator.policies.route.choose_replica import (
    MEAN_PROMPT_TOKENS,
    PROMPT_TOKENS,
)
from simulator.policies.route.expected_work import ExpectedWork, relative_speed
from simulator.policies.rule import Rule
from simulator.policies.space import Real, Space
from simulator.scenario import Scenario

DUST = 1e-9  # of all load: what rounding leaves of an interval


class Sita(Rule):
    """Size interval task assignment: each replica gets the requests of an interval of sizes.

    Load, put in order of size and scaled to [0, 1], is cut in proportion to speed (SITA-E);
    the slowest replica gets the smallest. `tilt` multiplies the shares by exp(tilt * place), with
    place from -1/2 (smallest) to 1/2: below 0 the large requests get an emptier replica (SITA-U).

    Whole batches: the size of a class is `L(b) / b`, on average over the replicas that serve it,
    and its load that times the requests that have arrived so far (plus one), so the cut-offs
    settle as the mix becomes known. A class that spans several replicas is split at random by its
    parts there. Continuous batching: size is the prompt, taken as lognormal with
    `mean_prompt_tokens` and coefficient of variation `prompt_cv`; its load up to x is
    `Phi((ln x - mu - sigma^2) / sigma)`, which gives the cut-offs.

    A replica that is not allowed passes its requests to the nearest in order of size.
    Harchol-Balter, Crovella and Murta, On choosing a task assignment policy, 1999, and SITA-U from
    Schroeder and Harchol-Balter, 2000 (both from memory).
    """

    name = "sita"

    def __init__(
        self,
        scenario: Scenario,
        tilt: float = 0.0,
        mean_prompt_tokens: float = MEAN_PROMPT_TOKENS,
        prompt_cv: float = 1.0,
    ) -> None:
        tilt = checked_number("tilt", tilt, low=-10.0, high=10.0)
        mean = checked_number("mean_prompt_tokens", mean_prompt_tokens, above=True)
        cv = checked_number("prompt_cv", prompt_cv, above=True)
        speed = relative_speed(scenario)
        self._order = np.argsort(speed, kind="stable")  # [K] replicas, the slowest first
        replicas = len(speed)
        place = (np.arange(replicas) - (replicas - 1) / 2) / max(1, replicas - 1)
        share = speed[self._order] * np.exp(tilt * place)
        self._edge = np.concatenate([[0.0], np.cumsum(share) / share.sum()])  # [K + 1] of load
        self._edge[-1] = 1.0
        rank = np.argsort(self._order)
        self._apart = np.abs(rank[:, None] - rank)  # [K, K] places between two replicas
        self._cut_off: np.ndarray | None = None
        if scenario.continuous:
            sigma = float(np.sqrt(np.log1p(cv * cv)))
            load = NormalDist(np.log(mean) + sigma**2 / 2, sigma)  # mu + sigma^2
            inner = self._edge[1:-1].clip(1e-12, 1 - 1e-12)
            self._cut_off = np.exp([load.inv_cdf(float(edge)) for edge in inner])  # [K - 1] tokens
        else:
            serves = scenario.parameters().serves
            size_s = ExpectedWork(scenario).per_request_s.sum(axis=0) / serves.sum(axis=0)
            self._by_size = np.argsort(size_s, kind="stable")
            self._size_s = size_s[self._by_size]
            self._place_of_class = np.argsort(self._by_size)

    @classmethod
    def misfit(cls, scenario: Scenario) -> str | None:
        """It needs sizes that differ."""
        if not scenario.continuous and len(scenario.request_classes) == 1:
            return "tells request classes apart, and there is one"
        return None

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """The tilt, and under continuous batching the distribution of the prompts."""
        tilt = Real(-2.0, 2.0)
        if not scenario.continuous:
            return Space({"tilt": tilt}, {"tilt": 0.0})
        return Space(
            {"tilt": tilt, "mean_prompt_tokens": PROMPT_TOKENS, "prompt_cv": Real(0.2, 4.0)},
            {"tilt": 0.0, "mean_prompt_tokens": MEAN_PROMPT_TOKENS, "prompt_cv": 1.0},
        )

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """Rows `[B, K]`: one-hot, or the parts of a class that spans several replicas."""
        probabilities = np.zeros(action_mask.shape)
        if self._cut_off is not None:
            place = np.searchsorted(self._cut_off, observation.head_size, side="right")
            probabilities[np.arange(len(place)), self._order[place]] = 1.0
        else:
            probabilities[:, self._order] = self._parts_of_class(observation)
        if (probabilities[~action_mask] > 0).any():
            away = np.where(action_mask[:, None, :], self._apart, len(self._order))
            nearest = away == away.min(axis=2, keepdims=True)
            passed_on = nearest / nearest.sum(axis=2, keepdims=True)
            probabilities = (probabilities[:, :, None] * passed_on).sum(axis=1)
        return exact_rows(probabilities)

    def _parts_of_class(self, observation: Observation) -> np.ndarray:
        """Shares `[B, K]` of the class's load in the intervals of the replicas, in their order."""
        load = (observation.arrived[:, self._by_size] + 1.0) * self._size_s
        up_to = np.cumsum(load, axis=1)
        up_to = np.column_stack([np.zeros(len(load)), up_to]) / up_to[:, -1:]
        place = self._place_of_class[observation.head_class.astype(np.int64, copy=False)]
        lane = np.arange(len(place))
        low, high = up_to[lane, place][:, None], up_to[lane, place + 1][:, None]
        part = np.minimum(high, self._edge[1:]) - np.maximum(low, self._edge[:-1])
        part = np.where(part > DUST * (high - low), part, 0.0)
        shares: np.ndarray = part / part.sum(axis=1, keepdims=True)
        return shares
