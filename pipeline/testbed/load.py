"""The load: bursty arrivals drawn in advance, sent at their times whether or not answers come."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from simulator.arrivals import poisson_instants
from simulator.workload import Arrivals


@dataclass(frozen=True)
class BurstWorkload:
    """Poisson arrivals whose rate alternates between low and high phases of random length.

    A `Workload` that starts low. Phase lengths are uniform from `shortest_s` to `longest_s`.
    """

    low_rps: float
    high_rps: float
    class_share: tuple[float, ...]  # [C] share of the requests, sums to 1
    shortest_s: float = 5.0
    longest_s: float = 15.0

    def draw(self, horizon_s: float, generator: np.random.Generator) -> Arrivals:
        """The arrivals in [0, horizon_s), all of size 1. Draws: phase by phase its length, count
        and times; then the classes."""
        times, start_s, high = [], 0.0, False
        while start_s < horizon_s:
            length_s = generator.uniform(self.shortest_s, self.longest_s)
            rate_rps = self.high_rps if high else self.low_rps
            end_s = start_s + length_s
            times.append(poisson_instants(rate_rps, start_s, end_s, generator))
            start_s, high = end_s, not high
        arrival_s = np.concatenate(times)
        arrival_s = arrival_s[arrival_s < horizon_s]
        request_class = generator.choice(
            len(self.class_share), size=len(arrival_s), p=self.class_share
        )
        return Arrivals(arrival_s, request_class.astype(np.int64), np.ones(len(arrival_s)))


class OpenLoopLoad:
    """Replays arrivals in an event loop: no answer is waited for, a late one is sent at once.

    It shares the gateway's loop, because a thread would fight the gateway for the interpreter
    lock. How late each request was sent is kept in `lateness_s [R]`.
    """

    def __init__(self, arrivals: Arrivals) -> None:
        self.lateness_s = np.zeros(len(arrivals.arrival_s))
        # Plain lists: reading one number of an array costs three times as much.
        self._arrival_s: list[float] = arrivals.arrival_s.tolist()
        self._request_class: list[int] = arrivals.request_class.tolist()
        self._size: list[float] = arrivals.size.tolist()
        self._sent = 0
        self._origin_s = 0.0

    @property
    def horizon_s(self) -> float:
        """The time of the last arrival, 0 without arrivals."""
        return self._arrival_s[-1] if self._arrival_s else 0.0

    @property
    def exhausted(self) -> bool:
        """Whether every arrival has been sent."""
        return self._sent == len(self._arrival_s)

    def start(
        self,
        loop: asyncio.AbstractEventLoop,
        origin_s: float,
        arrive: Callable[[int, int, float], None],
    ) -> None:
        """From now on `arrive(request_id, request_class, size)` is called at each arrival.

        `origin_s` is time 0 on the loop's clock; request_id is the number of the arrival.
        """
        self._loop, self._origin_s, self._arrive = loop, origin_s, arrive
        self._sleep()

    def _sleep(self) -> None:
        if not self.exhausted:
            self._loop.call_at(self._origin_s + self._arrival_s[self._sent], self._send_due)

    def _send_due(self) -> None:
        while not self.exhausted:
            late_s = self._loop.time() - self._origin_s - self._arrival_s[self._sent]
            if late_s < 0:
                break
            number = self._sent
            self._sent += 1
            self.lateness_s[number] = late_s
            self._arrive(number, self._request_class[number], self._size[number])
        self._sleep()
