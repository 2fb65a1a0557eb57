"""Batches of a log that names none: rebuilt from service intervals, or from departures alone."""

import numpy as np

from pipeline.calibration.batch_reconstruction.table import (
    FROM_DEPARTURES,
    FROM_INTERVALS,
    NO_BATCH,
    RebuiltBatches,
    batch_table,
    kind_of,
)
from pipeline.calibration.batch_reconstruction.tolerance import infer_tolerance, time_resolution
from simulator.checks import check


def rebuild_batches(
    replica: np.ndarray,
    request_class: np.ndarray,
    dispatch_s: np.ndarray | None,
    departure_s: np.ndarray,
    tolerance_s: float | None = None,
    arrival_s: np.ndarray | None = None,
) -> RebuiltBatches:
    """The batches of n requests: those of one replica that start and end together are one batch.

    Two neighbors in time are together where both instants differ by at most `tolerance_s`; None
    infers it (`infer_tolerance`). Without any dispatch (None, or NaN everywhere) those of a replica
    that depart together are one batch; its dispatch is then derived where arrivals are given:
    `max(previous departure on the replica, latest arrival of its members)`, the earliest instant
    possible, so that the service time is an upper bound. A request without departure, or the only
    one without dispatch, has no batch and is counted.

    Arguments: `replica [n]` (a log that does not tell replicas apart gives one number to all),
    `request_class [n]`, `dispatch_s [n]` s and `departure_s [n]` s with NaN where unknown,
    `arrival_s [n]` s. Raises ValueError for lengths that differ, infinite instants, a departure
    before its dispatch and a tolerance that is not a finite number of at least 0.

    It cannot tell two batches whose service is shorter than the tolerance, nor, from departures
    alone, a batch from requests that ended together by chance: see `ambiguous_share`.
    (reference/traces.md, section 2, "What follows" i.)
    """
    given = dispatch_s is not None and not np.isnan(dispatch_s).all()
    start_s = dispatch_s if given and dispatch_s is not None else departure_s
    _check_instants(replica, request_class, start_s, departure_s)
    rows = np.flatnonzero(~np.isnan(departure_s) & ~np.isnan(start_s))
    known = (replica[rows], start_s[rows], departure_s[rows])
    resolution_s = time_resolution(np.concatenate(known[1:]))
    if tolerance_s is None:
        tolerance_s = infer_tolerance(*known, resolution_s)
    holds = 0 <= tolerance_s < np.inf
    check(holds, "tolerance_s", tolerance_s, "must be a finite number of seconds, at least 0")
    cell, order, unsure = _cells(*known, tolerance_s)
    batch = np.full(len(replica), NO_BATCH)
    batch[rows] = cell
    method = FROM_INTERVALS if given else FROM_DEPARTURES
    found = batch_table(batch, replica, request_class, start_s, departure_s, float(tolerance_s))
    found = found._replace(method=method, time_resolution_s=resolution_s)
    if given:
        short = (found.departure_s - found.dispatch_s <= 2 * tolerance_s) & (tolerance_s > 0)
        short |= found.departure_s == found.dispatch_s
        unsure |= short[found.batch[rows][order]]
        found = found._replace(kind=kind_of(found, *known))
    else:
        found = _with_derived_dispatch(found, arrival_s)
    return found._replace(ambiguous_share=_share(unsure))


def measured_batches(
    batch_id: np.ndarray,
    replica: np.ndarray,
    request_class: np.ndarray,
    dispatch_s: np.ndarray,
    departure_s: np.ndarray,
) -> RebuiltBatches:
    """The batches that the log itself names, `batch_id [n]`, below 0 where a request has none."""
    _check_instants(replica, request_class, dispatch_s, departure_s)
    check(len(batch_id) == len(replica), "batch_id", len(batch_id), "needs one for each request")
    batch = np.full(len(batch_id), NO_BATCH)
    rows = batch_id >= 0
    batch[rows] = np.unique(batch_id[rows], return_inverse=True)[1]
    found = batch_table(batch, replica, request_class, dispatch_s, departure_s)
    known = (replica[rows], dispatch_s[rows], departure_s[rows])
    return found._replace(kind=kind_of(found, *known))


