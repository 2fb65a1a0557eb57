"""Triton's dynamic batcher: preferred sizes and a queue delay."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from simulator.checks import check
from simulator.observation import Observation
from simulator.policies.axes import batch_size_choice, expiry_choice, sizes_space, timeout_choice
from simulator.policies.batch.ready import ReadyQueues
from simulator.policies.choose import (
    checked_batch_size,
    checked_seconds,
    seconds_by_class,
    sizes_by_class,
)
from simulator.policies.rule import Rule
from simulator.policies.space import Choice, Space
from simulator.scenario import Scenario


class Triton(Rule):
    """Sends the largest preferred size that waits; once the delay has expired, all that waits.

    With n waiting and a the age of the oldest, scan the first min(n, max_batch_size): (1) `best` is
    the last preferred size passed; (2) where the next request would pass the largest preferred size
    and there is no `best`, it is the requests so far; beyond `max_batch_size` the scan ends; (3)
    `best`, unless the delay is above 0 and a has reached it; (4) else all that was scanned, if the
    scan ended early or reached the largest preferred size, or the delay is 0 or reached; (5) else
    wait. So an expired delay ignores the preferred sizes, and under load batches of one more than
    the largest of them go out (triton-inference-server/server#8141). No preferred size means
    `max_batch_size`, which is one for all classes or one by class name, as each model has its own.
    Requests older than `timeout_s`, one for all classes or by class name, are rejected as a batch
    is formed (0: never).

    Source: triton-inference-server/core, src/dynamic_batch_scheduler.cc. Our model has no place
    for: batches that grow after they were handed to an instance (server PR#3789), priority levels,
    requests that bring several inputs, and `delay` as timeout action, which puts expired requests
    behind all others while our queues are FIFO. Its models do not know of each other: that of those
    that are ready the one whose oldest has waited longest gets the replica is ours.
    """

    name = "triton"

    def __init__(
        self,
        scenario: Scenario,
        max_batch_size: int | Mapping[str, int],
        preferred_batch_sizes: Sequence[int] = (),
        max_queue_delay_s: float = 0.0,
        timeout_s: float | Mapping[str, float] = 0.0,
        timeout_action: str = "reject",
    ) -> None:
        limits = sizes_by_class("max_batch_size", max_batch_size, scenario)
        self._delay_s = checked_seconds("max_queue_delay_s", max_queue_delay_s)
        limit_s = seconds_by_class("timeout_s", timeout_s, scenario)
        self._timeout_s = np.where(limit_s > 0.0, limit_s, np.inf)  # [C]
        rule = "must be 'reject' or 'delay'"
        check(timeout_action in ("reject", "delay"), "timeout_action", timeout_action, rule)
        rule = "queues are FIFO, so an expired request cannot go behind the others; use 'reject'"
        check(timeout_action == "reject", "timeout_action", timeout_action, rule)
        rule = "to reject expired requests the scenario needs may_shed"
        self._expires = bool(np.isfinite(self._timeout_s).any())
        check(not self._expires or scenario.may_shed, "timeout_s", timeout_s, rule)
        self._queues = ReadyQueues(scenario)
        # One more than the maximum is enough: the scan never looks further.
        numbers = range(min(max(limits), scenario.queue_capacity) + 2)
        preferred = [_checked_preferred(preferred_batch_sizes, most, scenario) for most in limits]
        self._take = np.array(  # [C, 2, N]
            [
                [
                    [_scan(number, sizes, most, self._delay_s, late) for number in numbers]
                    for late in (False, True)
                ]
                for sizes, most in zip(preferred, limits, strict=True)
            ]
        )
        self._class = np.arange(len(limits))

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """Preferred sizes from the lower half of the menu, maxima from the upper, and delays.

        Without a delay a preferred size is a limit, so small ones are within reach.
        """
        sizes = batch_size_choice(scenario).values
        middle = len(sizes) // 2
        lower = sizes[: middle + 1]
        preferred = ((), *((size,) for size in lower), *pairwise(lower))
        limits = sizes_space("max_batch_size", scenario, Choice(sizes[middle:]), sizes[-1])
        axes = {
            **limits.axes,
            "preferred_batch_sizes": Choice(preferred),
            "max_queue_delay_s": timeout_choice(scenario),
        }
        default = {
            **(limits.default or {}),
            "preferred_batch_sizes": (),
            "max_queue_delay_s": 0.0,
        }
        if scenario.may_shed:
            axes["timeout_s"] = expiry_choice(scenario)
            default["timeout_s"] = 0.0
        return Space(axes, default)

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        waiting, wait_s = self._queues.waiting(observation), observation.oldest_wait_s
        late = (wait_s >= self._delay_s).astype(np.int64)
        take = self._take[self._class, late, np.minimum(waiting, self._take.shape[2] - 1)]
        expired = None
        if self._expires:
            expired = (observation.queue_length > 0) & (wait_s > self._timeout_s)
        return self._queues.rows(observation, action_mask, take, shed=expired)


def _checked_preferred(sizes: Sequence[int], most: int, scenario: Scenario) -> tuple[int, ...]:
    field = "preferred_batch_sizes"
    listed = isinstance(sizes, Sequence) and not isinstance(sizes, str)
    check(listed, field, sizes, "must be a list of batch sizes")
    for size in sizes:
        checked_batch_size(field, size, scenario)
        rule = f"each must be on the menu {scenario.batch_sizes} and at most max_batch_size {most}"
        check(size in scenario.batch_sizes and size <= most, field, sizes, rule)
    return tuple(sorted(set(sizes))) or (most,)


def _scan(waiting: int, preferred: tuple[int, ...], most: int, delay_s: float, late: bool) -> int:
    """Requests to send of `waiting`, 0 to wait; `late` where the oldest has waited the delay."""
    expired = delay_s > 0 and late
    scanned, best, ended = 0, 0, False
    for _ in range(waiting):
        if scanned > 0 and scanned + 1 > preferred[-1] and best == 0:
            best = scanned
        if scanned + 1 > most:
            ended = True
            break
        scanned += 1
        if scanned in preferred:
            best = scanned
    if best > 0 and not expired:
        return best
    if ended or scanned >= preferred[-1] or expired or delay_s == 0:
        return scanned
    return 0
