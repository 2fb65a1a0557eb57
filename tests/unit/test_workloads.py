"""What arrives: rates, phases, windows, and refused arrivals."""

import numpy as np
import pytest

from simulator.arrivals import square_phases
from simulator.workload import (
    Arrivals,
    PoissonWorkload,
    RecordedWorkload,
    SquareBurstWorkload,
    TraceWorkload,
    check_arrivals,
)


def generator() -> np.random.Generator:
    return np.random.default_rng(8)


def trace(instants: list[float]) -> Arrivals:
    count = len(instants)
    return Arrivals(np.array(instants), np.zeros(count, int), np.ones(count))


def test_poisson_arrivals_have_the_rate_of_each_class_and_poisson_gaps() -> None:
    horizon_s = 20_000.0
    arrival_s, request_class, _ = PoissonWorkload((3.0, 1.0)).draw(horizon_s, generator())
    for number, rate_rps in enumerate((3.0, 1.0)):
        count = (request_class == number).sum()
        assert abs(count - rate_rps * horizon_s) < 4 * np.sqrt(rate_rps * horizon_s)
    gaps_s = np.diff(arrival_s)
    assert gaps_s.std() / gaps_s.mean() == pytest.approx(1.0, abs=0.02)


def test_square_burst_is_silent_in_the_low_phase_and_starts_low() -> None:
    burst = SquareBurstWorkload((0.0,), (100.0,), low_s=5.0, high_s=5.0)
    arrival_s = burst.draw(20.0, generator()).arrival_s
    assert ((arrival_s % 10.0) >= 5.0).all()
    assert abs(len(arrival_s) - 1000) < 4 * np.sqrt(1000)


def test_square_phases_cover_the_horizon_without_gaps() -> None:
    phases = square_phases(2.0, 3.0, offset_s=4.0, horizon_s=9.0)
    assert phases == [
        (0.0, 1.0, True),
        (1.0, 3.0, False),
        (3.0, 6.0, True),
        (6.0, 8.0, False),
        (8.0, 9.0, True),
    ]


def test_a_recorded_workload_shows_the_same_requests_every_time() -> None:
    recorded = RecordedWorkload(trace([0.5, 1.0, 4.0]))
    first, second = recorded.draw(3.0, generator()), recorded.draw(3.0, generator())
    assert first.arrival_s.tolist() == second.arrival_s.tolist() == [0.5, 1.0]


def test_a_trace_window_holds_the_requests_of_a_span_of_the_trace() -> None:
    instants = np.arange(0.0, 100.0, 0.25)
    window = TraceWorkload(trace(instants.tolist()), span_s=100.0).draw(10.0, generator())
    assert len(window.arrival_s) == 40
    assert np.diff(window.arrival_s) == pytest.approx(0.25)


def test_rate_scale_compresses_time_and_keeps_the_shape() -> None:
    instants = np.arange(0.0, 100.0, 0.25)
    workload = TraceWorkload(trace(instants.tolist()), span_s=100.0, rate_scale=2.0)
    window = workload.draw(10.0, generator())
    assert len(window.arrival_s) == 80
    assert np.diff(window.arrival_s) == pytest.approx(0.125)
    assert window.arrival_s[-1] < 10.0


def test_an_episode_longer_than_the_trace_is_refused() -> None:
    workload = TraceWorkload(trace([1.0, 2.0]), span_s=5.0, rate_scale=2.0)
    with pytest.raises(ValueError, match=r"horizon_s = 3.0: an episode needs 6 s .* spans 5 s"):
        workload.draw(3.0, generator())


@pytest.mark.parametrize(
    ("arrivals", "message"),
    [
        (trace([2.0, 1.0]), "arrival_s: must be finite, at least 0, and ascending"),
        (trace([-1.0, 1.0]), "arrival_s: must be finite, at least 0"),
        (trace([1.0, np.nan]), "arrival_s: must be finite"),
        (trace([1.0])._replace(request_class=np.array([2])), r"request_class: must be in 0\.\.1"),
        (trace([1.0])._replace(size=np.array([0.0])), "size: must be finite and above 0"),
        (trace([1.0])._replace(size=np.ones(2)), "the lengths must be equal"),
    ],
)
def test_arrivals_that_cannot_have_happened_are_refused(arrivals: Arrivals, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_arrivals(arrivals, classes=2)


@pytest.mark.parametrize(
    "build",
    [
        lambda: PoissonWorkload(()),
        lambda: PoissonWorkload((-1.0,)),
        lambda: SquareBurstWorkload((0.0,), (1.0, 2.0), 1.0, 1.0),
        lambda: SquareBurstWorkload((0.0,), (1.0,), 0.0, 1.0),
        lambda: TraceWorkload(trace([1.0]), 5.0, rate_scale=0.0),
    ],
)
def test_impossible_workloads_are_refused(build) -> None:
    with pytest.raises(ValueError, match=r"_rps|_s = |rate_scale"):
        build()
