"""The batches of a log as a table, and what overlaps in it."""

from typing import NamedTuple

import numpy as np

MEASURED = "measured"
FROM_INTERVALS = "rebuilt from service intervals"
FROM_DEPARTURES = "rebuilt from departures"
WHOLE, CONCURRENT, CONTINUOUS = "whole batches", "concurrent instances", "continuous-like"
UNKNOWN_KIND = "unknown"  # departures alone do not show what overlaps
MIXED = -1  # class of a batch that holds several
NO_BATCH = -1


_FEW = 0.01  # share of overlapping requests that clocks and restarts may explain
_MOST_INSTANCES = 8  # of one server; more requests side by side than these look continuous


class RebuiltBatches(NamedTuple):
    """The batches of a log, and how sure they are. n requests, m batches in order of dispatch."""

    batch: np.ndarray  # [n] number of the request's batch, NO_BATCH where it has none
    replica: np.ndarray  # [m]
    request_class: np.ndarray  # [m] MIXED where it holds several
    batch_size: np.ndarray  # [m] requests
    dispatch_s: np.ndarray  # [m] s, the earliest of its requests; see `dispatch_origin`
    departure_s: np.ndarray  # [m] s, the latest of its requests
    method: str  # MEASURED, FROM_INTERVALS or FROM_DEPARTURES
    kind: str  # WHOLE, CONCURRENT, CONTINUOUS or UNKNOWN_KIND
    dispatch_origin: str  # measured, derived (the earliest possible one) or absent (NaN)
    tolerance_s: float  # that instants of one batch may lie apart
    time_resolution_s: float  # 0 where finer than a microsecond
    without_batch: int  # requests without the instants that a batch is told by
    coinciding_share: float  # of requests in batches of two and more
    overlapping_share: float  # of requests whose batch overlaps another on its replica
    ambiguous_share: float  # of requests that half or twice the tolerance could put elsewhere


def batch_table(
    batch: np.ndarray,
    replica: np.ndarray,
    request_class: np.ndarray,
    start_s: np.ndarray,
    end_s: np.ndarray,
    tolerance_s: float = 0.0,
) -> RebuiltBatches:
    """The batches in order of dispatch, from the batch `[n]` of each request; shares filled in."""
    rows = np.flatnonzero(batch >= 0)
    rows = rows[np.argsort(batch[rows], kind="stable")]
    size, of_replica, mixed, dispatch_s, departure_s = _folded(
        batch[rows], replica[rows], request_class[rows], start_s[rows], end_s[rows]
    )
    order = np.lexsort((departure_s, of_replica, dispatch_s))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    numbered = np.full(len(batch), NO_BATCH)
    numbered[rows] = place[batch[rows]]
    size, of_replica = size[order], of_replica[order]
    overlaps = _overlapping(of_replica, dispatch_s[order] + tolerance_s, departure_s[order])
    requests = max(1, int(size.sum()))
    return RebuiltBatches(
        batch=numbered,
        replica=of_replica,
        request_class=mixed[order],
        batch_size=size,
        dispatch_s=dispatch_s[order],
        departure_s=departure_s[order],
        method=MEASURED,
        kind=UNKNOWN_KIND,
        dispatch_origin="measured",
        tolerance_s=tolerance_s,
        time_resolution_s=0.0,
        without_batch=int((batch < 0).sum()),
        coinciding_share=float(size[size > 1].sum()) / requests,
        overlapping_share=float(size[overlaps].sum()) / requests,
        ambiguous_share=0.0,
    )


def _folded(
    batch: np.ndarray,
    replica: np.ndarray,
    request_class: np.ndarray,
    start_s: np.ndarray,
    end_s: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Size, replica, class, first start and last end of each batch, from its requests in order."""
    if len(batch) == 0:
        return np.zeros(0, np.int64), replica, request_class, start_s, end_s
    size = np.bincount(batch)
    first = (np.cumsum(size) - size).astype(np.int64)
    lowest = np.minimum.reduceat(request_class, first)
    highest = np.maximum.reduceat(request_class, first)
    return (
        size,
        replica[first],
        np.where(lowest == highest, lowest, MIXED),
        np.minimum.reduceat(start_s, first),
        np.maximum.reduceat(end_s, first),
    )


def _overlapping(
    replica: np.ndarray, dispatch_s: np.ndarray, departure_s: np.ndarray
) -> np.ndarray:
    """True `[m]` for a batch that starts while another is in service there, and for the one before.

    Batches `[m]` in order of dispatch. What ends and starts at one instant does not overlap, nor
    what members are late by: `dispatch_s` comes with the tolerance added.
    """
    overlaps = np.zeros(len(replica), bool)
    for number in np.unique(replica):
        rows = np.flatnonzero(replica == number)
        latest_s = np.maximum.accumulate(departure_s[rows])
        early = dispatch_s[rows][1:] < latest_s[:-1]
        overlaps[rows[1:]] |= early
        overlaps[rows[:-1]] |= early
    return overlaps


def kind_of(
    found: RebuiltBatches, replica: np.ndarray, dispatch_s: np.ndarray, departure_s: np.ndarray
) -> str:
    """WHOLE, CONCURRENT or CONTINUOUS, from the batches and the requests `[n]` that have one.

    Whole batches do not overlap. Of overlapping ones: sequences of continuous batching are admitted
    together and depart apart, or the other way round; so where more requests share only one instant
    with others than share both, it is continuous. Where requests share neither, times alone cannot
    tell: continuous if more than 8 are in service side by side, else concurrent instances.
    """
    if found.overlapping_share < _FEW:
        return WHOLE
    own = found.batch_size[found.batch[found.batch >= 0]]
    partly = np.zeros(len(own), bool)
    for instant_s in (dispatch_s, departure_s):
        partly |= _company(replica, instant_s, found.tolerance_s) > own
    if partly.mean() > found.coinciding_share:
        return CONTINUOUS
    few = _side_by_side(found) <= _MOST_INSTANCES
    return CONCURRENT if few or found.coinciding_share >= 0.5 else CONTINUOUS


def _company(replica: np.ndarray, instant_s: np.ndarray, tolerance_s: float) -> np.ndarray:
    """How many requests `[n]` share the instant on the replica, the request itself included."""
    order = np.lexsort((instant_s, replica))
    cut = (np.diff(replica[order]) != 0) | (np.diff(instant_s[order]) > tolerance_s)
    group = np.concatenate([[0], np.cumsum(cut)])
    company = np.empty(len(order), np.int64)
    company[order] = np.bincount(group)[group]
    return company


def _side_by_side(found: RebuiltBatches) -> int:
    """Batches in service on a replica just after a dispatch: the 99th percentile."""
    counts = []
    for number in np.unique(found.replica):
        rows = found.replica == number
        start_s, end_s = np.sort(found.dispatch_s[rows]), np.sort(found.departure_s[rows])
        begun = np.searchsorted(start_s, start_s, side="right")
        counts.append(begun - np.searchsorted(end_s, start_s, side="right"))
    return int(np.quantile(np.concatenate(counts), 0.99))
