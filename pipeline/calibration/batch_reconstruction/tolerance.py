"""How far apart the instants of one batch are stamped, and how finely a log tells time."""

import numpy as np

_GRIDS_S = (1.0, 0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6)
_SAMPLE = 10_000  # instants that rule out most grids
_BINS_PER_DECADE = 8
_QUIET = 0.002  # share of the gaps that a bin may hold and still count as empty
_LEAST_BINS = 2  # of an empty stretch
_CROWD = 0.01  # share of the gaps, those of 0 included, that lie within batches
_SHORT_SERVICE = 0.005  # quantile of service times that gaps within a batch stay below
_STAMPING = 0.2  # of a short service: what lies further apart is no stamping of one instant
_LONG_GAP = 0.9  # quantile of gaps, where service times are not known


def time_resolution(instants_s: np.ndarray) -> float:
    """The coarsest of 1 s, 0.1 s, .. 1 us that all instants are multiples of; 0 for none of them.

    0 too where there is no instant. Instants `[n]` in s from the origin of their source: beyond
    about 1e8 s a float does not tell a microsecond.
    """
    if len(instants_s) == 0:
        return 0.0
    some_s = instants_s[:: max(1, len(instants_s) // _SAMPLE)]
    for grid_s in _GRIDS_S:
        if _on_grid(some_s, grid_s) and _on_grid(instants_s, grid_s):
            return grid_s
    return 0.0


def _on_grid(instants_s: np.ndarray, grid_s: float) -> bool:
    steps = instants_s / grid_s
    return bool((np.abs(steps - np.rint(steps)) <= 1e-6 + 1e-15 * np.abs(steps)).all())


def infer_tolerance(
    replica: np.ndarray, dispatch_s: np.ndarray, departure_s: np.ndarray, resolution_s: float
) -> float:
    """How far apart, in s, the instants of one batch are stamped.

    Neighboring starts of a replica have gaps of two crowds: those within a batch, equal stamps
    included, and those between batches, at least a service time. The answer is the geometric middle
    of the first empty stretch of their logarithms with a hundredth of the gaps on each side, looked
    for below the short service times (where `dispatch_s` is `departure_s`, services are not known:
    below the long gaps); it begins below a fifth of these. At least half the time resolution, and
    that where there is no such stretch: then only equal stamps are together.
    """
    least_s = resolution_s / 2
    order = np.lexsort((dispatch_s, replica))
    gap_s = np.diff(dispatch_s[order])[np.diff(replica[order]) == 0]
    service_s = departure_s - dispatch_s
    low_s = max(resolution_s, 1e-7)
    if len(gap_s) == 0 or gap_s.max() <= low_s:
        return least_s
    if service_s.any():
        high_s = float(np.quantile(service_s[service_s > 0], _SHORT_SERVICE))
    else:
        high_s = float(np.quantile(gap_s[gap_s > least_s], _LONG_GAP))
    if high_s <= 2 * low_s:
        return least_s
    bins = max(2, int(np.ceil(np.log10(high_s / low_s) * _BINS_PER_DECADE)))
    edges_s = np.geomspace(low_s, high_s, bins + 1)
    equal = gap_s <= least_s
    inner_s = gap_s[~equal & (gap_s < high_s)]
    count = np.histogram(np.maximum(inner_s, low_s * 1.000001), edges_s)[0]
    below = (equal.sum() + np.cumsum(count) - count) / len(gap_s)
    for begin, end in _runs(count <= _QUIET * len(gap_s)):
        stamped = edges_s[begin] <= max(2 * low_s, _STAMPING * high_s)
        crowds = min(below[begin], (gap_s > edges_s[end]).mean())
        if stamped and end - begin >= _LEAST_BINS and crowds >= _CROWD:
            return max(least_s, float(np.sqrt(edges_s[begin] * edges_s[end])))
    return least_s


def _runs(quiet: np.ndarray) -> list[tuple[int, int]]:
    """Begin and end of each run of True, in order."""
    edge = np.diff(np.concatenate([[0], quiet.astype(int), [0]]))
    begin, end = np.flatnonzero(edge == 1), np.flatnonzero(edge == -1)
    return [(int(first), int(after)) for first, after in zip(begin, end, strict=True)]