def _check_instants(
    replica: np.ndarray, request_class: np.ndarray, dispatch_s: np.ndarray, departure_s: np.ndarray
) -> None:
    count = len(departure_s)
    for field, values in (
        ("replica", replica),
        ("request_class", request_class),
        ("dispatch_s", dispatch_s),
    ):
        rule = f"the lengths must be equal, and there are {count} of departure_s"
        check(len(values) == count, f"len({field})", len(values), rule)
    for field, values in (("dispatch_s", dispatch_s), ("departure_s", departure_s)):
        infinite = np.isinf(values)
        if infinite.any():
            place = int(np.argmax(infinite))
            check(False, f"{field}[{place}]", float(values[place]), "must be finite, or NaN")
    before = departure_s < dispatch_s  # False for NaN
    if before.any():
        place = int(np.argmax(before))
        rule = f"must not be before dispatch_s[{place}] = {float(dispatch_s[place])!r}"
        check(False, f"departure_s[{place}]", float(departure_s[place]), rule)


def _cells(
    replica: np.ndarray, start_s: np.ndarray, end_s: np.ndarray, tolerance_s: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The batch of each request `[n]`; and in the order `[n]` of the first pass, who is unsure.

    Chains of near starts are cut where ends lie apart, and cut again where starts then do.
    """
    n = len(start_s)
    order = np.lexsort((end_s, start_s, replica))
    other_replica = np.diff(replica[order]) != 0
    apart_s = np.maximum(np.diff(start_s[order]), np.abs(np.diff(end_s[order])))
    near = ~other_replica & (apart_s > tolerance_s / 2) & (apart_s <= 2 * tolerance_s)
    unsure = np.zeros(n, bool)
    unsure[:-1] |= near
    unsure[1:] |= near
    cell = np.zeros(n, np.int64)
    cell[order] = _numbered(other_replica | (np.diff(start_s[order]) > tolerance_s), n)
    for values_s in (end_s, start_s):
        cell = _cut_where_apart(cell, values_s, tolerance_s)
    return cell, order, unsure


def _cut_where_apart(cell: np.ndarray, values_s: np.ndarray, tolerance_s: float) -> np.ndarray:
    """The cells `[n]`, those cut whose neighbors in value lie apart. Few have any that do."""
    cells = int(cell.max(initial=-1)) + 1
    low_s, high_s = np.full(cells, np.inf), np.full(cells, -np.inf)
    np.minimum.at(low_s, cell, values_s)
    np.maximum.at(high_s, cell, values_s)
    rows = np.flatnonzero((high_s - low_s > tolerance_s)[cell])
    rows = rows[np.lexsort((values_s[rows], cell[rows]))]
    other = np.diff(cell[rows]) != 0
    piece = _numbered(other | (np.diff(values_s[rows]) > tolerance_s), len(rows))
    cut = cell.copy()
    cut[rows] = cells + piece
    kept = np.bincount(cut, minlength=1) > 0
    return np.asarray((np.cumsum(kept) - 1)[cut])


def _numbered(cut: np.ndarray, n: int) -> np.ndarray:
    """0 for the first of n, and one more after each cut `[n - 1]`."""
    return np.concatenate([[0], np.cumsum(cut)])[:n]


def _with_derived_dispatch(found: RebuiltBatches, arrival_s: np.ndarray | None) -> RebuiltBatches:
    """Dispatches as early as they can be where arrivals are known, else NaN."""
    if arrival_s is None:
        nothing = np.full(len(found.dispatch_s), np.nan)
        return found._replace(dispatch_s=nothing, dispatch_origin="absent")
    check(len(arrival_s) == len(found.batch), "arrival_s", len(arrival_s), "needs one per request")
    earliest_s = np.full(len(found.departure_s), -np.inf)
    rows = found.batch >= 0
    np.maximum.at(earliest_s, found.batch[rows], arrival_s[rows])
    for number in np.unique(found.replica):
        own = np.flatnonzero(found.replica == number)  # in order of departure here
        earliest_s[own[1:]] = np.maximum(earliest_s[own[1:]], found.departure_s[own[:-1]])
    late = earliest_s > found.departure_s
    if late.any():
        place = int(np.argmax(late))
        rule = f"a request of its batch arrived later, at {float(earliest_s[place])!r}"
        check(False, f"departure_s of batch {place}", float(found.departure_s[place]), rule)
    return found._replace(dispatch_s=earliest_s, dispatch_origin="derived")


def _share(chosen: np.ndarray) -> float:
    return float(chosen.mean()) if len(chosen) else 0.0
