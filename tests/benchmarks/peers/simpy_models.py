"""Three queues in SimPy 4.1, written as its documentation writes them. No imports of ours.

Every function takes the number of requests and a seed, and returns the mean waiting time in s.
"""

import random
from collections.abc import Callable, Generator

import simpy

ALPHA_S, BETA_S, MAX_BATCH_SIZE = 0.002, 0.005, 8

Process = Generator[simpy.Event, object, None]


def mm1(requests: int, seed: int) -> float:
    """M/M/1 at load 0.9: mean service time 1 s."""
    generator = random.Random(seed)
    return _resource(requests, generator, 0.9, 1, lambda: generator.expovariate(1.0))


def md2(requests: int, seed: int) -> float:
    """M/D/2 at load 0.9: every service takes 1 s."""
    return _resource(requests, random.Random(seed), 1.8, 2, lambda: 1.0)


def _resource(
    requests: int,
    generator: random.Random,
    arrival_rate_rps: float,
    replicas: int,
    draw_service_s: Callable[[], float],
) -> float:
    """A process for each request, which asks a `Resource` for a replica."""
    env = simpy.Environment()
    replica = simpy.Resource(env, capacity=replicas)
    total_waiting_s = 0.0

    def request() -> Process:
        nonlocal total_waiting_s
        arrival_s = env.now
        with replica.request() as turn:
            yield turn
            total_waiting_s += env.now - arrival_s
            yield env.timeout(draw_service_s())

    def arrivals() -> Process:
        for _ in range(requests):
            yield env.timeout(generator.expovariate(arrival_rate_rps))
            env.process(request())

    env.process(arrivals())
    env.run()
    return total_waiting_s / requests


def batch(requests: int, seed: int) -> float:
    """Two replicas: an idle one takes what waits, up to 8, for 2 ms + 5 ms each; 300 requests/s.

    A `Store` of arrival times, from which the process of each replica gets.
    """
    generator = random.Random(seed)
    env = simpy.Environment()
    queue = simpy.Store(env)
    total_waiting_s = 0.0

    def replica() -> Process:
        nonlocal total_waiting_s
        while True:
            arrivals_s = [(yield queue.get())]
            while queue.items and len(arrivals_s) < MAX_BATCH_SIZE:
                arrivals_s.append((yield queue.get()))
            total_waiting_s += len(arrivals_s) * env.now - sum(arrivals_s)
            yield env.timeout(ALPHA_S + BETA_S * len(arrivals_s))

    def arrivals() -> Process:
        for _ in range(requests):
            yield env.timeout(generator.expovariate(300.0))
            queue.put(env.now)

    env.process(arrivals())
    env.process(replica())
    env.process(replica())
    env.run()  # until nothing is left to happen: both replicas wait for a request
    return total_waiting_s / requests
