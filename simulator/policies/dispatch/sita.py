"""Size interval task assignment: each replica serves an interval of the classes, by their cost."""

from collections.abc import Mapping, Sequence

import numpy as np

from simulator.checks import check, check_section, checked_number
from simulator.observation import Observation
from simulator.policies.choose import BatchActions, batch_latency_s, sizes_by_class
from simulator.policies.dispatch.class_replicas import class_sizes, needs_several, send_by_class
from simulator.policies.rule import Rule
from simulator.policies.space import Choice, Space
from simulator.scenario import Scenario

RELATIVE_SHARES = (0.1, 0.3, 1.0, 3.0, 10.0)


class SitaDispatch(Rule):
    """Classes in ascending order of L(1) are cut into intervals, one after the other by replica.

    An interval is several classes on one replica, or one class on several replicas; the cuts make
    the largest load of a replica as small as cuts between classes can. Load: the rate of a class,
    `shares` by class name in 1/s (all equal where it is not given), times its seconds per request
    in batches of `batch_size`. A replica serves the class of its interval whose oldest has waited
    longest; the others hold up nobody. A class goes to the replica of its own that would finish it
    first.

    The segregation of the paper (section 2d of the notes on serving systems) and the size intervals
    of Harchol-Balter, Crovella and Murta 1999, which also cut within a class, by request size: here
    the size of a request that waits is not seen. Stable only where every interval is, so it needs
    `shares` near the real ones.
    """

    name = "sita"

    def __init__(
        self,
        scenario: Scenario,
        batch_size: int | Mapping[str, int],
        shares: Mapping[str, float] | None = None,
    ) -> None:
        sizes = sizes_by_class("batch_size", batch_size, scenario)
        self._batches = BatchActions(scenario, sizes)
        parameters = scenario.parameters()
        rate_rps = _rates(scenario, shares)
        latency_s = batch_latency_s(scenario)
        order = np.argsort(latency_s[:, :, 1].mean(axis=0), kind="stable")
        served = np.minimum(np.array(sizes), parameters.max_batch_size[:, None])  # [K, C]
        replica, request_class = np.indices(served.shape)
        request_s = latency_s[replica, request_class, served] / served
        self._allowed = np.zeros(served.shape, bool)  # [K, C]
        for classes, replicas in intervals((request_s * rate_rps)[:, order]):
            self._allowed[replicas.start : replicas.stop, order[list(classes)]] = True
        self._rank = np.zeros(len(sizes))

    @classmethod
    def misfit(cls, scenario: Scenario) -> str | None:
        """It needs actions that name the class, and replicas that serve every class."""
        if not scenario.parameters().serves.all():
            return "cuts the classes over all replicas, and some do not serve every class"
        return needs_several(scenario)

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """A batch size for each class, and shares relative to the last class's where they count.

        Two replicas can be cut between two classes in one way only.
        """
        sizes, (*names, last) = class_sizes(scenario), scenario.class_names
        if max(len(scenario.replicas), len(scenario.request_classes)) == 2:
            return sizes
        shares = dict.fromkeys((f"shares.{name}" for name in names), Choice(RELATIVE_SHARES))
        fixed = {f"shares.{last}": Choice((1.0,))}
        even = dict.fromkeys((*shares, *fixed), 1.0)
        return Space({**sizes.axes, **shares, **fixed}, {**(sizes.default or {}), **even})

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        return send_by_class(self._batches, observation, action_mask, self._allowed, self._rank)


def _rates(scenario: Scenario, shares: Mapping[str, float] | None) -> np.ndarray:
    """Expected arrival rates `[C]`, equal ones where none are given."""
    names = scenario.class_names
    if shares is None:
        return np.ones(len(names))
    check_section("shares", shares)
    holds = set(shares) == set(names)
    check(holds, "shares", dict(shares), f"needs one rate for each of {list(names)}")
    return np.array([checked_number(f"shares.{name}", shares[name], above=True) for name in names])


Interval = tuple[range, range]  # classes, by their place in the order, and replicas


def intervals(load: np.ndarray) -> Sequence[Interval]:
    """Cuts classes and replicas so that the largest load of a replica is as small as can be.

    `load [K, C]`: of a replica that serves all requests of the class, classes in their order.
    Several replicas share a class in proportion to their speeds: 1 / sum of 1 / load. By dynamic
    programming; of equally good cuts the first classes get as few replicas as they need.
    """
    replicas, classes = load.shape
    best: dict[tuple[int, int], tuple[float, tuple[Interval, ...]]] = {(0, 0): (0.0, ())}
    for through, used in np.ndindex(classes + 1, replicas + 1):
        if (through, used) == (0, 0) or through == 0 or used == 0:
            continue
        several = [
            (first, used - 1, load[used - 1, first:through].sum()) for first in range(through)
        ]
        shared = [
            (through - 1, first, 1.0 / (1.0 / load[first:used, through - 1]).sum())
            for first in range(used - 1)
        ]
        for before, without, most in several + shared:
            if (before, without) not in best:
                continue
            worst, cuts = best[before, without]
            worst = max(worst, float(most))
            if (through, used) not in best or worst < best[through, used][0]:
                cut = (range(before, through), range(without, used))
                best[through, used] = (worst, (*cuts, cut))
    return best[classes, replicas][1]
