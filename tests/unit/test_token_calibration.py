"""Logs of token times, their limits and the regression of iteration times, worked out by hand."""

import json
import math

import numpy as np
import pytest

from pipeline.calibration.tokens.errors import TokenError, token_errors
from pipeline.calibration.tokens.fit import NAMES, Estimate, TokenFit, from_dict, to_dict
from pipeline.calibration.tokens.limits import (
    Known,
    Limit,
    StatedLimits,
    TokenLimits,
    fit_limits,
)
from pipeline.calibration.tokens.log import (
    LoggedTokens,
    check_tokens,
    cut_at,
    hide_times,
    seen_requests,
    token_times,
)
from pipeline.calibration.tokens.progress import anchored_clock, even_clock, sequences_of
from pipeline.calibration.tokens.regression import regress
from pipeline.calibration.tokens.spans import decoding_spans, prefill_spans, unbroken
from simulator.scenario import Routing

T0, PREFILL, DECODE, KV = 0.010, 4e-5, 2e-4, 3e-7
NAN = math.nan


def log_of(rows: list[tuple[float, float, float, float, int, int]]) -> LoggedTokens:
    """One replica; a row is arrival, dispatch, first token, departure, prompt and output tokens."""
    *times_s, prompt, output = np.array(rows, float).T
    return LoggedTokens(*times_s, prompt.astype(int), output.astype(int), np.zeros(len(rows), int))


THREE = log_of([(0, 0, 1, 3, 10, 3), (1, 1, 4, 5, 20, 1), (2, 4, 6, 9, 30, 4)])


def groups_log(sizes: list[int], prompt_step: int = 170) -> LoggedTokens:
    """Groups served one after the other: all prefilled in one iteration, all of the same length."""
    rows, clock_s = [], 0.0
    for number, size in enumerate(sizes):
        prompts = [40 + prompt_step * ((number * 5 + place * 3) % 7) for place in range(size)]
        output = 20 + 15 * (number % 4)
        first_s = clock_s + T0 + PREFILL * sum(prompts)
        # The m-th token after the first reads prompt + m tokens of each sequence.
        context = sum(sum(prompts) + size * m for m in range(1, output))
        departure_s = first_s + (output - 1) * (T0 + DECODE * size) + KV * context
        rows += [(clock_s, clock_s, first_s, departure_s, prompt, output) for prompt in prompts]
        clock_s = departure_s
    return log_of(rows)


def test_token_times_are_those_of_the_glossary_and_tpot_needs_a_second_token() -> None:
    times = token_times(THREE)
    np.testing.assert_array_equal(times.ttft_s, [1.0, 3.0, 4.0])
    np.testing.assert_array_equal(times.tpot_s, [1.0, NAN, 1.0])
    np.testing.assert_array_equal(times.response_s, [3.0, 4.0, 7.0])


def test_hidden_times_leave_arrivals_and_tokens_of_all_requests() -> None:
    hidden = hide_times(THREE, 1)
    np.testing.assert_array_equal(hidden.departure_s, [3.0, NAN, NAN])
    np.testing.assert_array_equal(hidden.arrivals.output_tokens, [3, 1, 4])
    assert seen_requests(THREE, 0.6) == 2


def test_a_cut_log_tells_nothing_after_the_last_dispatch_of_its_requests() -> None:
    # The first two are dispatched by 1.0: the first token of request 0 comes then, the rest later.
    cut = cut_at(THREE, 2)
    np.testing.assert_array_equal(cut.dispatch_s, [0.0, 1.0])
    np.testing.assert_array_equal(cut.first_token_s, [1.0, NAN])
    np.testing.assert_array_equal(cut.departure_s, [NAN, NAN])


