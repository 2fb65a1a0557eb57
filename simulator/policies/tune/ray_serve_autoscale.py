"""Ray Serve's autoscaler: a wish counts once it was repeated for a delay."""

import numpy as np

from simulator.checks import checked_number
from simulator.observation import Observation
from simulator.policies.axes import clipped
from simulator.policies.space import Space
from simulator.policies.tune.control_loop import (
    RunningTotals,
    duration_axis,
)
from simulator.policies.tune.scaling_rule import ScalingRule, target_axis
from simulator.scenario import Scenario

_DEFAULTS = {
    "target_in_system": 2.0,
    "upscale_delay_s": 30.0,
    "downscale_delay_s": 600.0,
    "look_back_period_s": 30.0,
}


class RayServeAutoscale(ScalingRule):
    """Ray Serve's replica-queue-length autoscaling on the number in system.

    With r replicas ready, o the mean number in system over `look_back_period_s`, and the factor
    `upscaling_factor` or `downscaling_factor`,

        wish = ceil(r + factor * (o / target_in_system - r)), within [min_replicas, menu's most];

    one less than r where the factor rounds a smaller number back to r. More replicas than are on
    follow once that was wished at each decision for `upscale_delay_s`, fewer after
    `downscale_delay_s`; a wish for the other side, or for what is on, starts the count anew. The
    last wish counts, not the smallest. Zero follows only from one, never from more. Without a ready
    replica there is no delay: ceil(upscaling_factor) replicas where a request waits, or what is on.

    Source: ray `python/ray/serve/autoscaling_policy.py` and `config.py` (its
    `target_ongoing_requests` is our `target_in_system`). Delays hold whole control intervals,
    rounded up, where Ray counts periods of 0.1 s and rounds down. No place here: averages over time
    instead of samples, and a delay of its own for the step to zero.
    """

    name = "ray_serve_autoscale"

    def __init__(
        self,
        scenario: Scenario,
        target_in_system: float = _DEFAULTS["target_in_system"],
        upscale_delay_s: float = _DEFAULTS["upscale_delay_s"],
        downscale_delay_s: float = _DEFAULTS["downscale_delay_s"],
        look_back_period_s: float = _DEFAULTS["look_back_period_s"],
        upscaling_factor: float = 1.0,
        downscaling_factor: float = 1.0,
        min_replicas: int = 1,
    ) -> None:
        super().__init__(scenario, min_replicas)
        self._target = checked_number("target_in_system", target_in_system, 0.0, above=True)
        self._up_delay = self.loop.at_least("upscale_delay_s", upscale_delay_s)
        self._down_delay = self.loop.at_least("downscale_delay_s", downscale_delay_s)
        self._look_back = self.loop.window("look_back_period_s", look_back_period_s)
        self._up = checked_number("upscaling_factor", upscaling_factor, 0.0, above=True)
        self._down = checked_number("downscaling_factor", downscaling_factor, 0.0, above=True)
        self._first = int(np.ceil(self._up))
        self._samples = RunningTotals("in_system", self._look_back)

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """The target, both delays and the look-back period."""
        axes = dict.fromkeys(_DEFAULTS, duration_axis(scenario))
        axes["target_in_system"] = target_axis(scenario)
        return Space(axes, {name: clipped(axis, _DEFAULTS[name]) for name, axis in axes.items()})

    def fresh(self, lanes: int) -> dict[str, np.ndarray]:
        """The samples, and how often in a row more (positive) or fewer (negative) were wished."""
        return {**self._samples.fresh(lanes), "wishes": np.zeros(lanes, np.int64)}

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        memory = self.recall(observation)
        on, ready = self.on(observation), self.ready(observation)
        in_system = self.loop.in_system(observation)
        self._samples.add(memory, in_system)
        wish = self._wish(self._samples.mean(memory, self._look_back), ready)
        wish = np.where((wish < 1) & (on > 1), 1, wish)
        wanted = np.where(self._is_repeated(memory["wishes"], wish, on, ready > 0), wish, on)
        first = np.where(in_system > 0, np.maximum(on, min(self._first, self.most)), on)
        return self.scale(observation, action_mask, np.where(ready > 0, wanted, first))

    def _wish(self, in_system: np.ndarray, ready: np.ndarray) -> np.ndarray:
        """Replicas `[B]` wished for the mean number in system `[B]`."""
        change = in_system / self._target - ready
        scaled = np.ceil(ready + np.where(change > 0, self._up, self._down) * change)
        stuck = (np.ceil(in_system / self._target) < ready) & (scaled == ready)
        return np.clip(scaled - stuck, self.fewest, self.most).astype(np.int64)

    def _is_repeated(
        self, wishes: np.ndarray, wish: np.ndarray, on: np.ndarray, counts: np.ndarray
    ) -> np.ndarray:
        """True `[B]` where more or fewer than `on [B]` were wished long enough; then anew."""
        up, down = wish > on, wish < on
        counted = np.select([up, down], [np.maximum(wishes, 0) + 1, np.minimum(wishes, 0) - 1], 0)
        due: np.ndarray = counts & ((counted > self._up_delay) | (-counted > self._down_delay))
        wishes[:] = np.where(counts, np.where(due, 0, counted), wishes)
        return due
