"""Recorded arrivals: windows, scaled traces, and arrivals that are refused."""

import numpy as np
import pytest

from simulator.workload import Arrivals, RecordedWorkload, TraceWorkload, check_arrivals


def generator() -> np.random.Generator:
    return np.random.default_rng(8)


def trace(instants: list[float]) -> Arrivals:
    count = len(instants)
    return Arrivals(np.array(instants), np.zeros(count, int), np.ones(count))


def with_tokens(instants: list[float], prompt: list[float], output: list[float]) -> Arrivals:
    return trace(instants)._replace(prompt_tokens=np.array(prompt), output_tokens=np.array(output))


def bursty_trace(span_s: float) -> Arrivals:
    gaps_s = generator().lognormal(-2.0, 1.5, 5000)
    arrival_s = np.cumsum(gaps_s)
    return trace((arrival_s * 0.99 * span_s / arrival_s[-1]).tolist())


def cv(arrival_s: np.ndarray) -> float:
    gaps_s = np.diff(arrival_s)
    return gaps_s.std() / gaps_s.mean()


def test_requests_have_no_tokens_unless_they_are_given() -> None:
    arrivals = trace([0.5, 1.0])
    for tokens in (arrivals.prompt_tokens, arrivals.output_tokens):
        assert (tokens.shape, tokens.dtype) == ((0,), np.int64)
        assert not tokens.flags.writeable


def test_a_window_counts_from_its_start_and_carries_every_column() -> None:
    arrivals = Arrivals(
        np.array([0.5, 1.0, 2.5, 4.0]),
        np.array([0, 1, 2, 3]),
        np.array([1.0, 2.0, 3.0, 4.0]),
        np.array([10, 20, 30, 40]),
        np.array([5, 6, 7, 8]),
    )
    columns = [column.tolist() for column in arrivals.window(1.0, 4.0)]
    assert columns == [[0.0, 1.5], [1, 2], [2.0, 3.0], [20, 30], [6, 7]]


def test_a_window_of_requests_without_tokens_has_none() -> None:
    window = trace([0.5, 1.0, 2.5]).window(0.75, 3.0)
    assert window.arrival_s.tolist() == [0.25, 1.75]
    assert len(window.prompt_tokens) == len(window.output_tokens) == 0


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


def test_a_trace_keeps_its_tokens_when_scaled() -> None:
    recorded = with_tokens([1.0, 2.0, 3.0], [10, 20, 30], [4, 5, 6])
    window = TraceWorkload(recorded, span_s=4.0, rate_scale=4.0).draw(1.0, generator())
    assert window.arrival_s.tolist() == [0.25, 0.5, 0.75]
    assert window.prompt_tokens.tolist() == [10, 20, 30]
    assert window.output_tokens.tolist() == [4, 5, 6]


def test_rescaling_reports_the_factor_and_the_rate_that_it_gives() -> None:
    workload = TraceWorkload(trace([1.0, 2.0, 3.0]), span_s=6.0, rate_scale=5.0)  # 2.5 req/s
    rescaled = workload.rescaled_to(2.0)
    assert workload.rate_rps == pytest.approx(2.5)
    assert rescaled.rate_scale == pytest.approx(4.0)  # 0.5 req/s of the trace, four times as fast
    assert rescaled.rate_rps == pytest.approx(2.0)
    assert (rescaled.arrivals, rescaled.span_s) == (workload.arrivals, 6.0)


def test_rescaling_keeps_the_cv_of_the_gaps_and_changes_their_mean() -> None:
    workload = TraceWorkload(bursty_trace(1000.0), span_s=1000.0)  # 5 req/s
    as_recorded = workload.draw(800.0, generator()).arrival_s
    faster = workload.rescaled_to(40.0).draw(100.0, generator()).arrival_s  # the same window
    assert len(faster) == len(as_recorded)
    assert np.diff(faster) == pytest.approx(np.diff(as_recorded) / 8.0)
    assert cv(faster) == pytest.approx(cv(as_recorded))
    assert cv(faster) > 2.0


