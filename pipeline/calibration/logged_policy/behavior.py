"""An empirical behavior policy: what was done how often in states that look alike."""

from typing import NamedTuple

import numpy as np

from pipeline.calibration.logged_policy.decisions import DispatchDecisions

FLOOR = 1e-3  # of the probability of what is legal
_PRIOR = 2.0  # decisions that the overall habit counts as in each state
_WAIT_BINS = 8
_LENGTHS = np.array([1, 2, 4, 8, 16, 32])


class BehaviorTable(NamedTuple):
    """Counts of decisions by coarse state: queue length by class, oldest wait, idle replicas.

    A propensity is the product of three habits: to wait or which class to send, in a state; to send
    all that wait up to the largest batch, or fewer (each number alike), by queue length; to take
    the lowest-numbered idle replica or another (each alike).
    """

    wait_edges_s: np.ndarray  # of the bins of the oldest wait
    state: np.ndarray  # [S] code, ascending
    taken: np.ndarray  # [S, 1 + C] decisions to wait, or to send a class
    all_sent: np.ndarray  # [7] share of batches of all that wait, by bin of the queue length
    lowest_share: float  # of batches to the lowest idle replica where there was a choice
    largest: int  # batch


def fit_behavior(decisions: DispatchDecisions) -> BehaviorTable:
    """The table of some decisions, at least one."""
    oldest_s = decisions.oldest_wait_s.max(axis=1)
    edges_s = np.unique(np.quantile(oldest_s, np.linspace(0, 1, _WAIT_BINS + 1)[1:-1]))
    code = _codes(decisions, edges_s)
    state, place = np.unique(code, return_inverse=True)
    classes = decisions.queue_length.shape[1]
    count = np.zeros((len(state), 1 + classes))
    np.add.at(count, (place, decisions.request_class + 1), 1.0)
    sent = decisions.chosen(decisions.batch_size > 0)
    largest = int(sent.batch_size.max(initial=1))
    waiting = sent.queue_length[np.arange(sent.length), sent.request_class]
    whole = sent.batch_size == np.minimum(waiting, largest)
    bins = np.digitize(waiting, _LENGTHS)
    places = len(_LENGTHS) + 1
    all_sent = (np.bincount(bins, whole, places) + 1) / (np.bincount(bins, minlength=places) + 2)
    choice = sent.chosen(sent.idle.sum(axis=1) > 1)
    lowest = choice.idle.argmax(axis=1) == choice.replica
    share = (lowest.sum() + 1) / (choice.length + 2)
    return BehaviorTable(edges_s, state, count, all_sent, float(share), largest)


def propensities(table: BehaviorTable, decisions: DispatchDecisions) -> np.ndarray:
    """The estimated probability `[D]` of each decision, at least about FLOOR of what is legal.

    In a state that the table has not met, the overall habit.
    """
    code = _codes(decisions, table.wait_edges_s)
    place = np.minimum(np.searchsorted(table.state, code), len(table.state) - 1)
    met = table.state[place] == code
    habit = table.taken.sum(axis=0) / table.taken.sum()
    count = np.where(met[:, None], table.taken[place], 0.0) + _PRIOR * habit
    legal = np.column_stack([np.ones(decisions.length, bool), decisions.queue_length > 0])
    share = np.where(legal, count / count.sum(axis=1, keepdims=True), 0.0)
    share = np.where(legal, np.maximum(share, FLOOR), 0.0)
    share /= share.sum(axis=1, keepdims=True)
    rows = np.arange(decisions.length)
    own = share[rows, decisions.request_class + 1]
    sent = decisions.batch_size > 0
    return np.where(
        sent, own * _size_share(table, decisions) * _replica_share(table, decisions), own
    )


def _size_share(table: BehaviorTable, decisions: DispatchDecisions) -> np.ndarray:
    rows = np.arange(decisions.length)
    waiting = decisions.queue_length[rows, np.maximum(decisions.request_class, 0)]
    most = np.minimum(waiting, table.largest)
    whole = table.all_sent[np.digitize(waiting, _LENGTHS)]
    fewer = np.where(decisions.batch_size < most, (1 - whole) / np.maximum(most - 1, 1), FLOOR)
    share = np.where(decisions.batch_size == most, np.where(most > 1, whole, 1.0), fewer)
    return np.maximum(share, FLOOR)


def _replica_share(table: BehaviorTable, decisions: DispatchDecisions) -> np.ndarray:
    idle = decisions.idle.sum(axis=1)
    others = (1 - table.lowest_share) / np.maximum(idle - 1, 1)
    lowest = decisions.idle.argmax(axis=1) == decisions.replica
    return np.where(idle < 2, 1.0, np.where(lowest, table.lowest_share, others))


def _codes(decisions: DispatchDecisions, edges_s: np.ndarray) -> np.ndarray:
    """One number `[D]` for each coarse state."""
    code = np.digitize(decisions.oldest_wait_s.max(axis=1), edges_s).astype(np.int64)
    for column in np.digitize(decisions.queue_length, _LENGTHS).T:
        code = code * (len(_LENGTHS) + 1) + column
    return code * (decisions.idle.shape[1] + 1) + decisions.idle.sum(axis=1)
