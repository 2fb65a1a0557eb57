"""What autoscalers share: how many replicas there are, and how many may be wanted."""

import numpy as np

from simulator.checks import check, check_whole
from simulator.observation import Observation, ReplicaState
from simulator.policies.rule import StatefulRule
from simulator.policies.space import Real
from simulator.policies.tune.control_loop import ControlLoop
from simulator.policies.tune.set_points import REPLICAS_ON, SetPointActions
from simulator.scenario import Scenario


class ScalingRule(StatefulRule):
    """A rule that moves the number of replicas, and leaves the other set-points as they are found.

    Between decisions the engine itself raises the number from zero at an arrival (activation), so
    the number is always read off the observation. One that the menu does not have is rounded up.
    A set-point found at a value that its menu does not have moves to the nearest one.
    """

    def __init__(self, scenario: Scenario, min_replicas: int) -> None:
        most = max(scenario.set_points.replicas_on)
        check_whole("min_replicas", min_replicas, 0)
        check(min_replicas <= most, "min_replicas", min_replicas, f"must be at most {most}")
        self.loop, self.actions = ControlLoop(scenario), SetPointActions(scenario)
        self.fewest, self.most = int(min_replicas), int(most)
        self._number = np.arange(len(scenario.replicas))

    @classmethod
    def misfit(cls, scenario: Scenario) -> str | None:
        """It needs a menu of numbers of replicas."""
        if max(scenario.set_points.replicas_on, default=0) < 1:
            return "set_points.replicas_on offers no number of replicas above 0"
        return None

    def on(self, observation: Observation) -> np.ndarray:
        """Replicas `[B]` that are wanted now, those that still start included."""
        return observation.set_points[:, REPLICAS_ON].astype(np.int64)

    def ready(self, observation: Observation) -> np.ndarray:
        """Wanted replicas `[B]` that can serve: not starting, not down, not draining."""
        state = observation.replica_state
        serves = (state == ReplicaState.IDLE) | (state == ReplicaState.BUSY)
        wanted = self._number < observation.set_points[:, REPLICAS_ON, None]
        return (serves & wanted).sum(axis=1)

    def scale(
        self, observation: Observation, action_mask: np.ndarray, wanted: np.ndarray
    ) -> np.ndarray:
        """One-hot rows `[B, A]` for `wanted [B]` replicas."""
        return self.actions.rows(observation, action_mask, replicas_on=wanted)


def target_axis(scenario: Scenario) -> Real:
    """Requests in system per replica: from one to two full batches, or running sets."""
    most = max(
        replica.tokens.max_num_seqs if replica.tokens else replica.max_batch_size
        for replica in scenario.replicas
    )
    return Real(1.0, 2.0 * most, log=True)
