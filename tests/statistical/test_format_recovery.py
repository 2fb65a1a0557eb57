"""Every format that can carry them gives back the parameters that its log was simulated with.

A hundred logs are simulated once, written in each format, ingested and calibrated. The nominal 95 %
intervals must hold the truth in at least 90 of them, for each parameter on its own.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from pipeline.calibration.arrival_models.intervals import cv_estimate, rate_estimate
from pipeline.calibration.arrival_models.models import GAMMA, fit_model
from pipeline.calibration.arrival_models.observed import observe
from pipeline.calibration.batch_reconstruction import time_resolution
from pipeline.calibration.idle_service import idle_service
from pipeline.calibration.log import LoggedRun, read_logged_run
from pipeline.calibration.log_batches import IDLE
from pipeline.calibration.replica_service import calibrate_replicas
from pipeline.calibration.request_mix import fit_request_mix
from pipeline.calibration.tokens.limits import Known, StatedLimits, fit_limits
from pipeline.calibration.tokens.regression import regress
from pipeline.calibration.tokens_of_log import logged_tokens
from pipeline.store import read_table
from tests.pipeline.readers.writers import SimulatedLog
from tests.statistical import format_traces as traces
from tests.statistical.format_logs import (
    ONE_CLASS,
    ONE_SERVER,
    UNLIKE,
    Truth,
    batch_log,
    check_batches,
    token_log,
)
from tests.statistical.format_ways import ARRIVALS, END_TO_END, TOKENS, WHOLE, ingested
from tests.statistical.test_token_recovery import (
    ITERATION_CV,
    TIMES_S,
    TRUTH,
    drawn_arrivals,
    noisy_log,
)

pytestmark = pytest.mark.slow  # a quarter of an hour

SEEDS = 100
LEAST_COVERED = 90  # of 100, at a nominal 95
REQUESTS = {UNLIKE: 1800, ONE_SERVER: 1200, ONE_CLASS: 1000}
TOKEN_TIMES = ("t0", "t_prefill", "t_decode", "t_kv")


def check_covered(name: str, held: list[dict[str, bool]]) -> None:
    """Prints how often each parameter was covered; AssertionError where not often enough."""
    covered = {key: sum(each[key] for each in held) for key in held[0]}
    print(f"{name}:", ", ".join(f"{key} {count}" for key, count in covered.items()))
    few = {key: count for key, count in covered.items() if count < LEAST_COVERED * len(held) / 100}
    assert not few, few


@cache
def batch_logs(truth: Truth) -> list[SimulatedLog]:
    """The same hundred logs for every format."""
    return [
        batch_log(truth, REQUESTS[truth], np.random.default_rng([81, seed]))
        for seed in range(SEEDS)
    ]


@pytest.mark.parametrize("name", WHOLE)
def test_intervals_of_whole_batches_cover_alpha_beta_and_noise(name: str, tmp_path: Path) -> None:
    way, truth = WHOLE[name]
    logs = batch_logs(truth)
    tables = ingested(tmp_path, way, logs)
    held = []
    for seed, log in enumerate(logs):
        run = read_logged_run(tables, f"log_{seed}")
        check_batches(run, log, truth)
        service = calibrate_replicas(run, np.inf, 20, np.random.default_rng([82, seed]))
        told: dict[str, bool] = {}
        for replica, cells in enumerate(truth.service):
            for number, true in enumerate(cells):
                found = service[replica][number].intervals
                for key, value in true._asdict().items():
                    low, high = getattr(found, key)
                    told[f"{key} of {truth.classes[number]} at {replica}"] = low <= value <= high
        held.append(told)
    check_covered(name, held)


@pytest.mark.parametrize("name", END_TO_END)
def test_requests_that_met_an_idle_replica_cover_the_service_of_one(
    name: str, tmp_path: Path
) -> None:
    way, truth = END_TO_END[name]
    logs = batch_logs(truth)
    tables = ingested(tmp_path, way, logs)
    held = []
    for seed in range(SEEDS):
        run = read_logged_run(tables, f"log_{seed}")
        assert run.batches_from == IDLE
        held.append(covered_by_idle(run, truth, np.random.default_rng([83, seed])))
    check_covered(name, held)


def covered_by_idle(
    run: LoggedRun, truth: Truth, generator: np.random.Generator
) -> dict[str, bool]:
    """Whether alpha + beta of each replica and class is in its interval."""
    assert run.requests is not None
    arrival_s, of_class = run.arrivals.arrival_s, run.arrivals.request_class
    replica = run.requests.replica if len(truth.service) > 1 else np.zeros(len(arrival_s), int)
    told = {}
    for number, cells in enumerate(truth.service):
        for place, true in enumerate(cells):
            found = idle_service(
                arrival_s,
                run.requests.departure_s,
                generator,
                replica,
                answered=(replica == number) & (of_class == place),
            )
            low, high = found.mean_interval_s
            key = f"alpha_s + beta_s of {truth.classes[place]} at {number}"
            told[key] = low <= true.alpha_s + true.beta_s <= high
    return told


@cache
def token_logs() -> list[SimulatedLog]:
    """A hundred logs of the noisy engine of test_token_recovery."""
    logs = []
    for seed in range(SEEDS):
        generator = np.random.default_rng([84, seed])
        log = noisy_log(drawn_arrivals(240, generator), ITERATION_CV, generator)
        instants_s = log.arrival_s, log.dispatch_s, log.first_token_s, log.departure_s
        logs.append(token_log(instants_s, log.prompt_tokens, log.output_tokens))
    return logs


@pytest.mark.parametrize("name", TOKENS)
def test_intervals_of_iteration_times_cover_them_and_the_limit_is_found(
    name: str, tmp_path: Path
) -> None:
    tables = ingested(tmp_path, TOKENS[name], token_logs())
    held, reached = [], 0
    for seed in range(SEEDS):
        log, _, _ = logged_tokens(read_logged_run(tables, f"log_{seed}"))
        fit = regress(log, 1)
        inside = (fit.low <= TIMES_S) & (fit.high >= TIMES_S)
        held.append(
            dict(zip(("t0", "t_prefill", "t_decode", "t_kv"), inside.tolist(), strict=True))
        )
        limit = fit_limits(log, 1, StatedLimits()).max_num_seqs
        reached += limit.known == Known.REACHED
        assert limit.value == TRUTH.max_num_seqs or limit.known == Known.NOT_REACHED
    print(f"{name}: max_num_seqs reached and found in {reached}")
    check_covered(name, held)


@cache
def arrival_logs() -> list[SimulatedLog]:
    """A hundred traces of five minutes."""
    return [traces.arrival_log(1500, np.random.default_rng([85, seed])) for seed in range(SEEDS)]


@pytest.mark.parametrize("name", ARRIVALS)
def test_intervals_of_traces_cover_rate_variation_shares_and_tokens(
    name: str, tmp_path: Path
) -> None:
    ingested(tmp_path, ARRIVALS[name], arrival_logs())
    requests = read_table(tmp_path / "data", "requests")
    held = []
    for (_,), trace in requests.group_by("source", maintain_order=True):
        arrival_s = np.sort(trace["arrival_us"].to_numpy() / 1e6)
        step_s = time_resolution(arrival_s)
        duration_s = float(arrival_s[-1]) + max(step_s, 1e-6)
        observed = observe(arrival_s, duration_s, step_s)
        model = fit_model(GAMMA, observed, arrival_s)
        assert model is not None
        rate, cv = rate_estimate(arrival_s, duration_s, model), cv_estimate(observed, model)
        told = {
            "rate_rps": rate.low <= traces.RATE_RPS <= rate.high,
            "cv": cv.low <= traces.GAP_CV <= cv.high,
        }
        if trace["request_class"].n_unique() == 2:
            told["share"] = share_is_covered(trace["request_class"].to_numpy())
        for field, true in (
            ("prompt_tokens", traces.PROMPT_MEAN),
            ("output_tokens", traces.OUTPUT_MEAN),
        ):
            if trace[field].null_count() == 0:
                told[field] = mean_is_told(trace[field].to_numpy(), true)
        held.append(told)
    assert len(held) == SEEDS
    check_covered(name, held)


def share_is_covered(request_class: np.ndarray) -> bool:
    """Whether the share of the class that three of ten requests have is in its interval."""
    is_first = request_class == traces.CLASSES[0]
    if not is_first.any():  # Azure Functions writes digests of the names
        names, counts = np.unique(request_class, return_counts=True)
        is_first = request_class == names[np.argmin(counts)]
    none, ones = np.zeros(0), np.ones(len(is_first))
    shares = fit_request_mix(("first", "other"), 1 - is_first.astype(int), ones, none, none)
    share = shares[0].share
    return share.low <= traces.SHARE <= share.high


def mean_is_told(tokens: np.ndarray, true: float) -> bool:
    """Whether the fitted mean is within 1.96 standard errors; the fit states no interval."""
    one = np.zeros(len(tokens), int)
    sizes = fit_request_mix(("all",), one, one + 1.0, tokens, tokens)[0].sizes
    assert sizes.prompt_tokens is not None
    error = traces.TOKEN_CV * true / np.sqrt(len(tokens))
    return bool(abs(sizes.prompt_tokens.mean - true) <= 1.96 * error)
