"""The Knative pod autoscaler: averages over a stable and a panic window."""

import numpy as np

from simulator.checks import check, checked_number
from simulator.observation import Observation
from simulator.policies.axes import clipped
from simulator.policies.space import Real, Space
from simulator.policies.tune.control_loop import (
    NEVER,
    RunningTotals,
    duration_axis,
)
from simulator.policies.tune.scaling_rule import ScalingRule, target_axis
from simulator.scenario import Scenario

TARGET_IN_SYSTEM = 70.0  # container-concurrency-target 100, of which 70 % are used
PANIC_WINDOW_SHARE = 0.1  # of the stable window


class KnativeKpa(ScalingRule):
    """Knative's autoscaler (KPA) on the number in system, sampled every control interval.

    With r = max(1, ready replicas), and for each of the two windows,

        want = ceil(mean in system / target), within [floor(r / max_scale_down_rate),
                                                      ceil(r * max_scale_up_rate)].

    Panic begins where the panic window's want, before these limits, is at least
    `panic_threshold * r`, and ends once more than `stable_window_s` have passed since that last
    held. In panic the larger want counts, and the number only grows. More than one replica at the
    first decision is a panic too: there is no history yet to judge them by. Zero replicas follow
    after zero was wanted for `scale_to_zero_grace_s`; meanwhile the number stands still.

    `panic_window_s` is a tenth of the stable window where it is None. Windows hold whole intervals,
    rounded up. Sources: knative serving `pkg/autoscaler/scaling/autoscaler.go`, `config-autoscaler`
    (defaults) and `pkg/reconciler/autoscaling/kpa/scaler.go` (grace). No place here: averages over
    time instead of samples, the 2 s loop, the activator and its burst capacity, and the rule that a
    replica lives for a stable window before the last one may go.
    """

    name = "knative_kpa"

    def __init__(
        self,
        scenario: Scenario,
        target_in_system: float = TARGET_IN_SYSTEM,
        stable_window_s: float = 60.0,
        panic_window_s: float | None = None,
        panic_threshold: float = 2.0,
        max_scale_up_rate: float = 1000.0,
        max_scale_down_rate: float = 2.0,
        scale_to_zero_grace_s: float = 30.0,
    ) -> None:
        super().__init__(scenario, 0)
        self._target = checked_number("target_in_system", target_in_system, 0.0, above=True)
        self._stable = self.loop.window("stable_window_s", stable_window_s)
        panic_s = PANIC_WINDOW_SHARE * stable_window_s if panic_window_s is None else panic_window_s
        self._panic = self.loop.window("panic_window_s", panic_s)
        rule = f"must be at most stable_window_s {stable_window_s:g}"
        check(panic_s <= stable_window_s, "panic_window_s", panic_s, rule)
        self._panic_lasts = self.loop.at_most("stable_window_s", stable_window_s)
        self._threshold = checked_number("panic_threshold", panic_threshold, 1.0, above=True)
        self._up_rate = checked_number("max_scale_up_rate", max_scale_up_rate, 1.0, above=True)
        self._down_rate = checked_number(
            "max_scale_down_rate", max_scale_down_rate, 1.0, above=True
        )
        self._grace = self.loop.at_least("scale_to_zero_grace_s", scale_to_zero_grace_s)
        self._samples = RunningTotals("in_system", self._stable)

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """The target, the stable window (and the panic window by it), the threshold, the grace."""
        target, times = target_axis(scenario), duration_axis(scenario)
        return Space(
            {
                "target_in_system": target,
                "stable_window_s": times,
                "panic_threshold": Real(1.25, 4.0, log=True),
                "scale_to_zero_grace_s": times,
            },
            {
                "target_in_system": clipped(target, TARGET_IN_SYSTEM),
                "stable_window_s": clipped(times, 60.0),
                "panic_threshold": 2.0,
                "scale_to_zero_grace_s": clipped(times, 30.0),
            },
        )

    def fresh(self, lanes: int) -> dict[str, np.ndarray]:
        """The samples; when panic last held, and its largest number; since when zero is wanted."""
        return {
            **self._samples.fresh(lanes),
            "panic_at": np.full(lanes, NEVER),
            "most_in_panic": np.zeros(lanes, np.int64),
            "zero_since": np.full(lanes, -NEVER),
            "begun": np.zeros(lanes, np.bool_),
        }

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        memory, now = self.recall(observation), self.loop.now(observation)
        on, ready = self.on(observation), self.ready(observation)
        self._samples.add(memory, self.loop.in_system(observation))
        stable = np.ceil(self._samples.mean(memory, self._stable) / self._target)
        panic = np.ceil(self._samples.mean(memory, self._panic) / self._target)
        wanted = self._in_panic_or_not(memory, now, ready, (stable, panic))
        idle = wanted == 0
        since = memory["zero_since"]
        since[:] = np.where(idle, np.minimum(since, now), -NEVER)
        waits = idle & (now - since < self._grace)
        return self.scale(observation, action_mask, np.where(waits, on, wanted))

    def _in_panic_or_not(
        self,
        memory: dict[str, np.ndarray],
        now: np.ndarray,
        ready: np.ndarray,
        raw: tuple[np.ndarray, np.ndarray],
    ) -> np.ndarray:
        """Replicas `[B]` wanted, from what the stable and the panic window want without limits."""
        at_least_one = np.maximum(ready, 1)
        low, high = np.floor(at_least_one / self._down_rate), np.ceil(at_least_one * self._up_rate)
        stable, panic = (np.clip(want, low, high).astype(np.int64) for want in raw)
        panic_at, most = memory["panic_at"], memory["most_in_panic"]
        many = ~memory["begun"] & (ready > 1)
        most[many] = ready[many]
        memory["begun"][:] = True
        over = raw[1] / at_least_one >= self._threshold
        panic_at[:] = np.where(over | many, now, panic_at)
        panics = now - panic_at <= self._panic_lasts
        most[:] = np.where(panics, np.maximum(most, np.maximum(stable, panic)), 0)
        return np.where(panics, most, stable)
