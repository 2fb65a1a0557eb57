"""Rules about which replica. The class is the one at the head of the line, sent without waiting.

Where some replicas do not serve that class and the others are busy, it holds up the whole line.
"""

import numpy as np

from simulator.action import WAIT
from simulator.observation import Observation, ReplicaState
from simulator.policies.choose import (
    BatchActions,
    Rule,
    checked_batch_size,
    equal_shares,
    head_of_line,
    one_hot,
    to_least,
)
from simulator.scenario import Scenario


class _HeadOfLineRule(Rule):
    """A rule that sends up to `batch_size` of the class at the head of the line."""

    def __init__(self, scenario: Scenario, batch_size: int) -> None:
        size = checked_batch_size("batch_size", batch_size, scenario)
        self._batches = BatchActions(scenario, [size] * len(scenario.request_classes))
        self._number = np.arange(len(scenario.replicas))

    def _send(self, observation: Observation) -> tuple[np.ndarray, np.ndarray]:
        return self._batches.send(observation, head_of_line(observation))


class RandomReplica(_HeadOfLineRule):
    """Any replica that can take it, with equal probabilities: the paper's Random baseline."""

    name = "random_replica"

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """Rows `[B, A]` with one equal share for each replica that can take it."""
        action, _ = self._send(observation)
        return equal_shares(action, (observation.can_take > 0) & (action != WAIT), action_mask)


class RoundRobin(_HeadOfLineRule):
    """The replica after the last one used, in a circle (D8).

    `on_busy: skip` goes on to the next that can take it; `blocking` waits for that very replica.
    Replicas that are off or do not serve the class are not waited for. The turn is read off
    `last_replica`, so a batch sent by someone else also counts as a turn.
    """

    name = "round_robin"

    def __init__(self, scenario: Scenario, batch_size: int, on_busy: str = "skip") -> None:
        if on_busy not in ("skip", "blocking"):
            raise ValueError(f"on_busy = {on_busy!r}: must be 'skip' or 'blocking'")
        super().__init__(scenario, batch_size)
        self._blocking = on_busy == "blocking"

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        action, _ = self._send(observation)
        turn = observation.last_replica.astype(np.int64, copy=False)[:, None] + 1
        places_away = (self._number - turn) % len(self._number)
        can_take = observation.can_take
        if self._blocking:
            # To wait for a replica that may never take the class would be to wait for ever.
            out = (observation.replica_state == ReplicaState.OFF) | (action == WAIT)
            places_away = np.where(out, len(self._number), places_away)
            next_one = places_away == places_away.min(axis=1, keepdims=True)
            can_take = np.where(next_one, can_take, 0.0)
        return one_hot(to_least(action, places_away, can_take), action_mask)


class ShortestQueue(_HeadOfLineRule):
    """The replica with the fewest pending requests among those that can take it (theory: JSQ).

    Requests in a central queue are pending at no replica yet: what counts is what was sent to it.
    Ties are random, as equal probabilities: a fixed order would load the first replica most (D7).
    While replicas take a batch only when idle, all ties: the same as `random_replica`.
    """

    name = "shortest_queue"

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """Rows `[B, A]` with one equal share for each shortest queue."""
        action, _ = self._send(observation)
        takes = (observation.can_take > 0) & (action != WAIT)
        pending = np.where(takes, observation.in_flight, np.inf)
        candidate = takes & (pending == pending.min(axis=1, keepdims=True))
        return equal_shares(action, candidate, action_mask)


class ShortestQueueFirst(_HeadOfLineRule):
    """Replica 0 only, waiting while it is busy: what the paper's shortest queue seems to have been.

    Or the lowest-numbered that serves the class, where replica 0 does not.

    The least of the replicas' queue lengths when all requests wait in one central queue: every
    length is 0 and the lowest number wins the tie each time. It explains why the paper's shortest
    queue serves half of what its round robin does (E1); kept for that comparison.
    """

    name = "shortest_queue_first"

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        action, _ = self._send(observation)
        first = (action != WAIT).argmax(axis=1)
        lane = np.arange(len(action))
        takes = observation.can_take[lane, first] > 0
        return one_hot(np.where(takes, action[lane, first], WAIT), action_mask)


class Fifo(_HeadOfLineRule):
    """First in, first out, without idling: to the replica that is expected to finish it first.

    The least alpha + beta * b among the replicas that can take it, with b the requests it would
    really get (its own maximum may lower b); ties go to the lowest number.
    """

    name = "fifo"

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        action, expected_s = self._send(observation)
        return one_hot(to_least(action, expected_s, observation.can_take), action_mask)
