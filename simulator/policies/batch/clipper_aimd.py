"""Clipper's additive increase, multiplicative decrease of the batch size."""

import numpy as np

from simulator.checks import check, check_whole, checked_number
from simulator.observation import Observation
from simulator.policies.batch.ready import ReadyQueues, completed_batches
from simulator.policies.rule import StatefulRule
from simulator.policies.space import Real, Space, Whole
from simulator.scenario import Scenario

# The product of a size and a back-off such as 0.7 may be a rounding error below a whole number.
_ROUNDING = 1e-9


class ClipperAimd(StatefulRule):
    """Sends min(n, b) at once, and moves b of the class after each batch of it that completes.

    b + `step` where the batch latency was at most `slo_share` of the class's SLO, else
    floor(`backoff` * b). b begins at 1; it stays between the smallest and the largest size that the
    menu can serve. The latency is that of the batch alone, from dispatch to completion, and
    queueing does not count: with it b falls under load, when it ought to grow
    (ucbrise/clipper#222). A batch that could not be filled moves b as well. Where several complete
    on one replica between two decisions, the last counts.

    Source: Clipper, arXiv 1612.03079, section 4.3; step 1 and back-off 10 % from memory. No place
    for: a size of its own for each replica of a class (here they share one).
    """

    name = "clipper_aimd"

    def __init__(
        self, scenario: Scenario, slo_share: float = 1.0, step: int = 1, backoff: float = 0.9
    ) -> None:
        slo_share = checked_number("slo_share", slo_share, high=1.0, above=True)
        check_whole("step", step, 1)
        self._step, self._backoff = step, checked_number("backoff", backoff, above=True)
        check(self._backoff < 1.0, "backoff", backoff, "must be below 1")
        slo_s = [request_class.slo_s for request_class in scenario.request_classes]
        self._budget_s = slo_share * np.array(slo_s)  # [C]
        self._queues = ReadyQueues(scenario)
        self._least = scenario.batch_sizes[0]
        self._replicas = len(scenario.replicas)

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """Shares of the SLO, steps and back-offs."""
        return Space(
            {
                "slo_share": Real(0.05, 1.0, log=True),
                "step": Whole(1, 4),
                "backoff": Real(0.5, 0.95),
            },
            {"slo_share": 1.0, "step": 1, "backoff": 0.9},
        )

    def fresh(self, lanes: int) -> dict[str, np.ndarray]:
        """The limit of each class `[lanes, C]` requests and batches completed `[lanes, K]`."""
        return {
            "limit": np.full((lanes, len(self._budget_s)), self._least),
            "batches": np.zeros((lanes, self._replicas)),
        }

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        memory = self.recall(observation)
        limit = memory["limit"]
        for lane, request_class, _, took_s in completed_batches(memory["batches"], observation):
            size = limit[lane, request_class]
            less = np.floor(self._backoff * size + _ROUNDING).astype(np.int64)
            moved = np.where(took_s <= self._budget_s[request_class], size + self._step, less)
            limit[lane, request_class] = np.clip(moved, self._least, self._queues.most)
        take = np.minimum(self._queues.waiting(observation), limit)
        return self._queues.rows(observation, action_mask, take)
