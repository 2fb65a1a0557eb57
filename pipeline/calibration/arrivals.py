"""The arrivals of a log: how many, how bursty, and cut into training, validation and test."""

from typing import NamedTuple

import numpy as np

from simulator.workload import Arrivals


class ArrivalFit(NamedTuple):
    """Mean arrival rate of a class, and the coefficient of variation of its gaps (1: Poisson)."""

    arrival_rate_rps: float
    interarrival_cv: float


def fit_arrivals(arrivals: Arrivals, request_class: int, duration_s: float) -> ArrivalFit:
    """Rate and gap variation of one class; the variation is NaN with fewer than three requests."""
    instants_s = arrivals.arrival_s[arrivals.request_class == request_class]
    gaps_s = np.diff(instants_s)
    cv = float("nan")
    if len(gaps_s) > 1 and gaps_s.mean() > 0:
        cv = float(gaps_s.std() / gaps_s.mean())
    return ArrivalFit(len(instants_s) / duration_s, cv)


class Split(NamedTuple):
    """A span of logged time; splits follow one another and are never shuffled."""

    start_s: float
    end_s: float

    @property
    def span_s(self) -> float:
        """Its length in seconds."""
        return self.end_s - self.start_s


def split_by_time(duration_s: float, shares: dict[str, float]) -> dict[str, Split]:
    """Consecutive spans of `duration_s` in the order and with the shares given.

    Raises ValueError unless every share is above 0 and they sum to 1.
    """
    positive = all(share > 0 for share in shares.values())
    if not (positive and abs(sum(shares.values()) - 1.0) <= 1e-9):
        raise ValueError(f"split = {shares!r}: every share must be above 0, and they must sum to 1")
    edges_s = np.concatenate([[0.0], np.cumsum(list(shares.values()))]) * duration_s
    edges_s[-1] = duration_s  # shares that sum to 1 - 1e-16 must not lose the last arrival
    return {
        name: Split(float(start_s), float(end_s))
        for name, start_s, end_s in zip(shares, edges_s[:-1], edges_s[1:], strict=True)
    }
