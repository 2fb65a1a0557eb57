"""Closed forms that the simulator is tested against. Rates per second, times in seconds."""


def _load(arrival_rate_rps: float, service_s: float) -> float:
    load = arrival_rate_rps * service_s
    if not 0.0 <= load < 1.0:
        raise ValueError(f"offered load = {load!r}: a steady state needs a load in [0, 1)")
    return load


def mm1_waiting_s(arrival_rate_rps: float, service_s: float) -> float:
    """Mean waiting time of M/M/1: `W_q = rho S / (1 - rho)` with `rho = lambda S`.

    Kleinrock, Queueing Systems I, section 3.2. Raises ValueError at a load of 1 or more.
    """
    load = _load(arrival_rate_rps, service_s)
    return load * service_s / (1.0 - load)


def mg1_waiting_s(arrival_rate_rps: float, service_s: float, service_cv: float) -> float:
    """Mean waiting time of M/G/1: `W_q = rho S (1 + cv^2) / (2 (1 - rho))`.

    Pollaczek and Khinchine; Kleinrock, Queueing Systems I, section 5.6. `service_cv` is the
    coefficient of variation of the service time. Raises ValueError at a load of 1 or more.
    """
    load = _load(arrival_rate_rps, service_s)
    return load * service_s * (1.0 + service_cv**2) / (2.0 * (1.0 - load))


def md1_waiting_s(arrival_rate_rps: float, service_s: float) -> float:
    """Mean waiting time of M/D/1: half of that of M/M/1 (M/G/1 without variation)."""
    return mg1_waiting_s(arrival_rate_rps, service_s, 0.0)
