"""The replica that would finish first. The class is the one at the head of the line."""

import numpy as np

from simulator.observation import Observation
from simulator.policies.choose import one_hot, to_least
from simulator.policies.dispatch.head_of_line import HeadOfLineRule


class Fifo(HeadOfLineRule):
    """First in, first out, without idling: to the replica that is expected to finish it first.

    The least L(b) among the replicas that can take it, with b the requests it would really get (its
    own maximum may lower b), after what is left of its batch in service where one may be sent
    behind it; ties go to the lowest number.
    """

    name = "fifo"

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        action, expected_s = self.send(observation)
        return one_hot(to_least(action, expected_s, observation.can_take), action_mask)
