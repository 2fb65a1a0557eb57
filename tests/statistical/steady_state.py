"""Lanes simulated side by side, cut to their steady state, as a mean and its standard error."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from simulator.conditions import SetPoints
from simulator.environment import Environment
from simulator.observation import Observation
from simulator.replica import Replica
from simulator.reward import Reward, reward_term_names
from simulator.scenario import DecisionKind, RequestClass, Scenario
from simulator.state import Recording
from simulator.workload import Arrivals, RecordedWorkload

NEVER_S = 1e9  # later than the end of every episode
DRAIN_S = 1e5
ONLY = (RequestClass("only", 1.0),)

Decide = Callable[[Observation, np.ndarray], np.ndarray]  # action mask [B, A] to actions [B]


class Span(NamedTuple):
    """How much is simulated: B independent lanes, and the requests of each that are measured."""

    lanes: int = 64
    measured: int = 15_625  # 64 * 15,625 = 1,000,000
    warmup: int = 2_000  # before them
    tail: int = 0  # after them, where later arrivals delay earlier ones

    @property
    def count(self) -> int:
        """Requests of a lane."""
        return self.warmup + self.measured + self.tail


class Records(NamedTuple):
    """The measured requests, in the order of arrival. B lanes, n requests of each."""

    request_class: np.ndarray  # [B, n]
    arrival_s: np.ndarray  # [B, n] s
    dispatch_s: np.ndarray  # [B, n] s, NaN where shed
    departure_s: np.ndarray  # [B, n] s, NaN where shed
    starts_batch: np.ndarray  # [B, n] bool, True for the first request of each batch; one replica
    arrival_rate_rps: float  # of the Poisson process that they were drawn from

    @property
    def waiting_s(self) -> np.ndarray:
        """Waiting times `[B, n]` s."""
        return self.dispatch_s - self.arrival_s

    @property
    def response_s(self) -> np.ndarray:
        """Response times `[B, n]` s."""
        return self.departure_s - self.arrival_s

    @property
    def gap_excess(self) -> np.ndarray:
        """By what share the mean gap of each lane `[B]` is longer than expected."""
        span_s = self.arrival_s[:, -1] - self.arrival_s[:, 0]
        return self.arrival_rate_rps * span_s / (self.arrival_s.shape[1] - 1) - 1.0


class Estimate(NamedTuple):
    """The mean of independent lanes and its standard error."""

    mean: float
    error: float


def poisson_arrivals(rate_rps: float, span: Span, generator: np.random.Generator) -> list[Arrivals]:
    """Poisson arrivals of one class and size 1, a fixed number in each lane."""
    return [
        Arrivals(
            np.cumsum(generator.exponential(1.0 / rate_rps, span.count)),
            np.zeros(span.count, np.int64),
            np.ones(span.count),
        )
        for _ in range(span.lanes)
    ]


def exponential_sizes(lanes: list[Arrivals], generator: np.random.Generator) -> list[Arrivals]:
    """The same arrivals with exponential sizes of mean 1."""
    return [
        arrivals._replace(size=generator.exponential(1.0, len(arrivals.size))) for arrivals in lanes
    ]


def engine_scenario(
    replica: Replica, replicas: int = 1, batch_timeout_s: float = 0.0, queue_capacity: int = 10_000
) -> Scenario:
    """Equal replicas that the rule inside the engine serves from one central FIFO queue.

    A replica takes up to `max_batch_size` once so many wait or `batch_timeout_s` has passed; no
    decision is ever due.
    """
    return Scenario(
        ONLY,
        (replica,) * replicas,
        batch_sizes=(1,),
        queue_capacity=queue_capacity,
        decision=DecisionKind.TUNE,
        set_points=SetPoints(max_batch_size=(replica.max_batch_size,)),
        batch_timeout_s=batch_timeout_s,
        control_interval_s=NEVER_S,
    )


def serving_rate_one() -> Replica:
    """A replica that serves one by one; a request of size 1 takes 1 s."""
    return Replica((0.0,), (1.0,), (0.0,), 1)


def simulate(
    scenario: Scenario,
    lanes: list[Arrivals],
    generator: np.random.Generator,
    decide: Decide | None = None,
) -> Environment:
    """An environment whose lanes have all ended, drained unless something waits for ever."""
    terms = len(reward_term_names(scenario.class_names))
    environment = Environment(
        scenario,
        [RecordedWorkload(arrivals) for arrivals in lanes],
        len(lanes),
        horizon_s=1.0 + max(float(arrivals.arrival_s[-1]) for arrivals in lanes),
        reward=Reward(np.zeros(terms)),
        generator=generator,
        drain_s=DRAIN_S,
        recording=Recording(requests=True),
    )
    observation, action_mask = environment.reset()
    while (running := environment.running()).any():
        assert decide is not None, "a decision is due, and nothing decides"
        action = np.where(running, decide(observation, action_mask), 0)
        observation, action_mask, *_ = environment.step(action)
    return environment


def measured(environment: Environment, span: Span, arrival_rate_rps: float) -> Records:
    """The records of the requests after the warm-up and before the tail."""
    records = environment.request_records()
    request_class, arrival_s, dispatch_s, departure_s = (
        column.reshape(span.lanes, span.count)
        for column in (
            records.request_class,
            records.arrival_s,
            records.dispatch_s,
            records.departure_s,
        )
    )
    starts_batch = np.ones(dispatch_s.shape, bool)
    starts_batch[:, 1:] = np.diff(dispatch_s, axis=1) != 0.0
    cut = slice(span.warmup, span.warmup + span.measured)
    return Records(
        request_class[:, cut],
        arrival_s[:, cut],
        dispatch_s[:, cut],
        departure_s[:, cut],
        starts_batch[:, cut],
        arrival_rate_rps,
    )


def estimate(lane_means: np.ndarray, gap_excess: np.ndarray) -> Estimate:
    """From the means `[B]` of independent lanes, and `Records.gap_excess [B]` of the same lanes.

    What a lane owes to gaps that happened to be longer or shorter than expected is taken out by
    regression on their excess, whose expectation is 0 (a control variate: Asmussen and Glynn,
    Stochastic Simulation, section V.2). At high load that is most of the error.
    """
    lanes = len(lane_means)
    slope = np.cov(lane_means, gap_excess)[0, 1] / gap_excess.var(ddof=1)
    rest = lane_means - slope * gap_excess
    return Estimate(float(rest.mean()), float(rest.std(ddof=2) / math.sqrt(lanes)))


def mean_where(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Mean of the chosen values of each lane `[B]`, from `[B, n]` and `[B, n]` bool."""
    return np.where(chosen, values, 0.0).sum(1) / chosen.sum(1)


def assert_agrees(claim: str, found: Estimate, theory: float, largest_error: float = 0.01) -> None:
    """The estimate is within three standard errors, of at most `largest_error` of the theory."""
    deviation = (found.mean - theory) / found.error
    print(
        f"{claim}: simulated {found.mean:.6g}, theory {theory:.6g}, "
        f"standard error {found.error:.2g} ({deviation:+.2f})"
    )
    assert found.error < largest_error * abs(theory), "the test would see too little"
    assert abs(deviation) < 3.0
