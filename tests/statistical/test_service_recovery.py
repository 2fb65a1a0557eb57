"""Intervals of the service fit: how often they cover what the log was made with."""

import time

import numpy as np
import pytest

from pipeline.calibration.idle_service import idle_service
from pipeline.calibration.latency_tables import choose_latency
from pipeline.calibration.log import LoggedBatches
from pipeline.calibration.service import fit_service_with_intervals
from pipeline.calibration.service_noise import fit_noise
from simulator.noise import draw_noise

pytestmark = pytest.mark.slow

ALPHA_S, BETA_S, CV = 0.004, 0.0015, 0.2
SEEDS = 100
LEAST_COVERED = 90  # of 100, at a nominal 95


def log_of(
    generator: np.random.Generator, count: int, rate_rps: float, share: float, spell_s: float
) -> LoggedBatches:
    """Batches of a replica, as they would be logged; spells as the simulator draws them."""
    dispatch_s = np.cumsum(generator.exponential(1.0 / rate_rps, count))
    size = generator.integers(1, 17, count).astype(float)
    sigma = np.sqrt(np.log1p(CV**2))
    z = draw_noise(dispatch_s, share, spell_s, generator)
    service_s = (ALPHA_S + BETA_S * size) * np.exp(sigma * z - sigma**2 / 2)
    number = np.zeros(count, int)
    return LoggedBatches(number, number, size, dispatch_s, service_s)


@pytest.mark.parametrize(
    ("count", "rate_rps", "share", "spell_s"),
    [
        (300, 20.0, 0.0, 1.0),
        (4000, 50.0, 0.0, 1.0),
        (4000, 50.0, 0.5, 1.0),
        (20_000, 100.0, 0.5, 1.0),
    ],
)
def test_intervals_cover_the_truth_in_ninety_of_a_hundred_logs(
    count: int, rate_rps: float, share: float, spell_s: float
) -> None:
    covered = np.zeros(3, int)
    for seed in range(SEEDS):
        generator = np.random.default_rng(seed)
        batches = log_of(generator, count, rate_rps, share, spell_s)
        found = fit_service_with_intervals(
            batches.total_size, batches.service_s, batches.dispatch_s, generator
        )
        truths = (ALPHA_S, BETA_S, CV)
        covered += [b.low <= truth <= b.high for b, truth in zip(found[1:4], truths, strict=True)]
    print("alpha, beta, noise:", covered)
    assert (covered >= LEAST_COVERED).all()


def test_blocks_of_time_are_what_covers_correlated_noise() -> None:
    # With 50 batches in a spell, an interval that takes them for independent is far too narrow.
    covered = {"blocks": 0, "batches": 0}
    for seed in range(SEEDS):
        generator = np.random.default_rng(seed)
        batches = log_of(generator, 4000, 50.0, 0.5, 1.0)
        order = {"blocks": batches.dispatch_s, "batches": generator.permutation(4000) * 0.02}
        for name, instant_s in order.items():
            found = fit_service_with_intervals(
                batches.total_size, batches.service_s, instant_s, generator
            )
            covered[name] += found.beta_s.low <= BETA_S <= found.beta_s.high
    print(covered)
    assert covered["batches"] < 80 < LEAST_COVERED <= covered["blocks"]


def test_three_hundred_resamples_of_20000_batches_take_less_than_a_second() -> None:
    batches = log_of(np.random.default_rng(1), 20_000, 100.0, 0.5, 1.0)
    begun_s = time.perf_counter()
    fit_service_with_intervals(
        batches.total_size, batches.service_s, batches.dispatch_s, np.random.default_rng(2)
    )
    assert time.perf_counter() - begun_s < 1.0


def test_a_line_with_spells_is_a_line_and_lognormal_in_nine_of_ten_logs() -> None:
    lines, lognormals = 0, 0
    for seed in range(SEEDS):
        generator = np.random.default_rng(seed)
        train, held_out = (log_of(generator, 4000, 50.0, 0.5, 1.0) for _ in range(2))
        choice = choose_latency(train, held_out, generator)
        ratio, unseen = (
            batches.service_s / choice.expected_s(batches.total_size)
            for batches in (train, held_out)
        )
        lines += choice.kind == "line"
        lognormals += fit_noise(ratio, unseen, held_out.dispatch_s, generator).kind == "lognormal"
    print(lines, lognormals)
    assert min(lines, lognormals) >= LEAST_COVERED


def test_idle_requests_of_a_single_server_cover_the_service_of_a_batch_of_one() -> None:
    # M/G/1 in turn: who meets an idle server is served at once, alone.
    covered = 0
    for seed in range(SEEDS):
        generator = np.random.default_rng(seed)
        arrival_s = np.cumsum(generator.exponential(0.01, 2000))
        sigma = np.sqrt(np.log1p(CV**2))
        noise = np.exp(sigma * generator.standard_normal(2000) - sigma**2 / 2)
        departure_s = np.zeros(2000)
        free_s = 0.0
        for request, (instant_s, factor) in enumerate(zip(arrival_s, noise, strict=True)):
            free_s = max(free_s, instant_s) + (ALPHA_S + BETA_S) * factor
            departure_s[request] = free_s
        found = idle_service(arrival_s, departure_s, generator)
        bounds = found.mean_interval_s
        covered += bounds.low <= ALPHA_S + BETA_S <= bounds.high
        # Arrivals see time averages: a share 1 - rho meets it idle.
        assert found.share == pytest.approx(1.0 - 100.0 * (ALPHA_S + BETA_S), abs=0.08)
    assert covered >= LEAST_COVERED
