"""BATCH: fit the arrivals, solve for batch size and batch timeout, and again after a while."""

import math

import numpy as np

from simulator.action import WAIT
from simulator.checks import check
from simulator.observation import Observation
from simulator.policies.axes import batch_size_choice, tightest_slo_s
from simulator.policies.batch.batch_tail import Candidates, SetPoint, best_set_point
from simulator.policies.batch.menu_actions import (
    MenuActions,
    needs_one_latency,
    place_of,
    slo_s,
)
from simulator.policies.choose import checked_seconds, one_hot
from simulator.policies.rule import StatefulRule
from simulator.policies.space import Choice, Real, Space
from simulator.scenario import Scenario

BINS = 16  # counts of arrivals in an interval, from which the burstiness comes
RATE_STEPS = 16  # per doubling: solved for the upper end of the step
EXCESS_STEPS = 10  # of the excess deviation over the mean, from 0 to 1
TIMEOUT_SHARES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)  # SLO


class BatchResolve(StatefulRule):
    """Every `interval_s` the batch size and batch timeout of each class that cost the least.

    From counts N in bins of interval / 16: the arrival rate m = sum N / sum T, and what its
    variance has beyond a Poisson process, s^2 = (sum (N - m T)^2 * n / (n - 1) - sum N) / sum T^2.
    (A bin ends with the first decision after it is full. (N - m T)^2 - N has mean 0 at any stopping
    time of a Poisson process, so that does not count as burstiness.) The arrivals are taken as
    Poisson with the rates m - s and m + s, half of the time each: the limit of BATCH's Markovian
    arrival process with phases longer than a batch timeout; s is cut at m. Among the sizes of the
    menu and shares of the SLO the pair with the least busy time per request is taken whose response
    times keep the `percentile` within the SLO (`batch_tail.py`), with an offered load below 1.
    Where there is none, and until the end of the first interval: the largest size without a
    timeout. A class without arrivals keeps what it had. Batches go as under `batch_timeout`, to the
    lowest-numbered replica.

    BATCH (SC20), from its features in section 1 of the notes on serving systems and from memory.
    It picks the memory of serverless functions as well, and each batch gets a function at once: the
    tail knows no wait for a busy replica, so at high load a `percentile` nearer 1 has to make up
    for it. Latencies are means over the replicas, and the load is that of the class alone.
    """

    name = "batch_resolve"

    def __init__(self, scenario: Scenario, interval_s: float, percentile: float = 0.95) -> None:
        self._interval_s = checked_seconds("interval_s", interval_s, above=True)
        number = isinstance(percentile, int | float) and not isinstance(percentile, bool)
        holds = number and 0.0 < percentile < 1.0
        check(holds, "percentile", percentile, "must be above 0 and below 1")
        self._percentile = float(percentile)
        self._menu, self._slo_s = MenuActions(scenario), slo_s(scenario)
        menu, classes = self._menu, len(scenario.request_classes)
        sizes = batch_size_choice(scenario).values
        self._sizes = np.array(sizes)
        self._places = np.array([place_of(size, menu.sizes) for size in sizes])
        self._latency_s = _mean_latency_s(menu)
        self._replicas = menu.serves.sum(axis=0)  # [C]
        self._class = np.arange(classes)
        self._solved: dict[tuple[int, int, int], SetPoint] = {}

    @classmethod
    def misfit(cls, scenario: Scenario) -> str | None:
        """It counts on the latency of a batch of one class."""
        return needs_one_latency(scenario)

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """Intervals of a few to a hundred of the tightest SLO, and percentiles."""
        shortest_s = tightest_slo_s(scenario)
        return Space(
            {
                "interval_s": Real(3.0 * shortest_s, 100.0 * shortest_s, log=True),
                "percentile": Choice((0.9, 0.95, 0.98, 0.99, 0.995)),
            }
        )

    def fresh(self, lanes: int) -> dict[str, np.ndarray]:
        """Nothing counted; the largest sizes, and no timeouts."""
        classes = len(self._class)
        by_lane = dict.fromkeys(("began_s", "bin_s", "bins", "time", "time_2"), (lanes,))
        by_class = dict.fromkeys(
            ("bin_arrived", "count", "count_2", "count_time"), (lanes, classes)
        )
        memory = {name: np.zeros(shape) for name, shape in (by_lane | by_class).items()}
        memory["place"] = np.full((lanes, classes), self._places[-1])
        memory["timeout_s"] = np.zeros((lanes, classes))
        return memory

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        memory, menu = self.recall(observation), self._menu
        self._count(memory, observation)
        due = observation.clock_s - memory["began_s"] >= self._interval_s
        if due.any():
            self._resolve(memory, np.flatnonzero(due), observation.clock_s)
        waiting, wait_s = menu.waiting(observation), observation.oldest_wait_s
        takers = menu.takers(observation.can_take)
        ready = (waiting >= menu.sizes[memory["place"]]) | (wait_s >= memory["timeout_s"])
        ready &= (waiting > 0) & takers.any(axis=2)
        chosen = np.where(ready, wait_s, -1.0).argmax(axis=1)
        lane = np.arange(len(chosen))
        replica = takers[lane, chosen].argmax(axis=1)
        place = np.minimum(menu.cover[waiting[lane, chosen]], memory["place"][lane, chosen])
        place = np.minimum(place, menu.most[replica])
        action = menu.action[chosen, replica, place]
        return one_hot(np.where(ready[lane, chosen], action, WAIT), action_mask)

    def _count(self, memory: dict[str, np.ndarray], observation: Observation) -> None:
        """Ends the bins that are full."""
        spent_s = observation.clock_s - memory["bin_s"]
        ended = np.flatnonzero(spent_s >= self._interval_s / BINS)
        if len(ended) == 0:
            return
        spent_s, arrived = spent_s[ended], observation.arrived[ended]
        count = arrived - memory["bin_arrived"][ended]
        memory["bins"][ended] += 1
        memory["time"][ended] += spent_s
        memory["time_2"][ended] += spent_s**2
        memory["count"][ended] += count
        memory["count_2"][ended] += count**2
        memory["count_time"][ended] += count * spent_s[:, None]
        memory["bin_s"][ended] = observation.clock_s[ended]
        memory["bin_arrived"][ended] = arrived

    def _resolve(self, memory: dict[str, np.ndarray], due: np.ndarray, clock_s: np.ndarray) -> None:
        """New set-points in the lanes `due`, whose counts begin anew."""
        rate_rps, excess = fitted_arrivals(memory, due)
        known = rate_rps > 0.0
        step = np.ceil(RATE_STEPS * np.log2(np.where(known, rate_rps, 1.0))).astype(np.int64)
        excess_step = np.rint(EXCESS_STEPS * excess).astype(np.int64)
        lane, request_class = np.nonzero(known)
        keys = np.column_stack([request_class, step[known], excess_step[known]])
        different, which = np.unique(keys, axis=0, return_inverse=True)
        points = [self._set_point(*key) for key in different.tolist()]
        if points:
            place, timeout_s = map(np.array, zip(*points, strict=True))
            memory["place"][due[lane], request_class] = self._places[place[which]]
            memory["timeout_s"][due[lane], request_class] = timeout_s[which]
        for name in ("bins", "time", "time_2", "count", "count_2", "count_time"):
            memory[name][due] = 0.0
        memory["began_s"][due] = clock_s[due]

    def _set_point(self, request_class: int, step: int, excess_step: int) -> SetPoint:
        """The solution for a class at a step of rate and burstiness, solved once."""
        key = (request_class, step, excess_step)
        if key not in self._solved:
            excess = excess_step / EXCESS_STEPS
            within_s = float(self._slo_s[request_class])
            self._solved[key] = best_set_point(
                2.0 ** (step / RATE_STEPS) * np.array([1.0 - excess, 1.0 + excess]),
                Candidates(
                    self._sizes,
                    max(within_s, 0.0) * np.array(TIMEOUT_SHARES),
                    self._latency_s[request_class],
                ),
                within_s,
                self._percentile,
                int(self._replicas[request_class]),
            )
        return self._solved[key]


