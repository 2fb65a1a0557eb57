"""The load-adaptive batch size of the article that the project started from: as is, and fixed."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from simulator.checks import check, check_whole
from simulator.observation import Observation
from simulator.policies.axes import clipped, tightest_slo_s
from simulator.policies.rule import StatefulRule
from simulator.policies.space import Choice, Real, Space
from simulator.policies.tune.control_loop import (
    NEVER,
    ControlLoop,
    RunningTotals,
    duration_axis,
)
from simulator.policies.tune.jump_table import JumpPairs, JumpTable, capacity_rps, memory_limit
from simulator.policies.tune.load_state import LoadState, thresholds_from, times_from
from simulator.policies.tune.set_points import FIELDS, REPLICAS_ON, SetPointActions
from simulator.scenario import Scenario

FORMS = ("faithful", "fixed")
DEFAULT_BATCH_SIZE = 8
FEWEST_ANSWERS = 20  # below that the article's P95 is 0
UP, DOWN = 2.0, 0.5


class Measures(NamedTuple):
    """What the rule reads, each `[B]`."""

    now: np.ndarray  # control intervals
    arrivals: np.ndarray  # requests in the window
    rate_rps: np.ndarray  # over the window
    rate_before_rps: np.ndarray  # over the window that ended one interval ago
    last_rate_rps: np.ndarray  # over the last interval
    p95_s: np.ndarray
    on: np.ndarray  # replicas


class SeedAdaptive(StatefulRule):
    """Doubles or halves the batch size (or max_num_seqs) by `LoadState`; idle, it lets replicas go.

    `faithful` is the article's `AdaptiveBatchScheduler`, faults included. Nothing happens, not even
    under CRITICAL, until `cooldown_s` after the last change of state. Then the state is judged
    (`Thresholds.load_state`), and the size moves only where the state is a new one: HIGH x 2, LOW
    and CRITICAL x 1/2. Traffic of fewer than 2 requests in the window is none. IDLE beyond
    `idle_timeout_s` means 0 replicas; the engine starts one at the next arrival, and all that the
    scenario begins with are back once the rule sees a replica on and the state has changed.

    `fixed` follows the article's own section 4, and mends the faults. A new CRITICAL acts at once.
    The P95 warning goes before HIGH. The size moves again after each cooldown while the state
    lasts, and the cooldown starts when something moved. A load jump (the last interval's rate is
    HIGH and `jump_factor` times the window before it) goes to the size of the `JumpTable` at once.
    The size stays within the memory; at that limit HIGH adds a replica, and LOW at the smallest
    size takes one away. `keep_warm_replicas` stay on when idle.

    Where the menu lacks a size the nearest stands in, and the rule goes on from the size it meant.
    Source: `seeds/blog_adaptive_batch_size.txt`, section 3 (faithful) and 4 (fixed), and
    `reference/serving.md` 2c. What differs: the rate is arrivals over the window instead of
    completions over the time between the first and the last; P95 is of the last 32 answers, and 0
    unless 20 requests left in two windows (fixed: one), the shed ones included; the loop is the
    control interval, not 15 s; smallest and largest size are the menu's. The article reads GPU use
    and queue depth, and never uses them.
    """

    name = "seed_adaptive"

    def __init__(
        self,
        scenario: Scenario,
        form: str = "faithful",
        default_batch_size: int = DEFAULT_BATCH_SIZE,
        thresholds: Mapping[str, float] | None = None,
        times: Mapping[str, float] | None = None,
        keep_warm_replicas: int = 1,
        jump_table: JumpPairs | None = None,
    ) -> None:
        check(form in FORMS, "form", form, f"must be one of {', '.join(FORMS)}")
        check_whole("default_batch_size", default_batch_size, 1)
        check_whole("keep_warm_replicas", keep_warm_replicas, 0)
        self._thresholds = thresholds_from({} if thresholds is None else thresholds)
        durations = times_from({} if times is None else times)
        loop = self._loop = ControlLoop(scenario)
        self._cooldown = loop.at_least("times.cooldown_s", durations.cooldown_s)
        self._window = loop.window("times.window_s", durations.window_s)
        self._timeout = loop.at_most("times.idle_timeout_s", durations.idle_timeout_s)
        self._fixed = form == "fixed"
        self._arrivals = RunningTotals("arrivals", self._window + 1)
        self._answers = RunningTotals("answers", 2 * self._window)
        self._actions, self._field = SetPointActions(scenario), _size_field(scenario)
        menu = self._actions.menu(self._field).astype(np.int64).tolist()
        limit = memory_limit(scenario) if self._fixed else menu[-1]
        sizes = [size for size in menu if size <= limit] or menu[:1]
        self._smallest, self._largest = sizes[0], sizes[-1]
        self._start = min(max(default_batch_size, self._smallest), self._largest)
        self._most = max(scenario.set_points.replicas_on, default=0)
        rule = f"must be at most {self._most}, the most of set_points.replicas_on"
        holds = not self._most or keep_warm_replicas <= self._most
        check(holds, "keep_warm_replicas", keep_warm_replicas, rule)
        self._keep_warm = keep_warm_replicas
        initial = scenario.scaling.initial_replicas
        self._deployed = max(1, len(scenario.replicas) if initial is None else initial)
        self._jump_table = JumpTable(scenario, sizes, jump_table)

    @classmethod
    def misfit(cls, scenario: Scenario) -> str | None:
        """It needs a menu of the size that the replicas go by."""
        field = _size_field(scenario)
        return None if getattr(scenario.set_points, field) else f"set_points.{field} has no menu"

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """Both forms; what counts as much, by capacity; as slow, by SLO; and the cooldown."""
        slo_s = tightest_slo_s(scenario)
        if scenario.continuous:  # Little: all places taken, each for the SLO
            most_rps = sum(r.tokens.max_num_seqs for r in scenario.replicas if r.tokens) / slo_s
        else:
            size = max(replica.max_batch_size for replica in scenario.replicas)
            most_rps = float(capacity_rps(scenario, [size])[-1, 0])
        axes = {
            "thresholds.high_rps": Real(most_rps / 100, most_rps, log=True),
            "thresholds.p95_critical_s": Real(slo_s / 4, 4 * slo_s, log=True),
            "times.cooldown_s": duration_axis(scenario),
        }
        source = dict(zip(axes, (50.0, 5.0, 60.0), strict=True))
        default = {name: clipped(axis, source[name]) for name, axis in axes.items()}
        return Space({"form": Choice(FORMS), **axes}, {"form": "faithful", **default})

    def fresh(self, lanes: int) -> dict[str, np.ndarray]:
        """What came and went, the state, idle since when, the last adjustment, what is wanted."""
        return {
            **self._arrivals.fresh(lanes),
            **self._answers.fresh(lanes),
            "arrived_before": np.zeros(lanes),
            "load_state": np.full(lanes, LoadState.NORMAL, np.int64),
            "idle_since": np.full(lanes, -NEVER),
            "adjusted_at": np.full(lanes, NEVER),
            "batch_size": np.full(lanes, self._start, np.int64),
            "replicas": np.zeros(lanes, np.int64),
            "begun": np.zeros(lanes, np.bool_),
        }

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        memory = self.recall(observation)
        self._take_over(memory, observation)
        measures = self._measure(memory, observation)
        if self._fixed:
            self._adjust(memory, measures)
        else:
            self._adjust_as_written(memory, measures)
        wanted = {self._field: memory["batch_size"], "replicas_on": memory["replicas"]}
        return self._actions.rows(observation, action_mask, **wanted)

    def _take_over(self, memory: dict[str, np.ndarray], observation: Observation) -> None:
        """What someone else has set since is what the rule goes on from."""
        found = observation.set_points[:, FIELDS.index(self._field)].astype(np.int64)
        size, begun = memory["batch_size"], memory["begun"]
        moved = begun & (self._actions.offered(self._field, size) != found)
        size[:] = np.where(moved, np.clip(found, self._smallest, self._largest), size)
        on, replicas = observation.set_points[:, REPLICAS_ON].astype(np.int64), memory["replicas"]
        stays = begun & (self._actions.offered("replicas_on", replicas) == on) if self._most else 0
        replicas[:] = np.where(stays, replicas, on)

    def _measure(self, memory: dict[str, np.ndarray], observation: Observation) -> Measures:
        now, arrived = self._loop.now(observation), observation.arrived.sum(axis=1)
        first = ~memory["begun"]
        # A rule that begins in mid-episode takes the rate so far for that of the last interval.
        memory["arrived_before"][first] = (arrived * (1.0 - 1.0 / np.maximum(now, 1)))[first]
        memory["begun"][:] = True
        arrivals, window = self._arrivals, self._window
        arrivals.note(memory, arrived - memory["arrived_before"])
        in_system = self._loop.in_system(observation)
        self._answers.note(memory, arrived - memory["arrived_before"] - in_system)
        listed, _ = self._answers.increase(memory, window if self._fixed else 2 * window)
        return Measures(
            now=now,
            arrivals=arrivals.increase(memory, window)[0],
            rate_rps=arrivals.mean(memory, window) / self._loop.interval_s,
            rate_before_rps=arrivals.mean(memory, window, ago=1) / self._loop.interval_s,
            last_rate_rps=arrivals.mean(memory, 1) / self._loop.interval_s,
            p95_s=np.where(listed > FEWEST_ANSWERS - 0.5, observation.response_p95_s, 0.0),
            on=observation.set_points[:, REPLICAS_ON].astype(np.int64),
        )

    def _adjust_as_written(self, memory: dict[str, np.ndarray], measures: Measures) -> None:
        """`_evaluate_and_adjust` of the article."""
        now, p95_s = measures.now, measures.p95_s
        awake = now - memory["adjusted_at"] >= self._cooldown
        rate_rps = np.where(measures.arrivals > 1.5, measures.rate_rps, 0.0)
        state = self._thresholds.load_state(rate_rps, p95_s, warning_first=False)
        # Beyond the critical P95 the article returns before it looks at its idle clock.
        looks = awake & (p95_s <= self._thresholds.p95_critical_s)
        self._note_idle(memory, now, state, looks)
        changes = awake & (state != memory["load_state"])
        memory["load_state"][changes] = state[changes]
        memory["adjusted_at"][changes] = now[changes]
        size = memory["batch_size"]
        size[:] = np.where(changes, self._resized(size, state), size)
        over = awake & ~changes & (state == LoadState.IDLE) & self._is_overdue(memory, now)
        down = over | (measures.on == 0)
        woken = ~down & (memory["load_state"] != LoadState.IDLE)
        memory["replicas"][:] = np.select([down, woken], [0, self._deployed], measures.on)

    def _adjust(self, memory: dict[str, np.ndarray], measures: Measures) -> None:
        """The same with section 4 of the article, and without the faults."""
        now, limits, rate_rps = measures.now, self._thresholds, measures.rate_rps
        state = limits.load_state(rate_rps, measures.p95_s, warning_first=True)
        jumps = measures.last_rate_rps > limits.high_rps
        jumps &= measures.last_rate_rps >= limits.jump_factor * measures.rate_before_rps
        jumps &= state != LoadState.CRITICAL
        state = np.where(jumps, np.int64(LoadState.HIGH), state)
        self._note_idle(memory, now, state, np.ones(len(now), np.bool_))
        urgent = (state == LoadState.CRITICAL) & (memory["load_state"] != LoadState.CRITICAL)
        acts = urgent | (now - memory["adjusted_at"] >= self._cooldown)
        memory["load_state"][:] = state
        size, replicas = memory["batch_size"], memory["replicas"]
        high, low = acts & (state == LoadState.HIGH), acts & (state == LoadState.LOW)
        new_size = np.where(acts, self._resized(size, state), size)
        new_replicas = replicas + (high & (size >= self._largest))
        fewer = low & (size <= self._smallest) & (replicas > max(1, self._keep_warm))
        new_replicas = new_replicas - fewer
        looked_up, enough = self._jump_table.look_up(measures.last_rate_rps, measures.on)
        new_size = np.where(jumps, np.maximum(size, looked_up), new_size)
        new_replicas = np.where(jumps, np.maximum(replicas, enough), new_replicas)
        over = (state == LoadState.IDLE) & self._is_overdue(memory, now)
        new_replicas = np.where(over, np.minimum(self._keep_warm, replicas), new_replicas)
        new_replicas = np.minimum(new_replicas, self._most) if self._most else replicas
        moves = (new_size != size) | (new_replicas != replicas)
        memory["adjusted_at"][moves] = now[moves]
        size[:], replicas[:] = new_size, new_replicas

    def _resized(self, size: np.ndarray, state: np.ndarray) -> np.ndarray:
        """The size `[B]` after one step in the state, within its limits."""
        up = np.minimum((size * UP).astype(np.int64), self._largest)
        down = np.maximum((size * DOWN).astype(np.int64), self._smallest)
        shrinks = (state == LoadState.CRITICAL) | (state == LoadState.LOW)
        return np.select([state == LoadState.HIGH, shrinks], [up, down], size)

    def _note_idle(
        self, memory: dict[str, np.ndarray], now: np.ndarray, state: np.ndarray, looks: np.ndarray
    ) -> None:
        since = memory["idle_since"]
        noted = np.where(state == LoadState.IDLE, np.minimum(since, now), -NEVER)
        since[:] = np.where(looks, noted, since)

    def _is_overdue(self, memory: dict[str, np.ndarray], now: np.ndarray) -> np.ndarray:
        return np.asarray(now - memory["idle_since"] > self._timeout)


def _size_field(scenario: Scenario) -> str:
    """The set-point that limits how many requests are served together."""
    return "max_num_seqs" if scenario.continuous else "max_batch_size"
