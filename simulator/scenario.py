"""What a scenario is made of, checked where it enters."""

import math
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from simulator.checks import check, check_whole
from simulator.conditions import DispatchDelay, Faults, Scaling, SetPoints, View
from simulator.noise import NoisePath
from simulator.parameters import Parameters, build_parameters
from simulator.replica import Replica


class DecisionKind(StrEnum):
    """Which layer the environment opens to the policy; the others follow rules in the engine.

    `dispatch`: which batch goes to which replica. `route`: which replica an arrival joins; replicas
    batch by the local rule. `tune`: the set-points, every `control_interval_s`.
    """

    DISPATCH = "dispatch"
    ROUTE = "route"
    TUNE = "tune"


class QueuePlace(StrEnum):
    """Where requests wait: in one central queue, or each in the queue of a replica."""

    CENTRAL = "central"
    REPLICA = "replica"


class DecisionEpochs(StrEnum):
    """When a `dispatch` decision is due.

    `events`: as soon as a request waits and a replica can take it; after WAIT at the next event,
    or `tick_s` later, whichever comes first.
    `ticks`: at every multiple of `tick_s`, whether or not anything waits (the paper's step).
    """

    EVENTS = "events"
    TICKS = "ticks"


class ClassChoice(StrEnum):
    """Whether the action names the request class, or takes the class at the head of the line."""

    ANY = "any"
    HEAD_OF_LINE = "head_of_line"


class MixedBatches(StrEnum):
    """Whether a batch may hold several classes, and what it then takes (`serving.md`, D4).

    `sum`: the largest alpha of its classes, plus the sum of beta times size. `slowest`: as if all
    were of the class that takes longest.
    """

    NEVER = "never"
    SUM = "sum"
    SLOWEST = "slowest"


class Routing(StrEnum):
    """The routing rule inside the engine, for `tune` with replica queues.

    `shortest_queue`: fewest requests waiting and in service, the lowest number among equals.
    """

    SHORTEST_QUEUE = "shortest_queue"
    ROUND_ROBIN = "round_robin"


_CHOICES: dict[str, type[StrEnum]] = {
    "class_choice": ClassChoice,
    "decision_epochs": DecisionEpochs,
    "decision": DecisionKind,
    "queues": QueuePlace,
    "mixed": MixedBatches,
    "routing": Routing,
}


@dataclass(frozen=True)
class RequestClass:
    """A kind of request: its name, its targets and its weight in the reward."""

    name: str
    slo_s: float  # response time
    weight: float = 1.0
    slo_ttft_s: float = math.inf  # time to the first token; continuous batching only
    slo_tpot_s: float = math.inf  # time per output token after the first

    def __post_init__(self) -> None:
        check(bool(self.name), "request_class.name", self.name, "must not be empty")
        check(
            math.isfinite(self.slo_s) and self.slo_s > 0,
            f"{self.name}.slo_s",
            self.slo_s,
            "must be a positive, finite number of seconds",
        )
        for name in ("slo_ttft_s", "slo_tpot_s"):
            value = getattr(self, name)
            check(value > 0, f"{self.name}.{name}", value, "must be above 0")
        check(
            math.isfinite(self.weight) and self.weight >= 0,
            f"{self.name}.weight",
            self.weight,
            "must be finite and at least 0",
        )


