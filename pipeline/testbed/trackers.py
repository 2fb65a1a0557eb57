"""The running averages of an observation, as `simulator/observation.py` defines them."""

import math
from bisect import bisect_left, insort
from collections import deque

import numpy as np

from simulator.observation import RESPONSE_WINDOW


class LoadAverages:
    """Arrival rate by class and utilization by replica, exponentially weighted over `window_s`.

    Over a gap dt, with d = exp(-dt / window_s): `rate = rate * d` and
    `utilization = utilization * d + busy * (1 - d)`. An arrival adds 1 / window_s to its class.
    The arrays are updated in place: an observation may hold them.
    """

    def __init__(self, classes: int, replicas: int, window_s: float) -> None:
        self.arrival_rate_rps = np.zeros((1, classes))
        self.utilization = np.zeros((1, replicas))
        self._busy = np.zeros((1, replicas))
        self._window_s = window_s
        self._clock_s = 0.0

    def advance(self, clock_s: float) -> None:
        """Both averages are those of `clock_s`; busy flags held since the last call."""
        decay = math.exp(-(clock_s - self._clock_s) / self._window_s)
        self._clock_s = clock_s
        self.arrival_rate_rps *= decay
        self.utilization *= decay
        self.utilization += self._busy * (1.0 - decay)

    def arrives(self, request_class: int, clock_s: float) -> None:
        """A request of the class arrived, shed or not."""
        self.advance(clock_s)
        self.arrival_rate_rps[0, request_class] += 1.0 / self._window_s

    def set_busy(self, replica: int, busy: bool, clock_s: float) -> None:
        """The replica is busy, or idle, from `clock_s` on."""
        self.advance(clock_s)
        self._busy[0, replica] = busy


class ResponseWindow:
    """The last RESPONSE_WINDOW response times, kept sorted."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque()
        self._ascending: list[float] = []

    def answered(self, response_s: float) -> None:
        """The response time joins; the oldest leaves a full window."""
        if len(self._recent) == RESPONSE_WINDOW:
            del self._ascending[bisect_left(self._ascending, self._recent.popleft())]
        self._recent.append(response_s)
        insort(self._ascending, response_s)

    def p95_s(self) -> float:
        """The ceil(0.95 m)-th smallest of the m response times held; 0.0 where m = 0."""
        held = len(self._ascending)
        # In integers, because 0.95 * 20 in floating point need not be 19.
        return self._ascending[(19 * held + 19) // 20 - 1] if held else 0.0
