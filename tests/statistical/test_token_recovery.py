"""From a generated log of continuous batching back to the iteration times it was made with."""

import math

import numpy as np
import pytest

from pipeline.calibration.tokens.errors import token_errors
from pipeline.calibration.tokens.fit import NAMES, fit_tokens, predict
from pipeline.calibration.tokens.limits import StatedLimits
from pipeline.calibration.tokens.log import LoggedTokens, hide_times
from pipeline.calibration.tokens.regression import regress
from pipeline.calibration.tokens.replay import TokenCluster, replay
from simulator.replica import TokenModel
from simulator.workload import Arrivals

pytestmark = pytest.mark.slow  # a minute of CPU

TRUTH = TokenModel(0.010, 4e-5, 1.5e-4, 1.5e-7, 32, 10**6, 2048)
TIMES_S = np.array([TRUTH.t0_s, TRUTH.t_prefill_s, TRUTH.t_decode_s, TRUTH.t_kv_s])
ITERATION_CV = 0.05
CLOCK_S = 1e-6  # the log's resolution
SEEDS = 100


def drawn_arrivals(count: int, generator: np.random.Generator) -> Arrivals:
    """Bursts and pauses, short and long prompts, so that batch and context do not go together."""
    rate_rps = np.where(np.arange(count) // 40 % 2 == 0, 3.0, 12.0)
    return Arrivals(
        np.cumsum(generator.exponential(1.0 / rate_rps)),
        np.zeros(count, np.int64),
        np.ones(count),
        np.clip(generator.lognormal(5.8, 1.0, count), 10, 8000).astype(np.int64),
        generator.integers(40, 300, count),
    )


def noisy_log(arrivals: Arrivals, cv: float, generator: np.random.Generator) -> LoggedTokens:
    """An engine in plain Python, iteration by iteration; each takes lognormal noise of mean 1."""
    count, spread = len(arrivals.arrival_s), math.sqrt(math.log1p(cv * cv))
    dispatch_s, first_s, departure_s = (np.full(count, np.nan) for _ in range(3))
    left, got = arrivals.prompt_tokens.copy(), np.zeros(count, np.int64)
    running: list[int] = []
    clock_s, head = 0.0, 0
    while head < count or running:
        if not running:
            clock_s = max(clock_s, arrivals.arrival_s[head])
        decoding = [r for r in running if left[r] == 0]
        context = sum(int(arrivals.prompt_tokens[r] + got[r]) for r in decoding)
        budget = TRUTH.max_batched_tokens - len(decoding)
        prefilled = 0
        for r in running:
            if left[r] > 0:
                taken = min(int(left[r]), budget - prefilled)
                left[r] -= taken
                prefilled += taken
        while (
            head < count
            and arrivals.arrival_s[head] <= clock_s
            and len(running) < TRUTH.max_num_seqs
            and prefilled < budget
        ):
            taken = min(int(left[head]), budget - prefilled)
            left[head] -= taken
            prefilled += taken
            dispatch_s[head] = clock_s
            running.append(head)
            head += 1
        mean_s = float(TIMES_S @ [1.0, prefilled, len(decoding), context])
        clock_s += mean_s * math.exp(spread * generator.standard_normal() - spread**2 / 2.0)
        for r in list(running):
            if left[r] > 0:
                continue
            got[r] += 1
            if got[r] == 1:
                first_s[r] = clock_s
            if got[r] == arrivals.output_tokens[r]:
                departure_s[r] = clock_s
                running.remove(r)
    columns = (
        np.round(column / CLOCK_S) * CLOCK_S for column in (dispatch_s, first_s, departure_s)
    )
    arrival_s = np.minimum(arrivals.arrival_s, np.round(dispatch_s / CLOCK_S) * CLOCK_S)
    tokens = arrivals.prompt_tokens, arrivals.output_tokens
    return LoggedTokens(arrival_s, *columns, *tokens, np.zeros(count, np.int64))


def test_the_plain_engine_without_noise_is_the_simulator() -> None:
    arrivals = drawn_arrivals(200, np.random.default_rng(1))
    plain = noisy_log(arrivals, 0.0, np.random.default_rng(2))
    simulated = replay(TokenCluster(TRUTH), arrivals)
    for field in ("dispatch_s", "first_token_s", "departure_s"):
        found, expected = getattr(plain, field), getattr(simulated, field)
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=2 * CLOCK_S)


def test_intervals_of_the_regression_cover_the_truth_in_at_least_90_of_100_seeds() -> None:
    inside = np.zeros((SEEDS, 4), bool)
    width = np.zeros((SEEDS, 4))
    for seed in range(SEEDS):
        generator = np.random.default_rng([71, seed])
        fit = regress(noisy_log(drawn_arrivals(240, generator), ITERATION_CV, generator), 1)
        inside[seed] = (fit.low <= TIMES_S) & (fit.high >= TIMES_S)
        width[seed] = (fit.high - fit.low) / 2.0 / TIMES_S
    covered = inside.sum(0)
    print(f"covered {covered}, half-width {width.mean(0).round(3)}")
    assert (covered >= 90).all(), covered
    # An interval that covers because it says nothing would be no use.
    assert (np.median(width, axis=0) < [0.1, 0.1, 0.5, 0.5]).all(), np.median(width, axis=0)


@pytest.mark.parametrize("seed", [72, 73, 74])
def test_a_fit_to_the_first_60_percent_predicts_tpot_and_response_of_the_rest(seed: int) -> None:
    # Within 3 %; a replay of the truth itself, which lacks the noise, errs by up to 1 % here. TTFT
    # is not asserted: it hangs on who just gets one of the last places in a burst. Over these 96
    # requests the replay of the truth errs by up to 16 % in its median, the fit by 15 % in its P95.
    generator = np.random.default_rng(seed)
    log = noisy_log(drawn_arrivals(240, generator), ITERATION_CV, generator)
    fit = fit_tokens(hide_times(log, 144), stated=StatedLimits(32, None, 2048))
    rows = slice(144, None)
    errors = token_errors(log, predict(fit, log.arrivals), rows)
    told = token_errors(log, replay(TokenCluster(TRUTH), log.arrivals), rows)
    print(
        seed,
        [
            f"{a.time} P{a.percentile} {a.error:+.2%} {b.error:+.2%}"
            for a, b in zip(errors, told, strict=True)
        ],
    )
    assert max(abs(row.error) for row in errors if row.time != "ttft_s") < 0.03
    assert max(abs(row.error) for row in told if row.time != "ttft_s") < 0.01
    values = np.array([fit.times[name].value_s for name in NAMES])
    np.testing.assert_allclose(values[:2], TIMES_S[:2], rtol=0.1)
