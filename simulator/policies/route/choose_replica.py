"""What routers share: how costs and scores of replicas become probabilities.

Under `route` action k is replica k, so a row of costs `[B, K]` lines up with a row of the mask.
Equal costs share the probability equally: a fixed order would load the first replica most (D7).
"""

import math

import numpy as np

from simulator.observation import Observation
from simulator.policies.choose import exact_rows, uniform
from simulator.policies.space import Real

MEAN_PROMPT_TOKENS = 512.0  # where a scenario's own mean is not given; no source sets one
PROMPT_TOKENS = Real(32.0, 8192.0, log=True)  # where a tuner looks for it


def waiting_at(observation: Observation) -> np.ndarray:
    """Requests `[B, K]` that wait in the replica's own queue, all classes together."""
    queue = observation.replica_queue_length
    waiting: np.ndarray = queue @ np.ones(queue.shape[2])  # faster than a sum over a short axis
    return waiting


def least(cost: np.ndarray, action_mask: np.ndarray) -> np.ndarray:
    """Equal probabilities `[B, K]` for the allowed replicas of the least `cost [B, K]`."""
    known = np.where(action_mask, cost, np.inf)
    return uniform(action_mask & (known == known.min(axis=1, keepdims=True)))


def among(preferred: np.ndarray, action_mask: np.ndarray) -> np.ndarray:
    """Bools `[B, K]`: the preferred replicas that are allowed, or all allowed where none is."""
    chosen = preferred & action_mask
    return np.where(chosen.any(axis=1, keepdims=True), chosen, action_mask)


def emptiest(value: np.ndarray, action_mask: np.ndarray) -> np.ndarray:
    """Scores `[B, K]` `(max - value) / (max - min)` over the allowed replicas; 1 if all are equal.

    What masked replicas get means nothing.
    """
    low = np.where(action_mask, value, np.inf).min(axis=1, keepdims=True)
    high = np.where(action_mask, value, -np.inf).max(axis=1, keepdims=True)
    spread = high - low
    return np.where(spread > 0, (high - value) / np.where(spread > 0, spread, 1.0), 1.0)


def shares_of_subsets(replicas: int, d: int) -> np.ndarray:
    """`[K + 1, K + 1]`: the share of the subsets of n that lie within m of them, `C(m)/C(n)`.

    Subsets of d, or of all n where there are fewer. Rows n, columns m.
    """
    share = np.zeros((replicas + 1, replicas + 1))
    for n in range(1, replicas + 1):
        size = min(d, n)
        for m in range(n + 1):
            share[n, m] = math.comb(m, size) / math.comb(n, size)  # of whole numbers: exact
    return share


def least_of_some(cost: np.ndarray, action_mask: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Probabilities `[B, K]` that a replica is picked as the least of d random allowed ones.

    `share` comes from `shares_of_subsets`. With n allowed, r of them cheaper than replica k and e
    as cheap (itself included), all d are among the n - r that are no cheaper, but not all among the
    n - r - e that are dearer; equal ones are alike, so each gets an equal part:
    `p = (C(n - r, d) - C(n - r - e, d)) / (e C(n, d))`. In order of cost, those that cost the same
    are from r = `start` to r + e = `end`.
    """
    lanes, replicas = action_mask.shape
    known = np.where(action_mask, cost, np.inf)
    order = known.argsort(axis=1)  # which of equal ones comes first makes no difference
    known = np.take_along_axis(known, order, axis=1)
    dearer = np.ones((lanes, replicas + 1), bool)  # than the one before; the first and an end too
    dearer[:, 1:-1] = known[:, 1:] != known[:, :-1]
    place = np.arange(replicas + 1)
    allowed = action_mask.sum(axis=1)[:, None]  # masked ones are last, at an infinite cost
    start = np.maximum.accumulate(np.where(dearer, place, 0), axis=1)[:, :-1]
    after = np.where(dearer, place, replicas)[:, ::-1]
    end = np.minimum.accumulate(after, axis=1)[:, ::-1][:, 1:]
    start, end = np.minimum(start, allowed), np.minimum(end, allowed)
    part = share[allowed, allowed - start] - share[allowed, allowed - end]
    probabilities = np.empty(action_mask.shape)
    part /= np.maximum(end - start, 1)
    np.put_along_axis(probabilities, order, part, axis=1)
    return exact_rows(np.where(action_mask, probabilities, 0.0))
