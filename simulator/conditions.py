"""What a cluster meets and does beside serving: scaling, faults, delays, views, set-points."""

import math
from dataclasses import dataclass
from itertools import pairwise

from simulator.checks import check, check_whole


def _check_time(field: str, value: float, above: bool = False) -> None:
    rule = "must be finite and above 0" if above else "must be finite and at least 0"
    check(math.isfinite(value) and (value > 0 if above else value >= 0), field, value, rule)


@dataclass(frozen=True)
class Autoscaler:
    """The scaling rule inside the engine, asked every `control_interval_s` of the scenario.

    It wants `ceil(number in system / target_in_system)` replicas, at least `keep_warm_replicas`.
    More are started at once; fewer are kept only after it has wanted fewer, each time it was asked,
    for `scale_down_delay_s` (Ray Serve, KEDA: `reference/serving.md` 2f).
    """

    target_in_system: float
    keep_warm_replicas: int = 1
    scale_down_delay_s: float = 0.0

    def __post_init__(self) -> None:
        _check_time("target_in_system", self.target_in_system, above=True)
        warm = self.keep_warm_replicas
        check(warm >= 0, "keep_warm_replicas", warm, "must be at least 0")
        _check_time("scale_down_delay_s", self.scale_down_delay_s)


@dataclass(frozen=True)
class Scaling:
    """How replicas start and stop. Replicas 0 to n - 1 are on where n are wanted.

    A start takes `cold_start_s` on average, lognormal with `cold_start_cv`. A replica that is no
    longer wanted drains: it finishes what was sent to it, then it is off. An arrival whose class no
    wanted replica serves raises the wanted number until one does (from zero: KEDA's activation).
    """

    cold_start_s: float = 0.0
    cold_start_cv: float = 0.0
    initial_replicas: int | None = None  # on at the start, warm; None is all
    autoscaler: Autoscaler | None = None

    def __post_init__(self) -> None:
        _check_time("cold_start_s", self.cold_start_s)
        _check_time("cold_start_cv", self.cold_start_cv)
        initial = self.initial_replicas
        check(initial is None or initial >= 0, "initial_replicas", initial, "must be at least 0")


@dataclass(frozen=True)
class Fault:
    """A fault that is written in the scenario."""

    replica: int
    start_s: float
    duration_s: float

    def __post_init__(self) -> None:
        check(self.replica >= 0, "faults.replica", self.replica, "must be at least 0")
        _check_time("faults.start_s", self.start_s)
        _check_time("faults.duration_s", self.duration_s, above=True)


@dataclass(frozen=True)
class Faults:
    """When replicas go DOWN. What such a replica has is lost: requeued at the front, or shed.

    Scripted faults, and on every replica random ones: exponential with `mean_time_between_s`
    from one repair to the next fault, then exponential repairs of `repair_s`. A replica that is off
    is spared.
    """

    scripted: tuple[Fault, ...] = ()
    mean_time_between_s: float = math.inf
    repair_s: float = 1.0
    requeue: bool = True

    def __post_init__(self) -> None:
        between_s = self.mean_time_between_s
        check(between_s > 0, "mean_time_between_s", between_s, "must be above 0")
        _check_time("repair_s", self.repair_s, above=True)
        ordered = sorted(self.scripted, key=lambda fault: (fault.replica, fault.start_s))
        for first, second in pairwise(ordered):
            apart = first.replica != second.replica or (
                first.start_s + first.duration_s < second.start_s
            )
            check(
                apart, "faults.scripted", second, "must begin after the fault before it has ended"
            )


@dataclass(frozen=True)
class DispatchDelay:
    """The network: `constant_s` plus a lognormal of mean `mean_s` and coefficient `cv`.

    Batches to one replica keep their order, and so do requests routed to one replica.
    """

    constant_s: float = 0.0
    mean_s: float = 0.0
    cv: float = 0.0

    def __post_init__(self) -> None:
        for field in ("constant_s", "mean_s", "cv"):
            _check_time(f"dispatch_delay.{field}", getattr(self, field))

    @property
    def exists(self) -> bool:
        """True unless what is sent arrives at once."""
        return self.constant_s + self.mean_s > 0


@dataclass(frozen=True)
class View:
    """What the dispatcher knows of the replicas: signals as of the last refresh.

    Stale where `refresh_s` is above 0: refreshed at its multiples. With `own_in_flight` the
    dispatcher also counts, live, the requests that it sent to each replica and that are unanswered.
    With a central queue it sees how long each of the `oldest_requests` first of a class has waited.
    """

    refresh_s: float = 0.0
    own_in_flight: bool = False
    oldest_requests: int = 0

    def __post_init__(self) -> None:
        _check_time("view.refresh_s", self.refresh_s)
        check_whole("view.oldest_requests", self.oldest_requests, 0)


@dataclass(frozen=True)
class SetPoints:
    """The menus of a `tune` decision; an empty one leaves its set-point alone.

    An action sets all at once, in every replica. A batch size or number of sequences above a
    replica's own maximum counts as that maximum.
    """

    max_batch_size: tuple[int, ...] = ()
    batch_timeout_s: tuple[float, ...] = ()
    max_num_seqs: tuple[int, ...] = ()
    replicas_on: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for field, low in (("max_batch_size", 1), ("max_num_seqs", 1), ("replicas_on", 0)):
            menu = getattr(self, field)
            holds = all(value >= low for value in menu) and list(menu) == sorted(set(menu))
            check(holds, f"set_points.{field}", menu, f"must ascend from at least {low}")
        menu = self.batch_timeout_s
        holds = all(math.isfinite(value) and value >= 0 for value in menu)
        rule = "must ascend from at least 0"
        check(holds and list(menu) == sorted(set(menu)), "set_points.batch_timeout_s", menu, rule)

    @property
    def any(self) -> bool:
        """True where there is something to decide."""
        return bool(
            self.max_batch_size or self.batch_timeout_s or self.max_num_seqs or self.replicas_on
        )