@pytest.mark.parametrize(
    ("field", "values", "told"),
    [
        ("arrival_s", [0.0, 2.0, 1.0], r"arrival_s\[2\] = 1\.0"),
        ("dispatch_s", [0.0, 0.5, 4.0], r"dispatch_s\[1\] = 0\.5: must .* before arrival_s = 1\.0"),
        ("departure_s", [3.0, 5.0, math.inf], r"departure_s\[2\] = inf"),
        ("first_token_s", [NAN, 0.5, 6.0], r"first_token_s\[1\] = 0\.5"),
        ("output_tokens", [3, 0, 4], r"output_tokens\[1\] = 0"),
        ("replica", [0, 1, 0], r"replica\[1\] = 1: must be in 0\.\.0"),
        ("prompt_tokens", [10, 20], r"len\(prompt_tokens\) = 2"),
    ],
)
def test_an_impossible_log_is_refused_by_field_value_and_rule(
    field: str, values: list[float], told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        check_tokens(THREE._replace(**{field: np.array(values)}), 1)


def test_an_empty_log_is_refused() -> None:
    with pytest.raises(ValueError, match="without requests"):
        check_tokens(LoggedTokens(*(column[:0] for column in THREE)), 1)


def test_places_are_the_running_set_that_is_full_while_others_wait() -> None:
    # Two at a time; the third and fourth wait until one departs.
    rows = [(0, 0, 1, 4, 9, 9), (0, 0, 1, 5, 9, 9), (1, 4, 5, 8, 9, 9), (1, 5, 6, 9, 9, 9)]
    limits = fit_limits(log_of(rows), 1, StatedLimits())
    assert limits.max_num_seqs == Limit(2, Known.REACHED)
    assert limits.kv_capacity_tokens.known == Known.NOT_REACHED


def test_memory_is_what_was_held_when_a_request_was_admitted_and_others_waited() -> None:
    # Request 3 waits while three run, of 8 places: memory keeps it out. At the last dispatch before
    # its own, at 2.0, the others hold 50 + 1 + 1, 1 and 20. At 4.0 request 1 departs and the others
    # hold 54 + 31, which is more; but one of them may have been preempted by then.
    rows = [(0, 0, 1, 11, 50, 11), (0, 2, 3, 4, 1, 2), (0, 2, 3, 7, 20, 41), (0, 12, 13, 14, 60, 5)]
    limits = fit_limits(log_of(rows), 1, StatedLimits(max_num_seqs=8))
    assert limits.kv_capacity_tokens == Limit(73, Known.REACHED)
    assert limits.max_num_seqs == Limit(8, Known.STATED)


def test_a_wait_for_the_next_boundary_is_no_sign_of_a_limit() -> None:
    # Each waits half a second for an iteration of 1 s to end; more is held later, and nobody waits.
    rows = [(0, 0, 1, 9, 50, 9), (0.5, 1, 2, 9, 40, 9), (3.5, 4, 5, 9, 60, 9)]
    limits = fit_limits(log_of(rows), 1, StatedLimits())
    assert limits.kv_capacity_tokens.known == Known.NOT_REACHED
    assert limits.max_num_seqs.known == Known.NOT_REACHED


def test_memory_that_was_once_fuller_is_not_why_requests_wait() -> None:
    # Request 1 waits from 0 to 5 while 50 + tokens are held; at 20, when no one waits, 500 are.
    rows = [(0, 0, 1, 9, 50, 9), (0, 5, 6, 9, 4, 2), (20, 20, 21, 25, 500, 3)]
    limits = fit_limits(log_of(rows), 1, StatedLimits(max_num_seqs=8))
    assert limits.kv_capacity_tokens.known == Known.NOT_REACHED


def test_tokens_of_an_iteration_lie_between_what_fitted_and_what_did_not() -> None:
    # Prompts of 60 and 30 share an iteration; of 100 and 50 the second was chunked: 90 <= x < 150.
    rows = [(0, 0, 1, 2, 60, 3), (0, 0, 1, 2, 30, 3), (3, 3, 4, 9, 100, 3), (3, 3, 5, 9, 50, 3)]
    assert fit_limits(log_of(rows), 1, StatedLimits()).max_batched_tokens == Limit(
        128, Known.REACHED
    )
    stated = fit_limits(log_of(rows), 1, StatedLimits(max_batched_tokens=100))
    assert stated.max_batched_tokens == Limit(100, Known.STATED)


def test_a_stated_limit_below_1_is_refused() -> None:
    with pytest.raises(ValueError, match="kv_capacity_tokens = 0"):
        fit_limits(THREE, 1, StatedLimits(kv_capacity_tokens=0))


def test_the_work_of_a_span_counts_the_tokens_of_all_who_ran_beside_it() -> None:
    # Iterations of 1 s. Request 0 has its first token at 1.0 and four more, the last at 5.0, read
    # from contexts of 11, 12, 13 and 14. Request 1 prefills from 3.0 to 4.0, beside request 0 with
    # 10 + 3 tokens, and by 5.0 has one more token, from a context of 8.
    sequences = sequences_of(log_of([(0, 0, 1, 5, 10, 5), (0, 3, 4, 6, 7, 3)]), 0)
    clock = even_clock(sequences)
    decoding = decoding_spans(sequences, clock, np.array([0]), 1)
    np.testing.assert_allclose(decoding.work, [[4, 7, 4 + 1, 11 + 12 + 13 + 14 + 8]])
    prefill = prefill_spans(sequences, clock, 1, 10)
    np.testing.assert_allclose(prefill.work, [[1, 10, 0, 0], [1, 7, 1, 13]])


def test_a_sequence_that_was_preempted_is_no_span() -> None:
    # Of five that run for 60 s, the last gets half as many tokens.
    rows = [(0, 0, 1, 61, 10, 61)] * 4 + [(0, 0, 1, 61, 10, 31)]
    sequences = sequences_of(log_of(rows), 0)
    assert unbroken(sequences, even_clock(sequences), 10).tolist() == [0, 1, 2, 3]


def test_a_clock_is_bent_to_the_tokens_of_those_who_ran() -> None:
    # The even clock ticks once a second, as the median sequence. Sequence 2 has 24 tokens from 21.0
    # to 41.0, where the clock counts 20: with n = 20 shared iterations the weight is 4 / (20 + 1).
    sequences = sequences_of(
        log_of([(0, 0, 1, 11, 9, 11), (10, 10, 11, 21, 9, 11), (20, 20, 21, 41, 9, 25)]), 0
    )
    clock = anchored_clock(sequences, even_clock(sequences), np.arange(3))
    counted = clock.until(np.array([21.0, 41.0]))
    assert counted[1] - counted[0] == pytest.approx(20 + 20 * 4 / 21)


def test_regression_without_noise_is_exact() -> None:
    fit = regress(groups_log([1, 2, 3, 5, 1, 4, 2, 3] * 2), 1)
    np.testing.assert_allclose(fit.value, [T0, PREFILL, DECODE, KV], rtol=1e-6)
    assert fit.iteration_cv == pytest.approx(0.0, abs=1e-6)


def test_times_that_the_log_cannot_tell_apart_have_no_interval() -> None:
    # One sequence at a time and equal prompts: an iteration costs t0 + t_prefill * 40 or
    # t0 + t_decode + t_kv * context. Both sums and t_kv are told, t0 could be anything.
    fit = regress(groups_log([1] * 12, prompt_step=0), 1)
    t0_s, prefill_s, decode_s, kv_s = fit.value
    assert t0_s + 40 * prefill_s == pytest.approx(T0 + 40 * PREFILL, rel=1e-6)
    assert t0_s + decode_s == pytest.approx(T0 + DECODE, rel=1e-6)
    assert kv_s == pytest.approx(KV, rel=1e-3)
    np.testing.assert_array_equal(np.isinf(fit.high), [True, True, True, False])


def test_a_log_without_a_second_token_has_no_iteration_times() -> None:
    with pytest.raises(ValueError, match="no seen request has a second token"):
        regress(log_of([(0, 0, 1, 1, 10, 1), (1, 1, 2, 2, 10, 1)]), 1)


def test_errors_are_relative_to_the_log_over_requests_that_both_tell() -> None:
    slower = THREE._replace(departure_s=np.array([4.5, NAN, 12.5]))
    errors = token_errors(THREE, slower, slice(0, 3))
    # Response times 3 and 7 against 4.5 and 10.5: half longer. P95 lies 0.95 of the way.
    assert errors[4] == TokenError("response_s", 50, 2, 5.0, 7.5, 0.5)
    assert errors[5].error == pytest.approx(0.5)
    assert errors[5].logged_s == pytest.approx(3 + 0.95 * 4)
    assert errors[0].error == 0.0


def test_a_fit_survives_json() -> None:
    times = {name: Estimate(0.1 * (k + 1), 0.05, math.inf) for k, name in enumerate(NAMES)}
    limits = TokenLimits(
        Limit(8, Known.STATED), Limit(99, Known.NOT_REACHED), Limit(64, Known.REACHED)
    )
    fit = TokenFit(times, limits, 2, Routing.ROUND_ROBIN, 7, 0.01, 0.02)
    told = json.loads(json.dumps(to_dict(fit), allow_nan=False))
    assert from_dict(told) == fit
    assert not told["identified"]["t0_s"]
    assert told["identified"] == fit.identified
    assert not fit.identified["kv_capacity_tokens"]
    assert fit.cluster().tokens.max_batched_tokens == 64


def test_an_estimate_is_identified_where_its_interval_is_within_half_of_it() -> None:
    assert Estimate(2.0, 1.0, 3.0).identified
    assert not Estimate(2.0, 1.5, 3.1).identified
    assert not Estimate(0.0, 0.0, 1.0).identified
