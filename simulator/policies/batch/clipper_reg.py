"""Clipper's regression: the largest batch that is likely to meet the deadline of the oldest."""

import numpy as np

from simulator.checks import check_whole, checked_number
from simulator.observation import Observation
from simulator.policies.axes import usable_sizes
from simulator.policies.batch.ready import ReadyQueues, completed_batches
from simulator.policies.rule import StatefulRule
from simulator.policies.space import Real, Space, Whole
from simulator.scenario import Scenario

RIDGE = 1e-6  # penalty on the slope, as a share of the sum of squared latencies
SMALL = 10  # explores in steps of 1 below this size, and of a tenth from it
GROWTH = 1.1


class ClipperReg(StatefulRule):
    """Sends min(n, b) at once, with b from the budget that the oldest request of the class has.

    budget = `budget_share` * (deadline - now), and the deadline is arrival + SLO. Above the largest
    batch latency seen so far it explores: the largest size seen again until it has `samples` of it,
    then that size + 1 below 10 and * 1.1 rounded from 10, then the next size that the menu has.
    Else b = max(1, floor(ridge(budget))): ridge regression of the batch size on mean latency + `z`
    standard deviations, one point for each size seen; the deviation is pooled over the sizes. A
    request that is late has no budget, so b falls to 1 and an overload feeds itself.

    Source: ucbrise/clipper, src/libclipper/src/containers.cpp. The source draws the growth from
    N(1.1, 0.05); a policy never draws, so it is the mean. Its ridge penalty is chosen by
    cross-validation; here it is the share `RIDGE` of the sum of squares. No place for: a regression
    for each replica of a class (here they share one), and the size of a request.
    """

    name = "clipper_reg"

    def __init__(
        self, scenario: Scenario, budget_share: float = 0.92, z: float = 3.0, samples: int = 5
    ) -> None:
        self._budget_share = checked_number("budget_share", budget_share, high=1.0, above=True)
        self._z = checked_number("z", z)
        check_whole("samples", samples, 1)
        self._samples = samples
        self._queues = ReadyQueues(scenario)
        self._slo_s = np.array([request_class.slo_s for request_class in scenario.request_classes])
        self._class = np.arange(len(self._slo_s))
        self._largest = max(replica.max_batch_size for replica in scenario.replicas)
        self._next = _next_sizes(usable_sizes(scenario), self._largest)
        self._replicas = len(scenario.replicas)

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """Shares of the budget, standard deviations and samples."""
        return Space(
            {
                "budget_share": Real(0.3, 1.0),
                "z": Real(0.0, 4.0),
                "samples": Whole(1, 8),
            },
            {"budget_share": 0.92, "z": 3.0, "samples": 5},
        )

    def fresh(self, lanes: int) -> dict[str, np.ndarray]:
        """What was seen of each class, `[lanes, C]` or by size `[lanes, C, S + 1]`."""
        classes = (lanes, len(self._slo_s))
        by_size = (*classes, self._largest + 1)
        sums = ("points", "sum_s", "sum_s2", "sum_size", "sum_size_s", "squares", "freedom")
        return {
            "batches": np.zeros((lanes, self._replicas)),
            "count": np.zeros(by_size, np.int64),
            "mean_s": np.zeros(by_size),
            "top": np.ones(classes, np.int64),  # the largest size seen
            "longest_s": np.zeros(classes),
            "slope": np.zeros(classes),  # of the regression, requests per s
            "offset": np.zeros(classes),
            **{name: np.zeros(classes) for name in sums},  # over the sizes seen
        }

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        memory = self.recall(observation)
        # One index for lane and class: several times as fast as two.
        flat = {name: values.reshape(-1) for name, values in memory.items()}
        for lane, request_class, size, took_s in completed_batches(memory["batches"], observation):
            place = lane * len(self._class) + request_class
            _record(flat, place, place * (self._largest + 1) + size, size, took_s)
            self._fit(flat, place)
        budget_s = self._budget_share * (self._slo_s - observation.oldest_wait_s)
        estimate = memory["slope"] * budget_s + memory["offset"]
        estimate = np.floor(np.clip(estimate, 1.0, self._queues.most)).astype(np.int64)
        top = memory["top"]
        count = memory["count"][np.arange(len(top))[:, None], self._class, top]
        explored = np.where(count < self._samples, top, self._next[top])
        limit = np.where(budget_s > memory["longest_s"], explored, estimate)
        take = np.minimum(self._queues.waiting(observation), limit)
        return self._queues.rows(observation, action_mask, take)

    def _fit(self, memory: dict[str, np.ndarray], where: np.ndarray) -> None:
        """Ridge regression of the size on the cautious latency, for the lanes and classes `where`.

        The deviation moves all points by as much: it changes the offset, and the penalty.
        """
        points, sum_s, sum_s2 = (memory[name][where] for name in ("points", "sum_s", "sum_s2"))
        freedom = np.maximum(memory["freedom"][where], 1.0)
        moved_s = self._z * np.sqrt(memory["squares"][where] / freedom)
        mean_s, mean_size = sum_s / points, memory["sum_size"][where] / points
        spread = np.maximum(sum_s2 - sum_s * mean_s, 0.0)
        penalty = RIDGE * (sum_s2 + moved_s * (2.0 * sum_s + points * moved_s))
        slope = (memory["sum_size_s"][where] - sum_s * mean_size) / (spread + penalty)
        memory["slope"][where] = slope
        memory["offset"][where] = mean_size - slope * (mean_s + moved_s)


def _record(
    memory: dict[str, np.ndarray],
    where: np.ndarray,
    point: np.ndarray,
    size: np.ndarray,
    took_s: np.ndarray,
) -> None:
    """Adds a completed batch of each lane and class `where` to the means and their sums.

    `point` is the place of that lane, class and size. `squares` adds up squared deviations from the
    mean of each size in s^2 (Welford), `freedom` the batches that are not the first of their size.
    """
    count, before_s = memory["count"][point] + 1, memory["mean_s"][point]
    mean_s = before_s + (took_s - before_s) / count
    memory["count"][point], memory["mean_s"][point] = count, mean_s
    first = count == 1
    memory["points"][where] += first
    memory["freedom"][where] += ~first
    memory["sum_size"][where] += first * size
    memory["squares"][where] += (took_s - before_s) * (took_s - mean_s)
    memory["sum_s"][where] += mean_s - before_s  # before the first it is 0
    memory["sum_s2"][where] += mean_s**2 - before_s**2
    memory["sum_size_s"][where] += size * (mean_s - before_s)
    memory["top"][where] = np.maximum(memory["top"][where], size)
    memory["longest_s"][where] = np.maximum(memory["longest_s"][where], took_s)


def _next_sizes(usable: list[int], largest: int) -> np.ndarray:
    """The size to explore after each one `[largest + 1]`, the next of the menu or its largest."""
    following = []
    for size in range(largest + 1):
        wanted = size + 1 if size < SMALL else max(size + 1, round(GROWTH * size))
        following.append(next((option for option in usable if option >= wanted), usable[-1]))
    return np.array(following)
