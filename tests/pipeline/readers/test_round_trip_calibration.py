"""One simulated log through every format and back to the parameters it was made with.

A hundred logs of each are in tests/statistical/test_format_recovery.py, which takes minutes.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from pipeline.calibration.idle_service import idle_service
from pipeline.calibration.log import read_logged_run
from pipeline.calibration.log_batches import IDLE
from pipeline.calibration.replica_service import calibrate_replicas
from pipeline.calibration.tokens.limits import Known, StatedLimits, fit_limits
from pipeline.calibration.tokens.refine import typical_s
from pipeline.calibration.tokens_of_log import logged_tokens
from pipeline.calibration.used_policy import used_policy
from tests.pipeline.readers.writers import SimulatedLog
from tests.statistical.format_logs import (
    Truth,
    batch_log,
    check_batches,
    noise_error,
    standard_errors,
    token_log,
)
from tests.statistical.format_ways import END_TO_END, TOKENS, WHOLE, ingested

REQUESTS = 900
ERRORS = 4.0  # standard errors that one log may be off
STEP_S = {"envoy": 1e-3, "nginx": 1e-3, "torchserve": 1e-3, "ray_serve": 1e-4}  # of durations


@cache
def log_of(truth: Truth) -> SimulatedLog:
    """The same log for every format."""
    return batch_log(truth, REQUESTS, np.random.default_rng(5))


@pytest.mark.parametrize("name", WHOLE)
def test_whole_batches_come_back_with_alpha_beta_and_noise(name: str, tmp_path: Path) -> None:
    way, truth = WHOLE[name]
    log = log_of(truth)
    run = read_logged_run(ingested(tmp_path, way, [log]), "log_0")
    assert not run.continuous  # one token each: nothing decodes
    check_batches(run, log, truth)
    service = calibrate_replicas(run, np.inf, 20, np.random.default_rng(6))
    for replica, cells in enumerate(truth.service):
        for number, true in enumerate(cells):
            cell = service[replica][number]
            own = run.batches.request_class == number
            if len(truth.service) > 1:
                own &= run.batches.replica == replica
            size = run.batches.total_size[own].astype(float)
            assert cell.fit.batches == len(size)
            alpha_s, beta_s = ERRORS * standard_errors(true, size, np.ones(len(size)))
            assert cell.fit.alpha_s == pytest.approx(true.alpha_s, abs=alpha_s)
            assert cell.fit.beta_s == pytest.approx(true.beta_s, abs=beta_s)
            noise_cv = ERRORS * noise_error(true, len(size))
            assert cell.fit.noise_cv == pytest.approx(true.noise_cv, abs=noise_cv)


def test_the_rule_is_recognized_where_replicas_are_named(tmp_path: Path) -> None:
    way, truth = WHOLE["vllm_spans"]
    run = read_logged_run(ingested(tmp_path, way, [log_of(truth)]), "log_0")
    policy, system, assumed = used_policy(run)
    assert policy is not None
    assert "fifo" in (policy.rule, *policy.same_decisions)
    assert policy.agreement == 1.0
    assert (system["policy"]["name"], assumed) == (policy.rule, ())
    assert set(system["batch_sizes"]) == set(run.batches.total_size.astype(int))


@pytest.mark.parametrize("name", END_TO_END)
def test_end_to_end_times_give_the_service_of_one_and_no_rule(name: str, tmp_path: Path) -> None:
    way, truth = END_TO_END[name]
    run = read_logged_run(ingested(tmp_path, way, [log_of(truth)]), "log_0")
    assert (run.batches_from, run.system["max_batch_size"]) == (IDLE, 1)
    assert used_policy(run)[0] is None
    assert run.requests is not None
    replica = run.requests.replica if len(truth.service) > 1 else np.zeros(REQUESTS, int)
    for number, cells in enumerate(truth.service):
        for place, true in enumerate(cells):
            own = (replica == number) & (run.arrivals.request_class == place)
            generator = np.random.default_rng(7)
            found = idle_service(
                run.arrivals.arrival_s, run.requests.departure_s, generator, replica, answered=own
            )
            one_s = true.alpha_s + true.beta_s
            chance_s = ERRORS * true.noise_cv * one_s / np.sqrt(found.requests)
            step_s = STEP_S.get(name, 0.0)
            assert found.mean_s == pytest.approx(one_s, abs=chance_s + step_s)


def test_an_interval_is_half_a_step_of_the_clock_wider_on_both_sides() -> None:
    # All took 25 whole ms: cut from 25.5 on average, or rounded from 25, or up from 24.5.
    arrival_s = np.arange(100) / 4
    found = idle_service(arrival_s, arrival_s + 0.025, np.random.default_rng(9))
    assert found.mean_interval_s == pytest.approx((0.0245, 0.0255))


@cache
def tokens() -> SimulatedLog:
    """Requests of an engine that runs at most four at once, one iteration every 10 ms."""
    count = 60
    generator = np.random.default_rng(8)
    arrival_s = np.round(np.cumsum(generator.exponential(0.1, count)), 6)
    dispatch_s, departure_s = np.zeros(count), np.zeros(count)
    output = generator.integers(20, 80, count)
    free_s = np.zeros(4)
    for row in range(count):
        place = int(np.argmin(free_s))
        dispatch_s[row] = max(arrival_s[row], free_s[place])
        departure_s[row] = free_s[place] = dispatch_s[row] + 0.01 * output[row]
    instants_s = arrival_s, dispatch_s, dispatch_s + 0.01, departure_s
    return token_log(instants_s, generator.integers(10, 2000, count), output)


@pytest.mark.parametrize("name", TOKENS)
def test_token_times_come_back_and_the_limit_is_met(name: str, tmp_path: Path) -> None:
    run = read_logged_run(ingested(tmp_path, TOKENS[name], [tokens()]), "log_0")
    assert run.continuous
    log, _, _ = logged_tokens(run)
    for field in ("arrival", "dispatch", "first_token", "departure"):
        expected_us = getattr(tokens(), f"{field}_us")
        found_us = 1e6 * getattr(log, f"{field}_s")
        np.testing.assert_allclose(np.diff(found_us), np.diff(expected_us), rtol=0.0, atol=2.0)
    np.testing.assert_array_equal(log.prompt_tokens, tokens().prompt_tokens)
    np.testing.assert_array_equal(log.output_tokens, tokens().output_tokens)
    limit = fit_limits(log, 1, StatedLimits()).max_num_seqs
    assert (limit.value, limit.known) == (4, Known.REACHED)


@pytest.mark.parametrize("name", ["litellm", "genai_spans", "aibrix"])
def test_a_gateway_without_dispatches_bounds_nothing_that_its_log_did_not_meet(
    name: str, tmp_path: Path
) -> None:
    run = read_logged_run(ingested(tmp_path, END_TO_END[name][0], [tokens()]), "log_0")
    log, _, _ = logged_tokens(run)
    assert np.isnan(log.dispatch_s).all()
    limits = fit_limits(log, 1, StatedLimits())
    assert limits.max_batched_tokens.value > tokens().prompt_tokens.max()
    assert {limit.known for limit in limits} == {Known.NOT_REACHED}
    assert np.isfinite(typical_s(log, 1)).all()