@dataclass(frozen=True)
class Scenario:
    """A cluster, its request classes, and the rules of its decisions. Immutable and checked."""

    request_classes: tuple[RequestClass, ...]
    replicas: tuple[Replica, ...]
    batch_sizes: tuple[int, ...]  # the menu of a `dispatch` action, ascending
    queue_capacity: int = 100  # of the central queue, or of each replica queue
    class_choice: ClassChoice = ClassChoice.ANY
    decision_epochs: DecisionEpochs = DecisionEpochs.EVENTS
    tick_s: float = 0.005
    rate_window_s: float = 1.0  # time constant of the arrival-rate and utilization averages
    spell_share: float = 0.0  # of the variance of log noise, common to batches near in time
    spell_time_s: float = 1.0  # in which that correlation falls to 1/e
    noise_path: NoisePath = field(default_factory=NoisePath)  # measured; in the place of spells
    decision: DecisionKind = DecisionKind.DISPATCH
    queues: QueuePlace = QueuePlace.CENTRAL
    may_shed: bool = False  # `dispatch`: an action gives up the oldest request of a class
    replica_backlog: int = 0  # batches that a central dispatcher may send behind the one in service
    mixed: MixedBatches = MixedBatches.NEVER
    batch_timeout_s: float = 0.0  # of the local rule; its batch size is each replica's maximum
    routing: Routing = Routing.SHORTEST_QUEUE
    control_interval_s: float = 1.0  # of `tune` decisions and of the autoscaler
    set_points: SetPoints = field(default_factory=SetPoints)
    scaling: Scaling = field(default_factory=Scaling)
    faults: Faults = field(default_factory=Faults)
    dispatch_delay: DispatchDelay = field(default_factory=DispatchDelay)
    view: View = field(default_factory=View)

    def __post_init__(self) -> None:
        for name, members in _CHOICES.items():
            value = getattr(self, name)
            known = ", ".join(members)
            check(value in set(members), name, value, f"must be one of {known}")
        self._check_classes_and_replicas()
        self._check_numbers()
        self._check_layers()

    def _check_classes_and_replicas(self) -> None:
        check(len(self.request_classes) >= 1, "request_classes", (), "needs at least one class")
        check(len(self.replicas) >= 1, "replicas", (), "needs at least one replica")
        names = [request_class.name for request_class in self.request_classes]
        check(len(set(names)) == len(names), "request_classes", names, "names must differ")
        for number, replica in enumerate(self.replicas):
            check(
                len(replica.alpha_s) == len(names),
                f"replicas[{number}].alpha_s",
                replica.alpha_s,
                f"needs one value for each of {len(names)} request classes",
            )
        for number, name in enumerate(names):
            served = any(not r.serves or r.serves[number] for r in self.replicas)
            check(served, "replicas.serves", name, "a request class that no replica serves")
        kinds = {replica.tokens is not None for replica in self.replicas}
        rule = "must be set for all replicas or for none"
        check(len(kinds) == 1, "replicas.tokens", [r.tokens for r in self.replicas], rule)

    def _check_numbers(self) -> None:
        menu = self.batch_sizes
        check(len(menu) >= 1, "batch_sizes", menu, "needs at least one batch size")
        for size in menu:
            check_whole("batch_sizes", size, 1)
        ascends = all(a < b for a, b in pairwise(menu))
        check(ascends, "batch_sizes", menu, "must ascend, without repeats")
        smallest = min(replica.max_batch_size for replica in self.replicas)
        check(menu[0] <= smallest, "batch_sizes", menu, f"no size fits max_batch_size {smallest}")
        check_whole("queue_capacity", self.queue_capacity, 1)
        check(0 <= self.spell_share < 1, "spell_share", self.spell_share, "must be in [0, 1)")
        alone = self.spell_share == 0.0 or not self.noise_path.exists
        check(alone, "spell_share", self.spell_share, "must be 0: noise_path has spells of its own")
        check_whole("replica_backlog", self.replica_backlog, 0)
        for name in ("tick_s", "rate_window_s", "spell_time_s", "control_interval_s"):
            value = getattr(self, name)
            check(math.isfinite(value) and value > 0, name, value, "must be positive and finite")
        timeout_s = self.batch_timeout_s
        rule = "must be finite and at least 0"
        check(math.isfinite(timeout_s) and timeout_s >= 0, "batch_timeout_s", timeout_s, rule)

    def _check_layers(self) -> None:
        """Layers that cannot be put together."""
        replicas, kind = len(self.replicas), self.decision
        central = self.queues == QueuePlace.CENTRAL
        check(
            kind != "dispatch" or central, "queues", self.queues, "dispatch needs a central queue"
        )
        check(kind == "dispatch" or not self.may_shed, "may_shed", True, "needs dispatch decisions")
        check(kind != "route" or not central, "queues", self.queues, "route needs replica queues")
        if not central:
            seen = self.view.oldest_requests
            check(seen == 0, "view.oldest_requests", seen, "needs a central queue")
            rule = "a replica queue sends nothing ahead"
            check(self.replica_backlog == 0, "replica_backlog", self.replica_backlog, rule)
        if self.continuous:
            rule = "continuous batching needs replica queues"
            check(not central, "queues", self.queues, rule)
            rule = "continuous batching mixes classes as it is"
            check(self.mixed == MixedBatches.NEVER, "mixed", self.mixed, rule)
        if self.mixed != MixedBatches.NEVER:
            rule = "mixed batches take the head of the line"
            holds = kind != "dispatch" or self.class_choice == ClassChoice.HEAD_OF_LINE
            check(holds, "class_choice", self.class_choice, rule)
            tables = [r.latency_table for r in self.replicas if r.latency_table]
            rule = "a table says nothing of a sum over classes"
            check(self.mixed != "sum" or not tables, "latency_table", tables, rule)
            partial = [r.serves for r in self.replicas if not all(r.serves)]
            check(not partial, "replicas.serves", partial, "mixed batches need all classes")
        check(
            kind != "tune" or self.set_points.any, "set_points", self.set_points, "tune needs one"
        )
        rule = f"must be at most the {replicas} replicas"
        most = self.set_points.replicas_on
        check(max(most, default=0) <= replicas, "set_points.replicas_on", most, rule)
        initial = self.scaling.initial_replicas
        check((initial or 0) <= replicas, "scaling.initial_replicas", initial, rule)
        scaler = self.scaling.autoscaler
        if scaler is not None:
            rule = "the policy sets the replicas already"
            holds = kind != "tune" or not self.set_points.replicas_on
            check(holds, "scaling.autoscaler", scaler, rule)
            rule = f"must be at most the {replicas} replicas"
            check(scaler.keep_warm_replicas <= replicas, "keep_warm_replicas", scaler, rule)
        for fault in self.faults.scripted:
            check(fault.replica < replicas, "faults.replica", fault.replica, f"has {replicas}")

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the request classes, in the order of their numbers."""
        return tuple(request_class.name for request_class in self.request_classes)

    @property
    def continuous(self) -> bool:
        """True where replicas run continuous batching."""
        return self.replicas[0].tokens is not None

    @property
    def may_start_replicas(self) -> bool:
        """True where a replica may be off for a while."""
        initial = self.scaling.initial_replicas
        fewer = initial is not None and initial < len(self.replicas)
        return fewer or self.scaling.autoscaler is not None or bool(self.set_points.replicas_on)

    @property
    def has_faults(self) -> bool:
        """True where a replica may go down."""
        return bool(self.faults.scripted) or math.isfinite(self.faults.mean_time_between_s)

    @property
    def has_noise(self) -> bool:
        """True where batches take longer or shorter than expected."""
        return any(r.residuals or any(cv > 0 for cv in r.noise_cv) for r in self.replicas)

    @property
    def may_requeue(self) -> bool:
        """True where a request may leave a replica and wait again."""
        return self.continuous or (self.has_faults and self.faults.requeue)

    def parameters(self) -> Parameters:
        """The scenario as arrays for the kernels."""
        return build_parameters(self)
