"""The benchmark's scenario as an idiomatic SimPy model: K replicas, batches of at most b."""

import random

import simpy


def mean_response_s(
    requests: int,
    rate_rps: float,
    replicas: int,
    alpha_s: float,
    beta_s: float,
    cap: int,
    seed: int,
) -> float:
    """Mean response time of `requests` Poisson requests; an idle replica takes what waits, up to
    `cap`, at once."""
    generator, env = random.Random(seed), simpy.Environment()
    waiting: list[float] = []
    idle = list(range(replicas))[::-1]
    total_s = 0.0

    def serve(replica: int, batch: list[float]):
        nonlocal total_s
        yield env.timeout(alpha_s + beta_s * len(batch))
        total_s += env.now * len(batch) - sum(batch)
        idle.append(replica)
        dispatch()

    def dispatch() -> None:
        while idle and waiting:
            batch = waiting[:cap]
            del waiting[:cap]
            env.process(serve(idle.pop(), batch))

    def arrive():
        for _ in range(requests):
            yield env.timeout(generator.expovariate(rate_rps))
            waiting.append(env.now)
            dispatch()

    env.process(arrive())
    env.run()
    return total_s / requests
