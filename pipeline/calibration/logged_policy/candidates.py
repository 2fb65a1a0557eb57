"""The rules that a log of dispatches may have run, with set-points read off it."""

import itertools
from typing import Any, NamedTuple

import numpy as np

from pipeline.calibration.logged_policy.decisions import DispatchDecisions

_CAPS = 3  # sizes that are tried as the maximum
_MOST_CLASSES = 3  # whose orders are tried all
_SLIPS, _SLIP_SHARE = 2, 0.0005  # errors above the fewest that a timeout may have and still count


class Candidate(NamedTuple):
    """A rule of the registry, its parameters, and the class order that it goes by."""

    name: str
    parameters: dict[str, Any]
    order: tuple[int, ...] = ()  # of c_mu: the class that is served first comes first

    @property
    def told(self) -> dict[str, Any]:
        """The parameters and, where there is one, the order."""
        return {**self.parameters, **({"class_order": list(self.order)} if self.order else {})}


def dispatch_candidates(decisions: DispatchDecisions) -> list[Candidate]:
    """The candidates, the simpler first, with the set-points that the decisions suggest."""
    caps = likely_caps(decisions)
    found = [Candidate("static_cap", {"batch_size": cap}) for cap in caps]
    found += [Candidate("static_fill", {"batch_size": cap}) for cap in caps if cap > 1]
    for cap in caps:
        if cap > 1:
            parameters = {"max_batch_size": cap, "batch_timeout_s": fit_timeout(decisions, cap)}
            found.append(Candidate("batch_timeout", parameters))
    for name in ("fifo", "round_robin", "random_replica", "shortest_queue"):
        found += [Candidate(name, {"batch_size": cap}) for cap in caps]
    return found + _class_candidates(decisions)


def _class_candidates(decisions: DispatchDecisions) -> list[Candidate]:
    classes = decisions.queue_length.shape[1]
    if classes < 2:
        return []
    caps = [likely_caps(decisions, number)[:2] for number in range(classes)]
    orders = [tuple(range(classes)), tuple(reversed(range(classes)))]
    if classes <= _MOST_CLASSES:
        orders = list(itertools.permutations(range(classes)))
    return [
        Candidate("c_mu", {"batch_size": {f"class_{c}": size[c] for c in range(classes)}}, order)
        for order in orders
        for size in (
            itertools.product(*caps) if classes <= _MOST_CLASSES else [[c[0] for c in caps]]
        )
    ]


def likely_caps(decisions: DispatchDecisions, request_class: int | None = None) -> list[int]:
    """Batch sizes that look like a maximum, the likeliest first: more waited and were left.

    The largest batch is among them: where nothing is ever left, it is all that is known.
    """
    sent = decisions.batch_size > 0
    if request_class is not None:
        sent &= decisions.request_class == request_class
    size = decisions.batch_size[sent]
    if len(size) == 0:
        return [1]
    waiting = decisions.queue_length[np.flatnonzero(sent), decisions.request_class[sent]]
    left = np.bincount(size[waiting > size], minlength=int(size.max()) + 1)
    often = [int(cap) for cap in np.argsort(-left, kind="stable")[:_CAPS] if left[cap] > 0]
    return list(dict.fromkeys([*often, int(size.max())]))


def fit_timeout(decisions: DispatchDecisions, cap: int) -> float:
    """The wait in s that best parts sending from waiting, where no class had `cap` waiting.

    Minimizes `number waited with the oldest at least t + number sent with the oldest below t`. Of
    the values around the best that err hardly more often, the one with the fewest digits: people
    type round numbers. Without such decisions 0.
    """
    rows = (decisions.queue_length < cap).all(axis=1)
    oldest_s = decisions.oldest_wait_s.max(axis=1)[rows]
    sent = decisions.batch_size[rows] > 0
    if not sent.any():
        return 0.0
    order = np.argsort(oldest_s, kind="stable")
    oldest_s, sent = oldest_s[order], sent[order]
    # errors[i]: t above the first i waits, and at most the next
    errors = np.concatenate([[0], np.cumsum(sent)])
    errors = errors + np.concatenate([np.cumsum(~sent[::-1])[::-1], [0]])
    best = len(errors) - 1 - int(np.argmin(errors[::-1]))
    good = errors <= errors[best] + _SLIPS + _SLIP_SHARE * len(sent)
    first, last = _around(good, best)
    if first == 0:
        return 0.0
    last = min(last, len(oldest_s) - 1)
    return roundest(float(oldest_s[first - 1]), float(oldest_s[last]))


def _around(good: np.ndarray, place: int) -> tuple[int, int]:
    """The first and last place of the run of True that holds `place`."""
    bad = np.flatnonzero(~good)
    before, after = bad[bad < place], bad[bad > place]
    first = int(before[-1]) + 1 if len(before) else 0
    return first, int(after[0]) - 1 if len(after) else len(good) - 1


def roundest(above: float, most: float) -> float:
    """The number in (above, most] with the fewest decimals; `most` where rounding finds none."""
    for decimals in range(7):
        value = round(np.floor(most * 10**decimals + 1e-9) / 10**decimals, decimals)
        if above < value <= most + 1e-12:
            return float(value)
    return most