def fitted_arrivals(
    memory: dict[str, np.ndarray], due: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Arrival rate in 1/s and excess deviation over it, in 0..1, of the lanes `due`: `[D, C]`."""
    bins, time, time_2 = (memory[name][due][:, None] for name in ("bins", "time", "time_2"))
    count, count_2, count_time = (memory[name][due] for name in ("count", "count_2", "count_time"))
    rate_rps = count / np.maximum(time, np.finfo(float).tiny)
    spread = count_2 - 2.0 * rate_rps * count_time + rate_rps**2 * time_2
    # The fitted rate has taken one of the bins; of a single bin nothing is left.
    spread *= np.where(bins > 1, bins / np.maximum(bins - 1.0, 1.0), 0.0)
    variance = np.maximum(spread - count, 0.0) / np.maximum(time_2, np.finfo(float).tiny)
    deviation = np.sqrt(variance) / np.where(rate_rps > 0.0, rate_rps, math.inf)
    return rate_rps, np.minimum(deviation, 1.0)


def _mean_latency_s(menu: MenuActions) -> np.ndarray:
    """Mean batch latency `[C, M]` s of 1 .. M requests, over the replicas that can take them."""
    number = np.arange(1, menu.longest + 1)
    took_s = menu.took_s[:, number, :, menu.cover[number]]  # [M, C, K]
    able = np.isfinite(took_s)
    total_s = np.where(able, took_s, 0.0).sum(axis=2)
    count = able.sum(axis=2)
    return np.where(count > 0, total_s / np.maximum(count, 1), math.inf).T
