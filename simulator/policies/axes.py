"""Axes that several rules have: batch sizes of the menu, and times as shares of the SLO."""

from collections.abc import Sequence

from simulator.policies.space import Choice, Real, Space
from simulator.scenario import Scenario

TIMEOUT_SHARES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # of the tightest SLO
EXPIRY_SHARES = (0.3, 0.4, 0.5, 0.7, 1.0)  # of the SLO of each class
TUNED_SIZE = 8  # of the paper's static baseline


def usable_sizes(scenario: Scenario) -> list[int]:
    """The sizes of the menu that some replica can take."""
    largest = max(replica.max_batch_size for replica in scenario.replicas)
    return [size for size in scenario.batch_sizes if size <= largest]


def batch_size_choice(scenario: Scenario) -> Choice:
    """The menu thinned to about one size per doubling, the smallest and largest usable included."""
    usable = usable_sizes(scenario)
    kept = {usable[0], usable[-1]}
    power = 1
    while power <= usable[-1]:
        kept |= {max((size for size in usable if size <= power), default=usable[0])}
        power *= 2
    return Choice(tuple(sorted(kept)))


def tightest_slo_s(scenario: Scenario) -> float:
    """The shortest response-time target: people set timeouts as shares of what they promised."""
    return min(request_class.slo_s for request_class in scenario.request_classes)


def slo_shares(scenario: Scenario, shares: Sequence[float]) -> Choice:
    """Times in s that are these shares of the tightest SLO."""
    return Choice(tuple(_share_s(share, tightest_slo_s(scenario)) for share in shares))


def timeout_choice(scenario: Scenario) -> Choice:
    """Batch timeouts in s as shares of the tightest SLO, 0 included."""
    return slo_shares(scenario, TIMEOUT_SHARES)


def limit_choice(scenario: Scenario, shares: Sequence[float]) -> Choice:
    """Longest times in s, ascending: these shares of the tightest SLO for all classes.

    Where there are several, then the same shares of each class's own SLO, by class name: such
    limits are set for each model by itself.
    """
    classes, limits_s = scenario.request_classes, slo_shares(scenario, shares).values
    if len(classes) == 1:
        return Choice(limits_s)
    own_s = ({c.name: _share_s(share, c.slo_s) for c in classes} for share in shares)
    return Choice((*limits_s, *own_s))


def expiry_choice(scenario: Scenario) -> Choice:
    """When a request has waited too long: 0 for never, then `limit_choice`."""
    return Choice((0.0, *limit_choice(scenario, EXPIRY_SHARES).values))


def _share_s(share: float, slo_s: float) -> float:
    return float(f"{share * slo_s:.9g}")


def slo_range(scenario: Scenario, low: float, high: float) -> Real:
    """Times in s from the share `low` to the share `high` of the tightest SLO."""
    slo_s = tightest_slo_s(scenario)
    return Real(low * slo_s, high * slo_s, log=True)


def clipped(axis: Choice | Real, value: float) -> float:
    """`value`, or the nearest that the axis has: of an ascending choice the largest up to it."""
    if isinstance(axis, Real):
        return min(max(value, axis.low), axis.high)
    return max((v for v in axis.values if v <= value), default=axis.values[0])


def size_and_default(scenario: Scenario, size: int) -> tuple[Choice, int]:
    """The batch sizes of the menu, and `size` clipped into them."""
    sizes = batch_size_choice(scenario)
    return sizes, int(clipped(sizes, size))


def sizes_space(field: str, scenario: Scenario, sizes: Choice, size: int) -> Space:
    """A batch size `field`, or one of each class where there are several; `size` is the default."""
    names = [field]
    if len(scenario.request_classes) > 1:
        names = [f"{field}.{name}" for name in scenario.class_names]
    return Space(dict.fromkeys(names, sizes), dict.fromkeys(names, size))