def test_an_episode_longer_than_the_trace_is_refused() -> None:
    workload = TraceWorkload(trace([1.0, 2.0]), span_s=5.0, rate_scale=2.0)
    with pytest.raises(ValueError, match=r"horizon_s = 3.0: an episode needs 6 s .* spans 5 s"):
        workload.draw(3.0, generator())


def test_a_trace_without_requests_cannot_be_rescaled() -> None:
    with pytest.raises(ValueError, match=r"len\(arrival_s\) = 0: a trace without requests"):
        TraceWorkload(trace([]), span_s=5.0).rescaled_to(1.0)


@pytest.mark.parametrize("rate_rps", [0.0, -1.0, np.nan, np.inf])
def test_rescaling_to_an_impossible_rate_is_refused(rate_rps: float) -> None:
    with pytest.raises(ValueError, match=r"rate_rps = .*: must be positive and finite"):
        TraceWorkload(trace([1.0]), span_s=5.0).rescaled_to(rate_rps)


@pytest.mark.parametrize(
    ("span_s", "rate_scale", "message"),
    [
        (5.0, 0.0, "rate_scale = 0.0: must be positive and finite"),
        (5.0, np.inf, "rate_scale = inf: must be positive and finite"),
        (0.0, 1.0, "span_s = 0.0: must be positive and finite"),
    ],
)
def test_an_impossible_trace_is_refused(span_s: float, rate_scale: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TraceWorkload(trace([1.0]), span_s, rate_scale)


@pytest.mark.parametrize(
    "arrivals",
    [
        trace([]),
        trace([0.0, 1.0, 1.0])._replace(request_class=np.array([0, 1, 0])),
        with_tokens([1.0, 2.0], [1, 900], [1, 7]),
    ],
)
def test_possible_arrivals_are_accepted(arrivals: Arrivals) -> None:
    check_arrivals(arrivals, classes=2)


@pytest.mark.parametrize(
    ("arrivals", "message"),
    [
        (trace([2.0, 1.0]), r"arrival_s\[1\] = 1.0: must be ascending, after arrival_s\[0\] = 2.0"),
        (trace([-1.0, 1.0]), r"arrival_s\[0\] = -1.0: must be finite and at least 0"),
        (trace([1.0, np.nan]), r"arrival_s\[1\] = nan: must be finite"),
        (trace([1.0, np.inf]), r"arrival_s\[1\] = inf: must be finite"),
        (
            trace([1.0, 2.0])._replace(request_class=np.array([1, 2])),
            r"request_class\[1\] = 2: must be a whole number in 0\.\.1",
        ),
        (trace([1.0])._replace(request_class=np.array([-1])), r"request_class\[0\] = -1: must be"),
        (trace([1.0])._replace(request_class=np.array([0.5])), r"request_class\[0\] = 0.5: must"),
        (
            trace([1.0, 2.0])._replace(size=np.array([1.0, 0.0])),
            r"size\[1\] = 0.0: must be finite and above 0",
        ),
        (trace([1.0])._replace(size=np.array([np.inf])), r"size\[0\] = inf: must be finite"),
        (trace([1.0])._replace(size=np.ones(2)), r"len\(size\) = 2: the lengths must be equal"),
        (
            trace([1.0])._replace(request_class=np.zeros(0, int)),
            r"len\(request_class\) = 0: the lengths must be equal, and there are 1 of arrival_s",
        ),
        (
            with_tokens([1.0, 2.0], [3], [4, 5]),
            r"len\(prompt_tokens\) = 1: .* 2 of arrival_s; or 0 without tokens",
        ),
        (with_tokens([1.0], [3], [4, 5]), r"len\(output_tokens\) = 2: .* 1 of arrival_s"),
        (
            with_tokens([1.0, 2.0], [3, 0], [4, 5]),
            r"prompt_tokens\[1\] = 0: must be a whole number of at least 1",
        ),
        (with_tokens([1.0, 2.0], [3, 1], [4, -5]), r"output_tokens\[1\] = -5: must be a whole"),
        (with_tokens([1.0], [3.5], [4]), r"prompt_tokens\[0\] = 3.5: must be a whole number"),
    ],
)
def test_arrivals_that_cannot_have_happened_are_refused(arrivals: Arrivals, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_arrivals(arrivals, classes=2)
