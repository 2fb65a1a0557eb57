"""How many tokens each sequence had at any instant, as far as a log of requests tells."""

from typing import NamedTuple

import numpy as np

from pipeline.calibration.tokens.log import LoggedTokens

Coefficients = np.ndarray  # [4] s: t0, t_prefill per token, t_decode per sequence, t_kv per token


class IterationClock(NamedTuple):
    """Iterations and their variance, counted up at the instants of a log; linear between them."""

    instant_s: np.ndarray  # [m] s, ascending
    iterations: np.ndarray  # [m] since the first instant
    square_s: np.ndarray  # [m] s^2: sum of squared durations of the iterations since then

    def until(self, at_s: np.ndarray) -> np.ndarray:
        """Iterations until each instant, same shape as `at_s`."""
        return np.interp(at_s, self.instant_s, self.iterations)


class Sequences(NamedTuple):
    """The requests whose first token was seen, in the order of arrival."""

    dispatch_s: np.ndarray  # [n] s
    first_s: np.ndarray  # [n] s
    departure_s: np.ndarray  # [n] s, NaN where not seen
    prompt: np.ndarray  # [n] tokens, float
    later: np.ndarray  # [n] output tokens after the first: iterations in which it decodes

    @property
    def end_s(self) -> np.ndarray:
        """`[n]` s: the departure, infinite where not seen."""
        return np.where(np.isnan(self.departure_s), np.inf, self.departure_s)


def sequences_of(log: LoggedTokens, replica: int) -> Sequences:
    """The sequences that the log tells of a replica (-1: those whose replica it does not say)."""
    rows = (log.replica == replica) & ~np.isnan(log.first_token_s)
    return Sequences(
        log.dispatch_s[rows],
        log.first_token_s[rows],
        log.departure_s[rows],
        log.prompt_tokens[rows].astype(float),
        log.output_tokens[rows].astype(float) - 1.0,
    )


def even_clock(sequences: Sequences) -> IterationClock:
    """The clock on which all iterations are equally long: the first guess.

    Raises ValueError where no sequence decodes from its first to its last token.
    """
    complete = (sequences.departure_s > sequences.first_s) & (sequences.later > 0)
    if not complete.any():
        raise ValueError("departure_s: no seen request has a second token and a departure")
    took_s = (sequences.departure_s - sequences.first_s)[complete]
    mean_s = float(np.median(took_s / sequences.later[complete]))
    instant_s = _instants(sequences)
    since_s = instant_s - instant_s[0]
    return IterationClock(instant_s, since_s / mean_s, since_s * mean_s)


def fitted_clock(
    sequences: Sequences, clock: IterationClock, coefficients: Coefficients, sharers: int
) -> IterationClock:
    """The clock on which an iteration takes what the coefficients say.

    Between two instants lie `(gap - t_prefill * prefill tokens) / (t0 + t_decode * decoding +
    t_kv * context)` iterations. `sharers`: replicas over which the sequences are spread evenly.
    """
    t0_s, t_prefill_s, t_decode_s, t_kv_s = coefficients
    instant_s = clock.instant_s
    gap_s, middle_s = np.diff(instant_s), (instant_s[1:] + instant_s[:-1]) / 2.0
    decoding, context, prefill = (np.zeros(len(gap_s)) for _ in range(3))
    for row in range(len(sequences.first_s)):
        start, first, end = np.searchsorted(
            instant_s,
            [sequences.dispatch_s[row], sequences.first_s[row], sequences.end_s[row]],
        )
        decoding[first:end] += 1.0
        tokens = generated(sequences, clock, np.array([row]), middle_s[first:end])[0]
        context[first:end] += sequences.prompt[row] + 1.0 + tokens
        share = gap_s[start:first] / max(gap_s[start:first].sum(), 1e-12)
        prefill[start:first] += sequences.prompt[row] * share
    decoding, context, prefill = (column / sharers for column in (decoding, context, prefill))
    iteration_s = t0_s + t_decode_s * decoding + t_kv_s * context
    count = np.zeros(len(gap_s))
    np.divide(
        np.maximum(gap_s - t_prefill_s * prefill, 0.0), iteration_s, count, where=iteration_s > 0
    )
    square_s = gap_s * gap_s / np.maximum(count, 1.0)
    return IterationClock(
        instant_s,
        np.concatenate([[0.0], np.cumsum(count)]),
        np.concatenate([[0.0], np.cumsum(square_s)]),
    )


def anchored_clock(sequences: Sequences, clock: IterationClock, rows: np.ndarray) -> IterationClock:
    """The clock bent so that sequences `rows [r]` have the iterations that their tokens say.

    What is most likely under equal, independent noise of iterations, given all those sums: a
    stretch that was slow by chance would else be taken for more iterations, and its co-runners for
    faster ones. In the notation of kriging: `n + C (C_rr + I)^-1 (known - n_r)`, C the iterations
    that two stretches share.
    """
    begin, end = clock.until(sequences.first_s[rows]), clock.until(sequences.departure_s[rows])
    shared = np.minimum(end[:, None], end) - np.maximum(begin[:, None], begin)
    shared = np.maximum(shared, 0.0) + np.eye(len(rows))
    weight = np.linalg.solve(shared, sequences.later[rows] - (end - begin))
    covered = np.clip(clock.iterations[:, None] - begin, 0.0, end - begin)
    bent = np.maximum.accumulate(clock.iterations + covered @ weight)
    return clock._replace(iterations=bent)


def generated(
    sequences: Sequences, clock: IterationClock, rows: np.ndarray, at_s: np.ndarray
) -> np.ndarray:
    """Tokens after the first that sequences `rows [r]` have at instants `at_s [m]`: `[r, m]`.

    In proportion to the iterations of the clock between its first and last token, so that all are
    there at its departure; where that was not seen, one token an iteration.
    """
    begin = clock.until(sequences.first_s[rows])[:, None]
    since = clock.until(at_s)[None, :] - begin
    later, end_s = sequences.later[rows][:, None], sequences.end_s[rows]
    seen = np.isfinite(end_s)
    last = clock.until(np.where(seen, end_s, sequences.first_s[rows]))[:, None]
    span = np.where(seen[:, None] & (last > begin), last - begin, later)
    part = np.divide(since, span, out=np.zeros_like(since), where=span > 0)
    return later * np.clip(part, 0.0, 1.0)


def _instants(sequences: Sequences) -> np.ndarray:
    """All instants that the log tells, ascending."""
    times_s = np.concatenate([sequences.dispatch_s, sequences.first_s, sequences.departure_s])
    return np.unique(times_s[~np.isnan(times_s)])
