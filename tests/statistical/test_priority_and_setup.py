"""Priorities that never interrupt a service, and a replica that is off whenever it is empty."""

import math

import numpy as np
import pytest

from simulator.conditions import Autoscaler, Scaling
from simulator.policies.dispatch.c_mu import CMu
from simulator.queueing_theory import mg1_cold_start_waiting_s, mg1_priority_waiting_s
from simulator.replica import Replica
from simulator.scenario import RequestClass, Scenario
from simulator.workload import Arrivals
from tests.statistical.steady_state import (
    NEVER_S,
    ONLY,
    Records,
    Span,
    assert_agrees,
    estimate,
    exponential_sizes,
    mean_where,
    measured,
    poisson_arrivals,
    serving_rate_one,
    simulate,
)

pytestmark = pytest.mark.slow

# By class, the first goes first: rate, mean service time, cv of a Gamma service time.
Class = tuple[float, float, float]
TWO: tuple[Class, ...] = ((0.5, 0.6, 1.0), (0.4, 1.2, 0.5))
THREE: tuple[Class, ...] = ((0.3, 1.0, 0.5), (0.8, 0.25, 1.0), (0.15, 2.0, 1.5))


def class_arrivals(
    classes: tuple[Class, ...], span: Span, generator: np.random.Generator
) -> list[Arrivals]:
    """Poisson arrivals of all classes, with Gamma sizes."""
    rate_rps, mean_s, cv = np.array(classes).T
    lanes = []
    for arrivals in poisson_arrivals(float(rate_rps.sum()), span, generator):
        number = generator.choice(len(classes), span.count, p=rate_rps / rate_rps.sum())
        shape = 1.0 / cv[number] ** 2
        size = generator.gamma(shape, mean_s[number] / shape)
        lanes.append(arrivals._replace(request_class=number, size=size))
    return lanes


@pytest.mark.parametrize("classes", [TWO, THREE])
def test_each_class_waits_as_cobham_says_when_the_highest_goes_first(
    classes: tuple[Class, ...],
) -> None:
    span = Span(lanes=160, measured=5_500, warmup=1_500, tail=500)
    generator = np.random.default_rng(51)
    count = len(classes)
    replica = Replica((0.0,) * count, (1.0,) * count, (0.0,) * count, 1)
    scenario = Scenario(
        tuple(RequestClass(f"class {k}", 1.0, weight=float(count - k)) for k in range(count)),
        (replica,),
        batch_sizes=(1,),
        queue_capacity=10_000,
    )
    policy = CMu(scenario, batch_size=1)
    environment = simulate(
        scenario,
        class_arrivals(classes, span, generator),
        generator,
        lambda observation, mask: policy.action_probabilities(observation, mask).argmax(1),
    )
    rate_rps = sum(rate for rate, _, _ in classes)
    records = measured(environment, span, rate_rps)
    for number, theory_s in enumerate(mg1_priority_waiting_s(*np.array(classes).T)):
        waiting_s = mean_where(records.waiting_s, records.request_class == number)
        found = estimate(waiting_s, records.gap_excess)
        assert_agrees(f"class {number} of {count} waiting", found, theory_s, 0.03)


# The autoscaler switches an empty replica off at the first multiple of its interval: D after the
# last departure, D uniform on the interval. An arrival before that finds the replica on; it comes
# later with probability p = E exp(-lambda D). So the cold start of the closed form is U with
# probability p and else 0, of which the moments are p E[U] and p E[U^2].
LOAD, COLD_START_S = 0.5, 3.0


def cold_start_theory_s(interval_s: float, mean_s: float, second_moment_s2: float) -> float:
    """Mean waiting time of M/M/1 at LOAD with cold starts U of these moments."""
    exponent = LOAD * interval_s
    share = -math.expm1(-exponent) / exponent  # p
    cv = math.sqrt(max(second_moment_s2 / (share * mean_s**2) - 1.0, 0.0))
    return mg1_cold_start_waiting_s(LOAD, 1.0, 1.0, share * mean_s, cv)


def simulate_cold_starts(
    cold_start_cv: float, interval_s: float, span: Span, seed: int
) -> tuple[Records, np.ndarray]:
    """The measured requests, and the mean waiting time `[B]` s that theory gives each lane.

    A lane draws 32 cold starts and takes them in turn: its law is that of these 32, each as likely.
    """
    generator = np.random.default_rng(seed)
    lanes = exponential_sizes(poisson_arrivals(LOAD, span, generator), generator)
    scenario = Scenario(
        ONLY,
        (serving_rate_one(),),
        batch_sizes=(1,),
        queue_capacity=10_000,
        tick_s=NEVER_S,
        control_interval_s=interval_s,
        scaling=Scaling(COLD_START_S, cold_start_cv, 0, Autoscaler(1e6, keep_warm_replicas=0)),
    )
    environment = simulate(
        scenario, lanes, generator, lambda observation, mask: np.ones(span.lanes, int)
    )
    drawn_s = environment.state.cold_start_s[:, 0]
    theory_s = [
        cold_start_theory_s(interval_s, mean_s, square_s2)
        for mean_s, square_s2 in zip(drawn_s.mean(1), (drawn_s**2).mean(1), strict=True)
    ]
    return measured(environment, span, LOAD), np.array(theory_s)


@pytest.mark.parametrize("interval_s", [0.5, 0.1])
@pytest.mark.parametrize("cold_start_cv", [0.0, 1.0])
def test_waiting_with_cold_starts_is_that_of_welch_for_an_autoscaler_that_soon_switches_off(
    cold_start_cv: float, interval_s: float
) -> None:
    span = Span(lanes=160, measured=6_000, warmup=500)
    records, lane_theory_s = simulate_cold_starts(cold_start_cv, interval_s, span, seed=52)
    theory_s = cold_start_theory_s(
        interval_s, COLD_START_S, COLD_START_S**2 * (1 + cold_start_cv**2)
    )
    found = estimate(records.waiting_s.mean(1) - lane_theory_s, records.gap_excess)
    shifted = found._replace(mean=theory_s + found.mean)
    assert_agrees(f"cold start cv {cold_start_cv}, every {interval_s} s", shifted, theory_s)


def test_waiting_with_a_cold_start_at_every_idle_time_is_that_of_welch() -> None:
    interval_s = 0.01
    span = Span(lanes=160, measured=3_000, warmup=500)
    records, _ = simulate_cold_starts(0.0, interval_s, span, seed=53)
    theory_s = mg1_cold_start_waiting_s(LOAD, 1.0, 1.0, COLD_START_S, 0.0)
    found = estimate(records.waiting_s.mean(1), records.gap_excess)
    at_interval_s = cold_start_theory_s(interval_s, COLD_START_S, COLD_START_S**2)
    assert abs(theory_s - at_interval_s) < 0.3 * found.error  # so few find the replica still on
    assert_agrees("cold start at every idle time", found, theory_s)
