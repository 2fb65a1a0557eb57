"""What rules that are asked every control interval share: a count of intervals, and windows."""

import math

import numpy as np

from simulator.checks import check
from simulator.observation import Observation
from simulator.policies.choose import checked_seconds
from simulator.policies.space import Real
from simulator.scenario import QueuePlace, Scenario

NEVER = -(2**40)  # an interval so long ago that every delay since has passed
_FOREVER = 2.0**40
_LONGEST_WINDOW = 100_000
_ROUNDING = 1e-9  # of the quotient of two times that were meant to divide


class ControlLoop:
    """Time in control intervals, counted: a clock that adds up fractions would miss equalities."""

    def __init__(self, scenario: Scenario) -> None:
        self.interval_s = scenario.control_interval_s
        self._central = scenario.queues == QueuePlace.CENTRAL

    def now(self, observation: Observation) -> np.ndarray:
        """Control intervals `[B]` since the episode began."""
        return np.rint(observation.clock_s / self.interval_s).astype(np.int64)

    def at_least(self, field: str, duration_s: float) -> int:
        """The fewest whole intervals that last `duration_s`; ValueError if that is no time."""
        return math.ceil(self._intervals(field, duration_s) - _ROUNDING)

    def at_most(self, field: str, duration_s: float) -> int:
        """The most whole intervals within `duration_s`: one more lasts longer than that."""
        return math.floor(self._intervals(field, duration_s) + _ROUNDING)

    def window(self, field: str, duration_s: float) -> int:
        """Intervals of a window: whole ones, rounded up, at least 1; each takes memory."""
        checked_seconds(field, duration_s, above=True)
        window = max(1, self.at_least(field, duration_s))
        rule = f"must be at most {_LONGEST_WINDOW} control intervals of {self.interval_s:g} s"
        check(window <= _LONGEST_WINDOW, field, duration_s, rule)
        return window

    def _intervals(self, field: str, duration_s: float) -> float:
        intervals = checked_seconds(field, duration_s) / self.interval_s
        return min(intervals, _FOREVER)  # as long as any episode, and still a whole number of int64

    def in_system(self, observation: Observation) -> np.ndarray:
        """Requests `[B]` waiting or in service. What a replica was sent includes its own queue."""
        sent = observation.in_flight.sum(axis=1)
        return sent + observation.queue_length.sum(axis=1) if self._central else sent


class RunningTotals:
    """A running total `[B]`, noted at each decision, and its increase over a window.

    Differences of totals instead of sums over the window: one decision costs the same however long
    the window is. Before the window has filled, what there is of it counts.
    """

    def __init__(self, name: str, longest: int) -> None:
        """What is totaled, as a key of the memory; the longest window, in intervals."""
        self._totals, self._noted = f"{name}_totals", f"{name}_noted"
        self._places = longest + 1

    def fresh(self, lanes: int) -> dict[str, np.ndarray]:
        """Totals `[lanes, places]` and how many were noted `[lanes]`: the 0 at the beginning."""
        return {
            self._totals: np.zeros((lanes, self._places)),
            self._noted: np.ones(lanes, np.int64),
        }

    def note(self, memory: dict[str, np.ndarray], total: np.ndarray) -> None:
        """The total of now joins the memory."""
        lane = np.arange(len(total))
        memory[self._totals][lane, memory[self._noted] % self._places] = total
        memory[self._noted] += 1

    def add(self, memory: dict[str, np.ndarray], amount: np.ndarray) -> None:
        """The total grows by `amount [B]`."""
        self.note(memory, self._total(memory, np.zeros(len(amount), np.int64)) + amount)

    def increase(
        self, memory: dict[str, np.ndarray], window: int, ago: int = 0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Increase `[B]` over the `window` that ended `ago` intervals ago, and its length `[B]`.

        In intervals; the length is less than `window`, or 0, where no more is known. `window + ago`
        is at most `longest`.
        """
        known = memory[self._noted] - 1
        end = np.minimum(known, ago)
        length = np.minimum(known - end, window)
        return self._total(memory, end) - self._total(memory, end + length), length

    def mean(self, memory: dict[str, np.ndarray], window: int, ago: int = 0) -> np.ndarray:
        """Increase per interval `[B]` over the window, 0 where nothing is known."""
        increase, length = self.increase(memory, window, ago)
        mean: np.ndarray = increase / np.maximum(length, 1)
        return mean

    def _total(self, memory: dict[str, np.ndarray], ago: np.ndarray) -> np.ndarray:
        lane = np.arange(len(ago))
        return memory[self._totals][lane, (memory[self._noted] - 1 - ago) % self._places]


def duration_axis(scenario: Scenario) -> Real:
    """Times to try: from one control interval to 64 of them, or 64 cold starts.

    Sources speak of seconds and minutes where a scenario may compress time, so their times are
    taken relative to how often a decision is due and to what a mistake costs.
    """
    interval_s = scenario.control_interval_s
    return Real(interval_s, 64 * max(interval_s, scenario.scaling.cold_start_s), log=True)
