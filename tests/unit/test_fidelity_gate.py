"""Which errors stop a run, which are a warning, and the sentences that say so."""

import pytest

from pipeline.calibration.fidelity import (
    FidelityRow,
    Gate,
    Judgment,
    fidelity_failures,
    fidelity_warnings,
    judged,
)

NAN = float("nan")
GATE = Gate({"mean": 0.2, "p50": 0.15, "p95": 0.25, "p99": 0.35, "throughput": 0.1}, 50)


def row(
    error: float,
    statistic: str = "p50",
    band: str = "all",
    low: float | None = None,
    high: float | None = None,
    requests: int = 100,
) -> FidelityRow:
    """The interval is 1 % to either side unless it is given."""
    bounds = (error - 0.01 if low is None else low, error + 0.01 if high is None else high)
    return FidelityRow(
        "response_s", "fast", band, statistic, requests, 0.1, 0.1 * (1.0 + error), error, *bounds
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (row(0.14), Judgment.HOLDS),
        (row(-0.14), Judgment.HOLDS),
        (row(0.17), Judgment.FAILS),
        (row(-0.17), Judgment.FAILS),
        (row(0.17, "p95"), Judgment.HOLDS),
        (row(0.9, low=0.1, high=2.0), Judgment.UNSURE),
        (row(-0.9, low=-0.95, high=-0.1), Judgment.UNSURE),
        (row(0.14, low=-0.5, high=0.9), Judgment.HOLDS),
        (row(0.17, band="> 1"), Judgment.FAILS),
        (row(0.17, band="> 1", requests=49), Judgment.UNSURE),
        (row(0.17, low=NAN, high=NAN), Judgment.FAILS),
        (row(0.17, band="> 1", low=NAN, high=NAN), Judgment.UNSURE),
        (row(NAN, requests=0), Judgment.FAILS),
        (row(NAN, band="> 1"), Judgment.FAILS),
        (row(9.0, "p75"), Judgment.NOT_ASKED),
        (row(9.0)._replace(metric="batch_size", statistic="mean"), Judgment.NOT_ASKED),
        (row(0.12, "mean")._replace(metric="throughput_rps"), Judgment.FAILS),
        (row(0.12, "mean"), Judgment.HOLDS),
    ],
)
def test_an_error_fails_where_its_whole_interval_lies_beyond_the_tolerance(
    found: FidelityRow, expected: Judgment
) -> None:
    assert judged(found, GATE) == expected
    assert bool(fidelity_failures([found], GATE)) == (expected == Judgment.FAILS)
    assert bool(fidelity_warnings([found], GATE)) == (expected == Judgment.UNSURE)


def test_a_failure_says_what_was_logged_and_simulated_and_where() -> None:
    (told,) = fidelity_failures([row(0.5, "p95"), row(0.0)], GATE)
    assert told == (
        "fast P95: logged 100.0 ms, simulated 150.0 ms, error +50.0% [+49%, +51%] against a "
        "tolerance of 25%"
    )
    (told,) = fidelity_failures([row(0.5, "mean", "> 1")._replace(metric="ttft_s")], GATE)
    assert told.startswith("fast TTFT mean at load > 1: logged 100.0 ms")
