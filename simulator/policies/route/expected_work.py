"""How long what waits at a replica will take, and how fast a replica is."""

import numpy as np

from simulator.observation import Observation
from simulator.policies.choose import batch_latency_s
from simulator.scenario import Scenario


class ExpectedWork:
    """Seconds of work at each replica that serves whole batches, as the dispatcher can guess.

    What waits is served class by class in full batches and one that is not: with b the replica's
    maximum, n requests take `floor(n / b) L(b) + L(n mod b)`, L from the line or the table, for
    requests of size 1. Batch timeouts and mixed batches are left out.
    """

    def __init__(self, scenario: Scenario) -> None:
        parameters, latency_s = scenario.parameters(), batch_latency_s(scenario)
        replicas, classes = parameters.serves.shape
        size = parameters.max_batch_size
        self._replica, self._class = np.arange(replicas)[:, None], np.arange(classes)
        self._size = size[:, None]
        self._full_s = latency_s[self._replica, self._class, self._size]
        # What a replica cannot serve never waits there, and 0 * inf would be NaN.
        self._full_s = np.where(parameters.serves, self._full_s, 0.0)
        self._rest_s = np.where(np.isfinite(latency_s), latency_s, 0.0)
        self._one_more_s = np.zeros(latency_s[:, :, 1:].shape)
        for replica, largest in enumerate(size):
            self._one_more_s[replica, :, :largest] = np.diff(self._rest_s[replica])[:, :largest]
        on_the_line = parameters.serves & (parameters.table_count == 0)
        self._beta_s = np.where(on_the_line, parameters.beta_s, 0.0)

    @property
    def per_request_s(self) -> np.ndarray:
        """Seconds `[K, C]` of work that a request of size 1 brings in full batches, `L(b) / b`.

        0 where the replica does not serve the class.
        """
        return self._full_s / self._size

    def backlog_s(self, observation: Observation) -> np.ndarray:
        """Expected seconds `[B, K]` until all that is at the replica is answered."""
        waiting = self._waiting(observation)
        full = (waiting / self._size).astype(np.int64)  # exact, and faster than whole division
        rest = waiting - full * self._size
        work_s = full * self._full_s + self._rest_s[self._replica, self._class, rest]
        backlog_s: np.ndarray = observation.remaining_service_s + work_s @ np.ones(work_s.shape[2])
        return backlog_s

    def own_s(self, observation: Observation) -> np.ndarray:
        """Seconds `[B, K]` that the request to be routed would add to the backlog.

        The step of the backlog from n to n + 1 requests of its class, and beta for each unit of
        size above 1; a class with a latency table counts as size 1.
        """
        head = observation.head_class.astype(np.int64, copy=False)
        lane, replica = np.arange(len(head))[:, None], self._replica[:, 0]
        waiting = self._waiting(observation)[lane, replica, head[:, None]]
        place = waiting % self._size[:, 0]
        extra = np.where(head >= 0, observation.head_size - 1.0, 0.0)[:, None]
        by_class = self._beta_s.T[head]
        own_s: np.ndarray = self._one_more_s[replica, head[:, None], place] + extra * by_class
        return own_s

    def _waiting(self, observation: Observation) -> np.ndarray:
        return observation.replica_queue_length.astype(np.int64, copy=False)


def relative_speed(scenario: Scenario) -> np.ndarray:
    """How fast each replica is beside the fastest one `[K]`, at most 1.

    Whole batches: requests per second in full batches, the classes that it serves in equal parts
    (0 if it serves none).
    Continuous batching: tokens per second with all sequences decoding, context and prefill aside.
    """
    parameters = scenario.parameters()
    if scenario.continuous:
        seqs = parameters.max_num_seqs
        t0_s, _, t_decode_s, _ = parameters.iteration_s.T
        capacity = seqs / (t0_s + t_decode_s * seqs)
    else:
        per_request_s = ExpectedWork(scenario).per_request_s
        served = parameters.serves.sum(axis=1)
        # A replica that serves no class has no speed.
        capacity = served / np.where(served > 0, per_request_s.sum(axis=1), 1.0)
    speed: np.ndarray = capacity / capacity.max()
    return speed
