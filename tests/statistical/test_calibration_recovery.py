"""From a simulated log back to the parameters that it was simulated with."""

import dataclasses
import json
import math
from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import norm

from pipeline.calibration.calibrate import CalibrationRules, calibrate
from pipeline.calibration.describe import from_json, to_json
from pipeline.calibration.fidelity import (
    Fidelity,
    FidelityRules,
    Gate,
    ReplayedPolicy,
    fidelity_failures,
    fidelity_of_log,
    replay_batches,
)
from pipeline.calibration.log import LoggedBatches, LoggedRun
from simulator.environment import Environment, RequestRecords
from simulator.policies.mixture import EpsilonMixture
from simulator.policies.registry import build_policy
from simulator.replica import Replica
from simulator.reward import Reward
from simulator.rollout import run_episodes
from simulator.scenario import RequestClass, Scenario
from simulator.state import ClusterState, EventKind, Recording
from simulator.traffic import SquareBurstWorkload
from simulator.workload import Arrivals

pytestmark = pytest.mark.slow

# Twenty minutes, simulated as lanes side by side and then laid one after the other.
LANES, SPAN_S, GAP_S = 24, 50.0, 10.0
REPLAYED_LANES = 4  # of them, where the log is replayed in one lane
TRUTH = Scenario(
    (RequestClass("fast", 0.1), RequestClass("slow", 0.5)),
    (
        Replica((0.003, 0.008), (0.001, 0.006), (0.10, 0.05), 16),
        Replica((0.004, 0.012), (0.002, 0.004), (0.20, 0.15), 16),
    ),
    batch_sizes=(1, 2, 4, 8, 16),
    queue_capacity=200,
)
SHARES = {"train": 0.5, "validation": 0.2, "test": 0.3}
GATE = Gate({"mean": 0.05, "p50": 0.05, "p95": 0.05, "p99": 0.10}, 500)
POLICY = {"name": "fifo", "parameters": {"batch_size": 16}, "epsilon": 0.3}


@pytest.fixture(scope="module")
def simulated_log() -> LoggedRun:
    """Two unlike replicas under bursts, as a log would tell them."""
    environment = Environment(
        TRUTH,
        SquareBurstWorkload((60.0, 30.0), (260.0, 100.0), 3.0, 2.0),
        LANES,
        SPAN_S,
        Reward(np.zeros(13)),
        np.random.default_rng(21),
        drain_s=GAP_S,
        recording=Recording(requests=True, events=40_000),
    )
    rule = build_policy(POLICY["name"], TRUTH, POLICY["parameters"])
    policy = EpsilonMixture(rule, POLICY["epsilon"])
    run_episodes(environment, policy, np.random.default_rng(22))
    return as_log(environment)


class Spans(NamedTuple):
    """From dispatch to departure, in the order of lane and these two instants."""

    lane: np.ndarray
    dispatch_s: np.ndarray
    departure_s: np.ndarray


def as_log(environment: Environment) -> LoggedRun:
    """What a gateway would have written: requests and batches, no hidden parameter."""
    records, state = environment.request_records(), environment.state
    assert not np.isnan(records.departure_s).any(), "every lane is drained, nothing is shed"
    replica, of_events = spans_of_events(state)
    request_class, size, of_requests = spans_of_requests(records)
    for from_event, from_requests in zip(of_events, of_requests, strict=True):
        np.testing.assert_array_equal(from_event, from_requests)
    shift_s = (SPAN_S + GAP_S) * of_requests.lane
    return LoggedRun(
        {"request_classes": ["fast", "slow"], "replicas": 2, "policy": POLICY},
        LANES * (SPAN_S + GAP_S),
        Arrivals(
            records.arrival_s + (SPAN_S + GAP_S) * records.lane,
            records.request_class.astype(int),
            np.ones(len(records.lane)),
        ),
        records.departure_s - records.arrival_s,
        LoggedBatches(
            replica,
            request_class,
            size,
            of_requests.dispatch_s + shift_s,
            of_requests.departure_s - of_requests.dispatch_s,
        ),
    )


def spans_of_events(state: ClusterState) -> tuple[np.ndarray, Spans]:
    """The replica of each batch, and its span: a replica's dispatches and completions alternate."""
    assert (state.event_count <= state.event_clock_s.shape[1]).all(), "the log of events is full"
    parts = []
    for lane, replica in np.ndindex(LANES, len(TRUTH.replicas)):
        kind = state.event_kind[lane, : state.event_count[lane]]
        of_replica = state.event_subject[lane, : len(kind)] == replica
        clock_s = state.event_clock_s[lane, : len(kind)]
        dispatch_s = clock_s[of_replica & (kind == EventKind.BATCH_DISPATCH)]
        departure_s = clock_s[of_replica & (kind == EventKind.BATCH_COMPLETION)]
        count = len(dispatch_s)
        parts.append((np.full(count, replica), np.full(count, lane), dispatch_s, departure_s))
    replica, *span = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort(span[::-1])
    return replica[order], Spans(*(column[order] for column in span))


def spans_of_requests(records: RequestRecords) -> tuple[np.ndarray, np.ndarray, Spans]:
    """The class, the size and the span of each batch, from its requests."""
    rows = np.stack([records.lane, records.dispatch_s, records.departure_s], axis=1)
    spans, first, size = np.unique(rows, axis=0, return_index=True, return_counts=True)
    return records.request_class[first].astype(int), size.astype(float), Spans(*spans.T)


def beginning(run: LoggedRun, until_s: float) -> LoggedRun:
    """The log up to an instant at which the system is empty."""
    return lanes(run, 0, round(until_s / (SPAN_S + GAP_S)))


