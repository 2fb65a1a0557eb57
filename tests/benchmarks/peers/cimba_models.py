"""Three queues in cimba 0.9, as compiled processes. No imports of ours.

Every function takes the number of requests and a seed, and returns the mean waiting time in s.
The first call of each compiles its model, which takes about a second.
"""

import cimba
import numpy as np
from cimba import inputs

ALPHA_S, BETA_S, MAX_BATCH_SIZE = 0.002, 0.005, 8

# cimba keeps the history of every queue while its window is open, which slows it by 7 to 25 %. The
# models below add up waiting times themselves, so the window opens when all is over.
UNRECORDED = cimba.Window(warmup=1e15, duration=1.0)


class Station(cimba.Model):
    """A stream of requests, and a store of their arrival times."""

    requests: cimba.Param[int]
    interarrival_s: cimba.Input[float]
    queue: cimba.Store[float]
    waiting_s: float = 0.0
    total_waiting_s: cimba.Output[float]

    @cimba.process
    def arrivals(self):
        for _ in range(self.requests):
            cimba.hold(self.interarrival_s.next())
            self.queue.put(cimba.now())

    @cimba.on_end
    def report(self):
        self.total_waiting_s = self.waiting_s


class ExponentialReplica(Station):
    """One replica whose service times are exponential of mean 1 s."""

    service_s: cimba.Input[float] = inputs.dist.exponential(mean=1.0)

    @cimba.process
    def replica(self):
        while True:
            arrival_s = self.queue.get()
            self.waiting_s += cimba.now() - arrival_s
            cimba.hold(self.service_s.next())


class TwoConstantReplicas(Station):
    """Two replicas whose service times are 1 s."""

    @cimba.process(copies=2)
    def replica(self):
        while True:
            arrival_s = self.queue.get()
            self.waiting_s += cimba.now() - arrival_s
            cimba.hold(1.0)


class TwoBatchReplicas(cimba.Model):
    """A counted queue, from which either of two replicas takes several requests at once.

    The sum of waiting times is that of dispatch times less that of arrival times.
    """

    requests: cimba.Param[int]
    interarrival_s: cimba.Input[float]
    queue: cimba.Container
    waiting_s: float = 0.0
    total_waiting_s: cimba.Output[float]

    @cimba.process
    def arrivals(self):
        for _ in range(self.requests):
            cimba.hold(self.interarrival_s.next())
            self.waiting_s -= cimba.now()
            self.queue.put(1)

    @cimba.process(copies=2)
    def replica(self):
        while True:
            self.queue.get(1)
            # The level is unsigned, and Numba's least of a signed and an unsigned is a float.
            others = min(MAX_BATCH_SIZE - 1, np.int64(self.queue.level()))
            if others > 0:
                self.queue.get(others)
            self.waiting_s += (1 + others) * cimba.now()
            cimba.hold(ALPHA_S + BETA_S * (1 + others))

    @cimba.on_end
    def report(self):
        self.total_waiting_s = self.waiting_s


def mm1(requests: int, seed: int) -> float:
    """M/M/1 at load 0.9: mean service time 1 s."""
    return _mean_waiting_s(ExponentialReplica(), 0.9, requests, seed)


def md2(requests: int, seed: int) -> float:
    """M/D/2 at load 0.9: every service takes 1 s."""
    return _mean_waiting_s(TwoConstantReplicas(), 1.8, requests, seed)


def batch(requests: int, seed: int) -> float:
    """Two replicas: an idle one takes what waits, up to 8, for 2 ms + 5 ms each; 300 requests/s."""
    return _mean_waiting_s(TwoBatchReplicas(), 300.0, requests, seed)


def _mean_waiting_s(model: cimba.Model, arrival_rate_rps: float, requests: int, seed: int) -> float:
    """One trial of the model on this core, until its last request is served."""
    model.requests = requests
    model.interarrival_s = inputs.dist.exponential(mean=1.0 / arrival_rate_rps)
    experiment = cimba.Experiment(model, window=UNRECORDED, seed=seed)
    results = experiment.run(workers=1, on_failure="raise")
    return float(np.ravel(results[model].total_waiting_s)[0]) / requests
