"""Stretches of a log whose work is known: what the regression of iteration times rests on."""

from typing import NamedTuple

import numpy as np

from pipeline.calibration.tokens.progress import IterationClock, Sequences, generated

_MOST_ITERATIONS = 1.1  # of its tokens: with more, a sequence was preempted
_SPARE_ITERATIONS = 5


class Spans(NamedTuple):
    """Stretches of time with the sums of what their iterations worked on."""

    start_s: np.ndarray  # [n] s
    end_s: np.ndarray  # [n] s
    work: np.ndarray  # [n, 4] iterations, prefill tokens, sequences decoding, their context tokens

    @property
    def duration_s(self) -> np.ndarray:
        """`[n]` s."""
        return self.end_s - self.start_s


def unbroken(sequences: Sequences, clock: IterationClock, most: int) -> np.ndarray:
    """Numbers of at most `most` sequences, evenly chosen, that decoded without a pause.

    A sequence between whose first and last token the clock counts a tenth more iterations than
    tokens was preempted, and waited meanwhile.
    """
    rows = np.flatnonzero((sequences.departure_s > sequences.first_s) & (sequences.later > 0))
    counted = clock.until(sequences.departure_s[rows]) - clock.until(sequences.first_s[rows])
    rows = rows[counted <= _MOST_ITERATIONS * sequences.later[rows] + _SPARE_ITERATIONS]
    return rows[np.unique(np.linspace(0, len(rows) - 1, min(most, len(rows))).astype(int))]


def decoding_spans(
    sequences: Sequences, clock: IterationClock, rows: np.ndarray, sharers: int
) -> Spans:
    """From the first to the last token of sequences `rows [r]`: `output tokens - 1` iterations.

    What the others did meanwhile is summed over the tokens they got. `sharers` as in
    `fitted_clock`.
    """
    work = np.empty((len(rows), 4))
    for place, row in enumerate(rows):
        window_s = np.array([sequences.first_s[row], sequences.departure_s[row]])
        work[place] = _work_within(sequences, clock, window_s)
    work[:, 1:] /= sharers
    work[:, 0] = sequences.later[rows]
    return Spans(sequences.first_s[rows], sequences.departure_s[rows], work)


def _work_within(sequences: Sequences, clock: IterationClock, window_s: np.ndarray) -> np.ndarray:
    """Work `[4]` of all sequences in the window `[2]` s, all but the number of iterations."""
    start_s, end_s = window_s
    others = np.flatnonzero((sequences.dispatch_s < end_s) & (sequences.end_s > start_s))
    tokens = generated(sequences, clock, others, window_s)
    prompt = sequences.prompt[others]
    # The m-th token after the first is computed from a context of prompt + m tokens.
    context = prompt[:, None] * tokens + tokens * (tokens + 1.0) / 2.0
    dispatch_s, first_s = sequences.dispatch_s[others], sequences.first_s[others]
    overlap_s = np.minimum(first_s, end_s) - np.maximum(dispatch_s, start_s)
    share = np.clip(overlap_s / np.maximum(first_s - dispatch_s, 1e-12), 0.0, 1.0)
    return np.array([0.0, (prompt * share).sum(), np.diff(tokens).sum(), np.diff(context).sum()])


def prefill_spans(sequences: Sequences, clock: IterationClock, sharers: int, most: int) -> Spans:
    """From a dispatch to the first token that came of it, where that is one iteration.

    It is where all that were dispatched at the instant got their first token at one instant, and
    no other was in its prefill: then the prompts are the prefill tokens of that iteration.
    """
    starts, ends, work = [], [], []
    for start_s in np.unique(sequences.dispatch_s):
        together = sequences.dispatch_s == start_s
        end_s = sequences.first_s[together].max()
        prefilling = (sequences.dispatch_s < end_s) & (sequences.first_s > start_s)
        if (prefilling != together).any() or (sequences.first_s[together] < end_s).any():
            continue
        decoding = np.flatnonzero((sequences.first_s <= start_s) & (sequences.end_s > start_s))
        tokens = generated(sequences, clock, decoding, np.array([start_s]))[:, 0]
        context = (sequences.prompt[decoding] + 1.0 + tokens).sum()
        starts.append(start_s)
        ends.append(end_s)
        prompts = sequences.prompt[together].sum()
        work.append([1.0, prompts, len(decoding) / sharers, context / sharers])
    chosen = np.unique(np.linspace(0, len(starts) - 1, min(most, len(starts))).astype(int))
    columns = np.array(starts), np.array(ends), np.array(work).reshape(-1, 4)
    return Spans(*(column[chosen] for column in columns))