def lanes(run: LoggedRun, first: int, count: int) -> LoggedRun:
    """Some of the lanes that the log is made of, from the first one on."""
    start_s, end_s = ((SPAN_S + GAP_S) * lane for lane in (first, first + count))
    low, high = np.searchsorted(run.arrivals.arrival_s, [start_s, end_s])
    batches = (run.batches.dispatch_s >= start_s) & (run.batches.dispatch_s < end_s)
    chosen = LoggedBatches(*(column[batches] for column in run.batches))
    return LoggedRun(
        run.system,
        end_s - start_s,
        run.arrivals.window(start_s, end_s),
        run.response_s[low:high],
        chosen._replace(dispatch_s=chosen.dispatch_s - start_s),
    )


def test_calibration_recovers_alpha_beta_and_cv_within_two_percent(
    simulated_log: LoggedRun,
) -> None:
    calibration = calibrate(simulated_log, CalibrationRules(SHARES, 20), np.random.default_rng(0))
    for replica, cells in zip(TRUTH.replicas, calibration.service, strict=True):
        for request_class, cell in enumerate(cells):
            print(cell)
            assert cell.fit.alpha_s == pytest.approx(replica.alpha_s[request_class], rel=0.02)
            assert cell.fit.beta_s == pytest.approx(replica.beta_s[request_class], rel=0.02)
            assert cell.fit.noise_cv == pytest.approx(replica.noise_cv[request_class], rel=0.02)
            assert not cell.pooled
    assert calibration.spells.share < 0.02  # the noise of this log is independent


def test_held_out_error_is_that_of_the_noise_alone(simulated_log: LoggedRun) -> None:
    calibration = calibrate(simulated_log, CalibrationRules(SHARES, 20), np.random.default_rng(0))
    for replica, cells in zip(TRUTH.replicas, calibration.service, strict=True):
        for cv, cell in zip(replica.noise_cv, cells, strict=True):
            # Of noise X, lognormal with mean 1: E|1 - X| = 2 (2 Phi(sigma / 2) - 1), E(1 - X) = 0.
            sigma = math.sqrt(math.log1p(cv**2))
            expected = 2.0 * (2.0 * norm.cdf(sigma / 2.0) - 1.0)
            assert cell.held_out_error == pytest.approx(expected, rel=0.05)
            # The mean of the unseen batches, and two coefficients fitted to the others.
            standard_error = cv * math.sqrt(1 / cell.held_out_batches + 2 / cell.fit.batches)
            assert abs(cell.held_out_bias) < 4 * standard_error


def test_the_calibrated_simulator_retells_a_simulated_log(simulated_log: LoggedRun) -> None:
    calibration = calibrate(simulated_log, CalibrationRules(SHARES, 20), np.random.default_rng(0))
    fitted = dataclasses.replace(
        TRUTH,
        replicas=tuple(
            Replica(
                tuple(cell.fit.alpha_s for cell in cells),
                tuple(cell.fit.beta_s for cell in cells),
                tuple(cell.fit.noise_cv for cell in cells),
                16,
            )
            for cells in calibration.service
        ),
    )
    log = beginning(simulated_log, REPLAYED_LANES * (SPAN_S + GAP_S))
    fidelity = fidelity_of(log, fitted, 4, np.random.default_rng(1))
    close = {"mean": 0.03, "p50": 0.03, "p95": 0.05, "p99": 0.10}
    for row in fidelity.rows:
        print(row)
        if row.metric == "response_s" and row.band == "all":
            assert abs(row.error) < close[row.statistic]
    assert fidelity.passed


def test_a_wrong_service_time_is_told_as_a_failure_of_fidelity(simulated_log: LoggedRun) -> None:
    slower = dataclasses.replace(
        TRUTH,
        replicas=tuple(
            dataclasses.replace(replica, beta_s=tuple(1.3 * beta for beta in replica.beta_s))
            for replica in TRUTH.replicas
        ),
    )
    log = beginning(simulated_log, REPLAYED_LANES * (SPAN_S + GAP_S))
    fidelity = fidelity_of(log, slower, 2, np.random.default_rng(1))
    assert not fidelity.passed
    failures = fidelity_failures(fidelity.rows, GATE)
    assert any(failure.startswith("slow P95: logged") for failure in failures)


def test_intervals_of_the_true_simulator_cover_no_error_in_nine_of_ten(
    simulated_log: LoggedRun,
) -> None:
    # Six logs of four lanes each, replayed by what made them: rows of the whole log are 24.
    covered, asked = 0, 0
    for number in range(LANES // REPLAYED_LANES):
        log = lanes(simulated_log, number * REPLAYED_LANES, REPLAYED_LANES)
        fidelity = fidelity_of(log, TRUTH, 8, np.random.default_rng(number))
        for row in fidelity.rows:
            if row.metric == "response_s" and row.band == "all":
                covered += row.low <= 0.0 <= row.high
                asked += 1
    print(covered, asked)
    assert covered >= 0.9 * asked


def fidelity_of(
    log: LoggedRun, scenario: Scenario, replays: int, generator: np.random.Generator
) -> Fidelity:
    replay = replay_batches(log, scenario, replays, generator)
    told = ReplayedPolicy(POLICY["name"], POLICY["parameters"], POLICY["epsilon"], "declared")
    return fidelity_of_log(replay, told, GATE, FidelityRules(), generator)


def test_calibration_survives_its_json_form(simulated_log: LoggedRun) -> None:
    calibration = calibrate(simulated_log, CalibrationRules(SHARES, 20), np.random.default_rng(0))
    assert from_json(json.loads(json.dumps(to_json(calibration)))) == calibration
