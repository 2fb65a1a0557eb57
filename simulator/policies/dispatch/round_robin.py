"""One replica after the other. The class is the one at the head of the line."""

import numpy as np

from simulator.action import WAIT
from simulator.observation import Observation, ReplicaState
from simulator.policies.axes import TUNED_SIZE, size_and_default
from simulator.policies.choose import one_hot, to_least
from simulator.policies.dispatch.head_of_line import HeadOfLineRule
from simulator.policies.space import Choice, Space
from simulator.scenario import Scenario


class RoundRobin(HeadOfLineRule):
    """The replica after the last one used, in a circle (D8).

    `on_busy: skip` goes on to the next that can take it; `blocking` waits for that very replica.
    Replicas that are off or do not serve the class are not waited for. The turn is read off
    `last_replica`, so a batch sent by someone else also counts as a turn.
    """

    name = "round_robin"

    def __init__(
        self, scenario: Scenario, batch_size: int, on_busy: str = "skip", overtake: bool = True
    ) -> None:
        if on_busy not in ("skip", "blocking"):
            raise ValueError(f"on_busy = {on_busy!r}: must be 'skip' or 'blocking'")
        super().__init__(scenario, batch_size, overtake)
        self._blocking = on_busy == "blocking"

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """Batch sizes, and both forms."""
        sizes, size = size_and_default(scenario, TUNED_SIZE)
        return Space(
            {"batch_size": sizes, "on_busy": Choice(("skip", "blocking"))},
            {"batch_size": size, "on_busy": "skip"},
        )

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        action, _ = self.send(observation)
        turn = observation.last_replica.astype(np.int64, copy=False)[:, None] + 1
        places_away = (self.number - turn) % len(self.number)
        can_take = observation.can_take
        if self._blocking:
            # To wait for a replica that may never take the class would be to wait for ever.
            out = (observation.replica_state == ReplicaState.OFF) | (action == WAIT)
            places_away = np.where(out, len(self.number), places_away)
            next_one = places_away == places_away.min(axis=1, keepdims=True)
            can_take = np.where(next_one, can_take, 0.0)
        return one_hot(to_least(action, places_away, can_take), action_mask)
