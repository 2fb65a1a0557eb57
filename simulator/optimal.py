"""The best batch size for each number waiting: one replica, one request class, Poisson arrivals.

A semi-Markov decision process after arXiv 2301.12865 (section 2b of the project's notes on serving
systems), solved by relative value iteration, and the exact cost of any policy given as a table.
A decision is due when the replica is idle: after each completion, and after an arrival that finds
it idle. With n waiting the policy waits for the next arrival (batch size 0) or dispatches b of
them, which takes `alpha_s + beta_s b` and `energy_alpha_j + energy_beta_j b`.
"""

import math
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from simulator.batch_theory import poisson_probabilities, stationary_probabilities
from simulator.checks import check

ITERATION_LIMIT = 500_000
OVERFLOW_SHARE = 1e-9


@dataclass(frozen=True)
class BatchingProblem:
    """What is minimized: `response_weight` * mean response time + `power_weight` * mean power.

    States 0..`state_limit` are requests waiting; one more state, the overflow, stands for all
    above. It is treated as `state_limit`, and costs `overflow_cost` per second on top.
    """

    arrival_rate_rps: float
    alpha_s: float
    beta_s: float
    energy_alpha_j: float  # J per batch
    energy_beta_j: float  # J per request
    response_weight: float  # cost per second
    power_weight: float  # cost per watt
    max_batch_size: int
    state_limit: int = 200
    overflow_cost: float = 100.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            check(
                math.isfinite(value) and value >= 0, field.name, value, "must be finite, at least 0"
            )
        check(
            self.arrival_rate_rps > 0, "arrival_rate_rps", self.arrival_rate_rps, "must be above 0"
        )
        check(self.alpha_s + self.beta_s > 0, "alpha_s + beta_s", 0.0, "a batch takes some time")
        check(self.max_batch_size >= 1, "max_batch_size", self.max_batch_size, "must be at least 1")
        check(
            self.state_limit >= self.max_batch_size,
            "state_limit",
            self.state_limit,
            "must be at least max_batch_size",
        )
        latency_s = self.alpha_s + self.beta_s * self.max_batch_size
        load = self.arrival_rate_rps * latency_s / self.max_batch_size
        check(load < 1.0, "offered load", load, "a steady state needs a load below 1")


class PolicyCost(NamedTuple):
    """What a policy costs in the long run."""

    average_cost: float  # overflow_cost included
    response_s: float  # mean
    power_w: float  # mean


class OptimalBatching(NamedTuple):
    """The best policy of a `BatchingProblem`."""

    average_cost: float
    batch_sizes: np.ndarray  # [state_limit + 1] by the number waiting; 0 = wait
    control_limit: int  # the least number waiting at which a batch is dispatched
    relative_values: np.ndarray  # [state_limit + 2] cost * s against an empty system
    iterations: int
    response_s: float
    power_w: float


class _Model(NamedTuple):
    """The process as arrays: A = max_batch_size + 1 batch sizes, S = state_limit + 2 states."""

    number: np.ndarray  # [S] requests waiting
    holding_s: np.ndarray  # [A, S]
    in_system_s: np.ndarray  # [A, S] integral of the number in system over the holding time
    energy_j: np.ndarray  # [A]
    cost_rate: np.ndarray  # [A, S] per second of holding time; infinite where not allowed
    arrived: np.ndarray  # [A - 1, S] probability of k arrivals during a batch of 1, 2, ...
    kept: np.ndarray  # [A - 1, S] requests that such a batch leaves waiting


def _model(problem: BatchingProblem) -> _Model:
    rate_rps = problem.arrival_rate_rps
    size = np.arange(problem.max_batch_size + 1)[:, None]
    number = np.minimum(np.arange(problem.state_limit + 2), problem.state_limit)
    latency_s = problem.alpha_s + problem.beta_s * size
    holding_s = np.where(size == 0, 1.0 / rate_rps, latency_s) * np.ones(len(number))
    # Those there at the start stay throughout; an arrival during a batch, half of it on average.
    joined = np.where(size == 0, 0.0, rate_rps * latency_s / 2.0)
    in_system_s = holding_s * (number + joined)
    energy_j = np.where(size == 0, 0.0, problem.energy_alpha_j + problem.energy_beta_j * size)
    cost_rate = problem.response_weight / rate_rps * in_system_s + problem.power_weight * energy_j
    cost_rate /= holding_s
    cost_rate[:, -1] += problem.overflow_cost
    arrived = poisson_probabilities(rate_rps * latency_s[1:, 0], len(number))
    arrived[:, -1] = 1.0 - arrived[:, :-1].sum(1)  # so many or more: the overflow, from any state
    return _Model(
        number,
        holding_s,
        in_system_s,
        energy_j[:, 0],
        np.where(size <= number, cost_rate, np.inf),
        arrived,
        np.maximum(number - size[1:], 0),
    )


def _expected_values(model: _Model, value: np.ndarray) -> np.ndarray:
    """Mean value `[A, S]` of the next state; where a batch size is not allowed, of no meaning."""
    states = len(value)
    padded = np.concatenate([value, np.full(states - 1, value[-1])])
    windows = np.lib.stride_tricks.sliding_window_view(padded, states)
    after = model.arrived @ windows.T  # [A - 1, S] by what the batch left waiting
    waited = np.append(value[1:], value[-1])
    return np.vstack([waited, np.take_along_axis(after, model.kept, axis=1)])


