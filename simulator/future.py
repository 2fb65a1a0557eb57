"""What an episode will meet, drawn first: arrivals, noise, delays, cold starts, faults."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from simulator.checks import check
from simulator.noise import draw_noise
from simulator.scenario import Scenario
from simulator.state import COLD_STARTS
from simulator.workload import Arrivals, Workload, check_arrivals


class Streams(NamedTuple):
    """The random streams of a lane, one for each purpose."""

    arrivals: np.random.Generator
    noise: np.random.Generator
    delay: np.random.Generator
    cold_starts: np.random.Generator
    faults: np.random.Generator


class Future(NamedTuple):
    """Everything that chance decides in an episode. Empty arrays where a feature is off."""

    arrivals: Arrivals
    noise_z: np.ndarray  # [R] standard normal
    delay_s: np.ndarray  # [R] s
    cold_start_s: np.ndarray  # [K, COLD_STARTS] s
    fault_s: np.ndarray  # [K, F] s, start and end in turn, infinite after the last


def spawn_streams(
    generator: np.random.Generator | Sequence[np.random.Generator], lanes: int
) -> list[Streams]:
    """Streams for each lane: its n-th episode meets the same future whatever a policy does.

    With one generator for each lane, a lane meets the same alone and beside others.
    """
    if not isinstance(generator, np.random.Generator):
        return [spawn_streams(of_lane, 1)[0] for of_lane in generator]
    purposes = [*generator.spawn(2), *generator.spawn(3)]
    return [Streams(*streams) for streams in zip(*(p.spawn(lanes) for p in purposes), strict=True)]


def draw_future(
    scenario: Scenario, workload: Workload, horizon_s: float, drain_s: float, streams: Streams
) -> Future:
    """The future of one episode whose arrivals end at `horizon_s`.

    Raises ValueError for arrivals that could not have happened, or that no replica can serve.
    """
    arrivals = workload.draw(horizon_s, streams.arrivals)
    check_arrivals(arrivals, len(scenario.request_classes))
    _check_fit(scenario, arrivals)
    count, nothing = len(arrivals.arrival_s), np.zeros(0)
    noise_z, delay_s = nothing, nothing
    if scenario.has_noise:
        share, time_s = scenario.spell_share, scenario.spell_time_s
        path = scenario.noise_path
        noise_z = draw_noise(arrivals.arrival_s, share, time_s, streams.noise, path)
    delay = scenario.dispatch_delay
    if delay.exists:
        delay_s = delay.constant_s + _lognormal(delay.mean_s, delay.cv, (count,), streams.delay)
    cold_start_s = np.zeros((len(scenario.replicas), 0))
    if scenario.may_start_replicas:
        shape, scaling = (len(scenario.replicas), COLD_STARTS), scenario.scaling
        cold_start_s = _lognormal(
            scaling.cold_start_s, scaling.cold_start_cv, shape, streams.cold_starts
        )
    faults = draw_faults(scenario, horizon_s + drain_s, streams.faults)
    return Future(arrivals, noise_z, delay_s, cold_start_s, faults)


def _lognormal(
    mean: float, cv: float, shape: tuple[int, ...], generator: np.random.Generator
) -> np.ndarray:
    """Lognormal draws of that mean and coefficient of variation; constant where cv is 0."""
    variance = math.log1p(cv * cv)
    normal = generator.standard_normal(shape) if cv > 0 and mean > 0 else np.zeros(shape)
    return np.asarray(mean * np.exp(math.sqrt(variance) * normal - 0.5 * variance))


def draw_faults(scenario: Scenario, horizon_s: float, generator: np.random.Generator) -> np.ndarray:
    """`[K, F]` s: starts and ends of the faults of each replica in turn, infinite after the last.

    A random fault that would touch a scripted one is dropped.
    """
    if not scenario.has_faults:
        return np.zeros((len(scenario.replicas), 0))
    rows = []
    for replica in range(len(scenario.replicas)):
        scripted = [
            (fault.start_s, fault.start_s + fault.duration_s)
            for fault in scenario.faults.scripted
            if fault.replica == replica
        ]
        spans = scripted + [
            (start_s, end_s)
            for start_s, end_s in _random_faults(scenario, horizon_s, generator)
            if all(end_s < other[0] or start_s > other[1] for other in scripted)
        ]
        rows.append([boundary_s for span in sorted(spans) for boundary_s in span])
    faults = np.full((len(rows), max(map(len, rows))), np.inf)
    for replica, row in enumerate(rows):
        faults[replica, : len(row)] = row
    return faults


def _random_faults(
    scenario: Scenario, horizon_s: float, generator: np.random.Generator
) -> list[tuple[float, float]]:
    """Faults of one replica up to the horizon: exponential times up, exponential repairs."""
    faults: list[tuple[float, float]] = []
    if not math.isfinite(scenario.faults.mean_time_between_s):
        return faults
    clock_s = generator.exponential(scenario.faults.mean_time_between_s)
    while clock_s < horizon_s:
        end_s = clock_s + generator.exponential(scenario.faults.repair_s)
        faults.append((clock_s, end_s))
        clock_s = end_s + generator.exponential(scenario.faults.mean_time_between_s)
    return faults


def _check_fit(scenario: Scenario, arrivals: Arrivals) -> None:
    """Raises ValueError for a request that no replica has the memory for."""
    if scenario.continuous:
        _check_tokens(scenario, arrivals)
        return
    for number, replica in enumerate(scenario.replicas):
        if not replica.request_memory_gib or math.isinf(replica.memory_gib):
            continue
        needed_gib = np.array(replica.request_memory_gib)[arrivals.request_class] * arrivals.size
        if len(needed_gib) and needed_gib.max() > replica.memory_gib:
            request = int(needed_gib.argmax())
            raise ValueError(
                f"size = {arrivals.size[request]!r} of request {request}: needs "
                f"{needed_gib[request]:g} GiB, more than replicas[{number}].memory_gib = "
                f"{replica.memory_gib}"
            )


def _check_tokens(scenario: Scenario, arrivals: Arrivals) -> None:
    for field in ("prompt_tokens", "output_tokens"):
        tokens = len(getattr(arrivals, field))
        rule = f"continuous batching needs one for each of {len(arrivals.arrival_s)} requests"
        check(tokens == len(arrivals.arrival_s), f"length of {field}", tokens, rule)
    capacity = min(r.tokens.kv_capacity_tokens for r in scenario.replicas if r.tokens is not None)
    needed = arrivals.prompt_tokens + arrivals.output_tokens
    if len(needed) and needed.max() > capacity:
        request = int(needed.argmax())
        raise ValueError(
            f"prompt_tokens + output_tokens = {needed[request]} of request {request}: "
            f"must be at most kv_capacity_tokens, which is {capacity}"
        )
