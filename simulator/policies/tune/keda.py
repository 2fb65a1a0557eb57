"""KEDA: zero or some replicas by activity, and the horizontal pod autoscaler (HPA) above that."""

import numpy as np

from simulator.checks import checked_number
from simulator.observation import Observation
from simulator.policies.space import Choice, Space
from simulator.policies.tune.control_loop import NEVER, duration_axis
from simulator.policies.tune.scaling_rule import ScalingRule, target_axis
from simulator.scenario import Scenario

TOLERANCE = 0.1  # of the HPA: it leaves alone what is within 10 % of the target


class Keda(ScalingRule):
    """KEDA on the number in system, polled every control interval.

    Active is `in system > activation_threshold`. From 0 replicas: max(1, min_replicas) once active.
    From 1 on the HPA recommends, with r replicas on,

        r                               where |in system / (r * target) - 1| <= 0.1,
        ceil(in system / target)        elsewhere, within [max(1, min_replicas), the menu's most].

    A larger number takes effect at once. A smaller one is the largest recommendation of the last
    `hpa_stabilization_s`, the replicas found at the first decision being one. With
    `min_replicas` 0, all replicas go once nothing was active for more than `cooldown_s`, at once if
    nothing ever was. That cooldown runs from the last activity, whatever the number of replicas, so
    KEDA may go from n to 0 past the HPA (kedacore/keda issue 7770); serving.md's "about 10 minutes"
    adds the two times up.

    Sources: keda `pkg/scaling/executor/scale_scaledobjects.go`, `withtriggers_types.go` (cooldown
    300 s, initial cooldown 0, poll 30 s); the HPA from memory (tolerance 0.1, down-stabilization
    300 s). No place here: the HPA's limit on how fast it adds replicas, its own 15 s loop, triggers
    other than the number in system, and an activation threshold for the first arrival, since the
    engine starts a replica for any.
    """

    name = "keda"

    def __init__(
        self,
        scenario: Scenario,
        target_in_system: float,
        activation_threshold: float = 0.0,
        cooldown_s: float = 300.0,
        hpa_stabilization_s: float = 300.0,
        min_replicas: int = 0,
    ) -> None:
        super().__init__(scenario, min_replicas)
        self._target = checked_number("target_in_system", target_in_system, 0.0, above=True)
        self._threshold = checked_number("activation_threshold", activation_threshold, 0.0)
        self._cooldown = self.loop.at_most("cooldown_s", cooldown_s)
        self._window = max(1, self.loop.at_least("hpa_stabilization_s", hpa_stabilization_s))
        self._counts = np.arange(self.most + 1)

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """The target, both times, and whether zero is allowed."""
        times = duration_axis(scenario)
        return Space(
            {
                "target_in_system": target_axis(scenario),
                "hpa_stabilization_s": times,
                "cooldown_s": times,
                "min_replicas": Choice((0, 1)),
            }
        )

    def fresh(self, lanes: int) -> dict[str, np.ndarray]:
        """By interval: the last activity, and the last recommendation of n or more replicas."""
        return {
            "active_at": np.full(lanes, NEVER),
            "recommended_at": np.full((lanes, self.most + 1), NEVER),
            "begun": np.zeros(lanes, np.bool_),
        }

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        memory, now = self.recall(observation), self.loop.now(observation)
        on, in_system = self.on(observation), self.loop.in_system(observation)
        active = in_system > self._threshold
        memory["active_at"][active] = now[active]
        wanted = np.where(
            on > 0,
            self._by_hpa(memory, now, on, in_system),
            np.where(active | (self.fewest > 0), max(1, self.fewest), 0),
        )
        if self.fewest == 0:
            wanted[~active & (now - memory["active_at"] > self._cooldown)] = 0
        return self.scale(observation, action_mask, wanted)

    def _by_hpa(
        self, memory: dict[str, np.ndarray], now: np.ndarray, on: np.ndarray, in_system: np.ndarray
    ) -> np.ndarray:
        """Replicas `[B]` that the HPA sets, where `on [B]` are on."""
        ratio = in_system / (np.maximum(on, 1) * self._target)
        enough = np.ceil(in_system / self._target)
        wish = np.where(np.abs(ratio - 1.0) <= TOLERANCE, on, enough)
        wish = np.clip(wish, max(1, self.fewest), self.most).astype(np.int64)
        noted = np.where(memory["begun"], wish, np.maximum(wish, on))
        # Without replicas the HPA is switched off and recommends nothing.
        recommended = (self._counts <= noted[:, None]) & (on > 0)[:, None]
        recommended_at = memory["recommended_at"]
        np.copyto(recommended_at, now[:, None], where=recommended)
        memory["begun"][:] = True
        recent = now[:, None] - recommended_at < self._window
        most = np.where(recent, self._counts, 0).max(axis=1)
        return np.minimum(np.maximum(on, wish), np.maximum(most, wish))