class _Iterated(NamedTuple):
    average_cost: float
    batch_sizes: np.ndarray  # [S]
    relative_values: np.ndarray  # [S]
    iterations: int


def _iterate(model: _Model, tolerance: float) -> _Iterated:
    # eta below min y satisfies eta < min y / (1 - p_ss) for every action, and leaves no period.
    eta_s = 0.999 * float(model.holding_s.min())
    share = eta_s / model.holding_s
    value = np.zeros(len(model.number))
    for iteration in range(1, ITERATION_LIMIT + 1):
        action_value = model.cost_rate + share * _expected_values(model, value)
        action_value += (1.0 - share) * value
        best = action_value.min(0)
        change = best - value
        value = best - best[0]
        if np.ptp(change) < tolerance:
            average_cost = 0.5 * float(change.min() + change.max())
            return _Iterated(average_cost, action_value.argmin(0), eta_s * value, iteration)
    raise RuntimeError(f"no span below {tolerance!r} in {ITERATION_LIMIT} iterations")


def solve(problem: BatchingProblem, tolerance: float = 1e-7) -> OptimalBatching:
    """The policy of least average cost, by relative value iteration to a span of `tolerance`.

    The process with holding times y becomes a chain with unit steps (data transformation; Tijms,
    A First Course in Stochastic Models, section 7.1): the cost of a step is c / y, and with
    probability eta / y, eta < min y, it is a step of the process, else none. `average_cost` is
    within `tolerance` of the least, in units of the weights; the smallest of equally good batch
    sizes is taken. Response time and power are exact, as in `evaluate`.

    Raises ValueError where the truncation matters: where the policy would not dispatch at
    `state_limit`, or spends more than 1e-9 of its time in the overflow. Raises RuntimeError after
    500,000 iterations.
    """
    check(tolerance > 0, "tolerance", tolerance, "must be above 0")
    iterated = _iterate(_model(problem), tolerance)
    batch_sizes = iterated.batch_sizes[:-1]
    policy_cost = evaluate(problem, batch_sizes)
    return OptimalBatching(
        average_cost=iterated.average_cost,
        batch_sizes=batch_sizes,
        control_limit=int(np.flatnonzero(batch_sizes)[0]),
        relative_values=iterated.relative_values,
        iterations=iterated.iterations,
        response_s=policy_cost.response_s,
        power_w=policy_cost.power_w,
    )


def evaluate(problem: BatchingProblem, batch_sizes: np.ndarray) -> PolicyCost:
    """Exact long-run cost of the policy `batch_sizes`, `[state_limit + 1]` by the number waiting.

    From the stationary law p of its chain of decision epochs: `sum p c / sum p y`; the response
    time by Little's law. Raises ValueError at a batch size above the number waiting or above
    `max_batch_size`, at a policy that waits at `state_limit`, or spends more than 1e-9 of its time
    in the overflow: then it is unstable, or `state_limit` too small.
    """
    table = np.asarray(batch_sizes)
    states = problem.state_limit + 2
    check(table.shape == (states - 1,), "batch_sizes", table.shape, f"needs [{states - 1}] sizes")
    check(table.dtype.kind in "iu", "batch_sizes", str(table.dtype), "must be whole numbers")
    largest = np.minimum(np.arange(states - 1), problem.max_batch_size)
    wrong = np.flatnonzero((table < 0) | (table > largest))
    check(
        wrong.size == 0,
        f"batch_sizes with {wrong.tolist()} waiting",
        table[wrong].tolist(),
        "must be at least 0, at most the number waiting and max_batch_size",
    )
    check(table[-1] > 0, "batch_sizes[-1]", int(table[-1]), "must not wait at state_limit")
    model = _model(problem)
    size = np.append(table, table[-1])
    probability = stationary_probabilities(_policy_chain(model, size))
    every = np.arange(states)
    time_s = probability * model.holding_s[size, every]
    share = time_s / time_s.sum()
    check(
        share[-1] <= OVERFLOW_SHARE,
        "state_limit",
        problem.state_limit,
        f"too small, or the policy unstable: {share[-1]:.1e} of the time lies above it",
    )
    number_in_system = (probability @ model.in_system_s[size, every]) / time_s.sum()
    return PolicyCost(
        average_cost=float(share @ model.cost_rate[size, every]),
        response_s=float(number_in_system) / problem.arrival_rate_rps,
        power_w=float(probability @ model.energy_j[size] / time_s.sum()),
    )


def _policy_chain(model: _Model, size: np.ndarray) -> np.ndarray:
    states = len(size)
    transition = np.zeros((states, states))
    for state, taken in enumerate(size):
        if taken == 0:
            transition[state, state + 1] = 1.0
            continue
        kept = model.kept[taken - 1, state]
        transition[state, kept:] = model.arrived[taken - 1, : states - kept]
        transition[state, -1] = 1.0 - transition[state, :-1].sum()
    return transition
