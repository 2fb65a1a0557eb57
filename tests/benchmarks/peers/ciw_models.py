"""Two queues in Ciw 3.2, natively. No imports of ours.

Every function takes the number of requests and a seed, and returns the mean waiting time in s.
Ciw offers batch arrivals but no batch service (CiwPython/Ciw issues 126, 168 and 239), so the
third queue is missing.
"""

import ciw


def mm1(requests: int, seed: int) -> float:
    """M/M/1 at load 0.9: mean service time 1 s."""
    return _queue(requests, seed, 0.9, 1, ciw.dists.Exponential(rate=1.0))


def md2(requests: int, seed: int) -> float:
    """M/D/2 at load 0.9: every service takes 1 s."""
    return _queue(requests, seed, 1.8, 2, ciw.dists.Deterministic(value=1.0))


def _queue(
    requests: int,
    seed: int,
    arrival_rate_rps: float,
    replicas: int,
    service: ciw.dists.Distribution,
) -> float:
    """A network of one node, run until `requests` requests have left it."""
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(rate=arrival_rate_rps)],
        service_distributions=[service],
        number_of_servers=[replicas],
    )
    ciw.seed(seed)
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_customers(requests, method="Finish")
    records = simulation.get_all_records()
    return sum(record.waiting_time for record in records) / len(records)
