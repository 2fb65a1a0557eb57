"""Settings of the simulated cluster: how it decides, and what it meets beside serving."""

from dataclasses import dataclass, field

from pipeline.settings.checks import (
    check_choice,
    check_name,
    check_not_negative,
    check_positive,
    check_share,
)
from simulator.checks import check


@dataclass(frozen=True)
class DispatchDelaySettings:
    """The network before a sent batch starts: a constant plus a lognormal part."""

    constant_s: float = 0.0
    mean_s: float = 0.0  # of the lognormal part
    cv: float = 0.0  # its coefficient of variation

    def __post_init__(self) -> None:
        check_not_negative(self, "constant_s", "mean_s", "cv")


@dataclass(frozen=True)
class ViewSettings:
    """What the dispatcher knows of its replicas."""

    refresh_s: float = 0.0  # between refreshes of their signals; 0: live
    own_in_flight: bool = False  # it counts live what it sent and is unanswered
    oldest_requests: int = 0  # of each class, whose waits it sees one by one

    def __post_init__(self) -> None:
        check_not_negative(self, "refresh_s", "oldest_requests")


@dataclass(frozen=True)
class FaultSettings:
    """A replica that goes down at a given instant of every episode."""

    replica: int
    start_s: float
    duration_s: float

    def __post_init__(self) -> None:
        check_not_negative(self, "replica", "start_s")
        check_positive(self, "duration_s")


@dataclass(frozen=True)
class FaultsSettings:
    """When replicas go down, and what becomes of the requests that they had."""

    scripted: dict[str, FaultSettings] = field(default_factory=dict)  # by a name of yours
    mean_time_between_s: float | None = None  # exponential, on each replica; null: none at random
    repair_s: float = 1.0  # on average, exponential
    requeue: bool = True  # what is lost returns to the front of the queue; else it is shed

    def __post_init__(self) -> None:
        for name in self.scripted:
            check_name("scripted", name)
        check_positive(self, "mean_time_between_s", "repair_s")


@dataclass(frozen=True)
class AutoscalerSettings:
    """The rule that wants `ceil(number in system / target_in_system)` replicas."""

    target_in_system: float | None = None  # requests for each replica; null: no autoscaler
    keep_warm_replicas: int = 1  # never fewer on
    scale_down_delay_s: float = 0.0  # for which fewer must have been wanted
    control_interval_s: float = 1.0  # between two times that it is asked

    def __post_init__(self) -> None:
        check_positive(self, "target_in_system", "control_interval_s")
        check_not_negative(self, "keep_warm_replicas", "scale_down_delay_s")


@dataclass(frozen=True)
class ScalingSettings:
    """How replicas start and stop."""

    cold_start_s: float = 0.0  # on average
    cold_start_cv: float = 0.0  # coefficient of variation, lognormal
    initial_replicas: int | None = None  # on at the start of an episode; null: all
    autoscaler: AutoscalerSettings = AutoscalerSettings()

    def __post_init__(self) -> None:
        check_not_negative(self, "cold_start_s", "cold_start_cv")
        initial = self.initial_replicas
        check(initial is None or initial >= 0, "initial_replicas", initial, "must be at least 0")


@dataclass(frozen=True)
class ClusterSettings:
    """The cluster and the rules of its decisions; null is as logged, or as calibrated.

    The keys from `may_shed` on have defaults under which the cluster is as calibrated.
    """

    queue_capacity: int | None = None  # requests that may wait
    batch_sizes: tuple[int, ...] | None = None  # the menu of the action, ascending
    max_batch_size: int | None = None  # of each replica
    class_choice: str | None = None  # any, or head_of_line
    decision_epochs: str | None = None  # events, or ticks
    tick_s: float | None = None
    rate_window_s: float | None = None
    replicas: int | None = None  # how many
    spell_share: float | None = None  # of the variance of log noise, common to near batches
    spell_time_s: float | None = None  # in which that correlation falls to 1/e
    may_shed: bool = False  # an action gives up the oldest request of a class
    replica_backlog: int = 0  # batches that may be sent behind the one in service
    mixed: str = "never"  # batches of several classes: never, sum, or slowest
    price_per_hour: float = 0.0  # money per hour that a replica is on
    dispatch_delay: DispatchDelaySettings = DispatchDelaySettings()
    view: ViewSettings = ViewSettings()
    faults: FaultsSettings = field(default_factory=FaultsSettings)
    scaling: ScalingSettings = ScalingSettings()

    def __post_init__(self) -> None:
        check_positive(self, "queue_capacity", "max_batch_size", "tick_s", "rate_window_s")
        check_positive(self, "replicas", "spell_time_s")
        check_not_negative(self, "replica_backlog", "price_per_hour")
        if self.spell_share is not None:
            check_share(self, "spell_share")
        sizes = self.batch_sizes
        if sizes is not None:
            ascending = bool(sizes) and sizes[0] >= 1 and list(sizes) == sorted(set(sizes))
            check(ascending, "batch_sizes", sizes, "must ascend from at least 1, without repeats")
            largest = self.max_batch_size
            fits = not sizes or largest is None or sizes[0] <= largest
            check(fits, "batch_sizes", sizes, f"no size fits max_batch_size = {largest}")
        check_choice(self, "mixed", ("never", "sum", "slowest"))
        check_choice(self, "class_choice", (None, "any", "head_of_line"))
        check_choice(self, "decision_epochs", (None, "events", "ticks"))
