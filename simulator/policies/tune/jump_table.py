"""Which batch size a load jump goes to: looked up, not climbed to."""

from collections.abc import Sequence

import numpy as np

from simulator.checks import check, check_whole, checked_number
from simulator.policies.choose import batch_latency_s
from simulator.scenario import Scenario

JumpPairs = Sequence[tuple[float, int]]  # (from this many requests per second, batch size)


def memory_limit(scenario: Scenario) -> int:
    """The largest batch of requests of size 1 that some replica can hold, of its heaviest class.

    Under continuous batching the most sequences; what each will need of the KV memory is unknown.
    """
    limits = []
    for replica in scenario.replicas:
        if replica.tokens is not None:
            limits.append(replica.tokens.max_num_seqs)
            continue
        heaviest_gib = max(replica.request_memory_gib, default=0.0)
        held = replica.memory_gib / heaviest_gib if heaviest_gib > 0 else np.inf
        limits.append(int(min(replica.max_batch_size, max(1.0, held))))
    return max(limits)


def capacity_rps(scenario: Scenario, sizes: Sequence[int]) -> np.ndarray:
    """Requests per second `[K + 1, S]` that the first 0 .. K replicas serve in batches of `sizes`.

    b / L(b) of each, with L averaged over the classes that it serves, as if equally frequent.
    """
    latency_s = batch_latency_s(scenario)
    rates = np.zeros((len(scenario.replicas) + 1, len(sizes)))
    for number, replica in enumerate(scenario.replicas):
        batch = np.minimum(sizes, replica.max_batch_size)
        took_s = latency_s[number][:, batch]
        served = np.isfinite(took_s[:, 0])
        if served.any():
            rates[number + 1] = batch / took_s[served].mean(axis=0)
    return np.cumsum(rates, axis=0)


class JumpTable:
    """Batch size, and replicas, for an arrival rate.

    Given as pairs: the size of the last pair whose rate is reached, the smallest size below the
    first; the replicas stay. Else derived: the smallest size at which the replicas that are on keep
    up, b / L(b) summed; where none does the largest, and the fewest replicas that do. Continuous
    batching has no L(b) to derive from: the largest size.
    """

    def __init__(self, scenario: Scenario, sizes: Sequence[int], pairs: JumpPairs | None) -> None:
        """`sizes` are those of the menu that the rule may use, ascending."""
        self._sizes = np.array(sizes, np.int64)
        self._from_rps: np.ndarray | None = None
        self._capacity_rps: np.ndarray | None = None
        if pairs is not None:
            listed = isinstance(pairs, Sequence) and not isinstance(pairs, str)
            listed = listed and all(isinstance(pair, Sequence) and len(pair) == 2 for pair in pairs)
            check(listed, "jump_table", pairs, "must be a list of pairs: rate, batch size")
            rates = [checked_number("jump_table", rate) for rate, _ in pairs]
            ascends = bool(rates) and rates == sorted(set(rates))
            check(ascends, "jump_table", list(pairs), "needs pairs of ascending rates")
            for _, size in pairs:
                check_whole("jump_table", size, 1)
            self._from_rps = np.array(rates)
            self._size_from = np.array([sizes[0], *(size for _, size in pairs)], np.int64)
        elif not scenario.continuous:
            self._capacity_rps = capacity_rps(scenario, sizes)

    def look_up(self, rate_rps: np.ndarray, on: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Batch size `[B]` and replicas `[B]`, at least the `on [B]`, for the rates `[B]`."""
        if self._from_rps is not None:
            size = self._size_from[np.searchsorted(self._from_rps, rate_rps, side="right")]
            return np.minimum(size, self._sizes[-1]), on
        if self._capacity_rps is None:
            return np.full(len(on), self._sizes[-1]), on
        keeps_up = self._capacity_rps[on] >= rate_rps[:, None]
        keeps_up[:, -1] = True
        most = self._capacity_rps[:, -1]
        enough = np.minimum(np.searchsorted(most, rate_rps, side="left"), len(most) - 1)
        return self._sizes[keeps_up.argmax(axis=1)], np.maximum(on, enough)
