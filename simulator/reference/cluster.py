"""One cluster: its queues, its replicas, and all that is told of them."""

import math
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from simulator.reference.parts import Luck, Queue, ReplicaState, Request, SetPointValues
from simulator.reference.signals import Signals, current_signals, observed
from simulator.scenario import DecisionEpochs, DecisionKind, QueuePlace, Scenario
from simulator.state import Ending, EventKind, ReplicaMode
from simulator.workload import Arrivals

TERMS_BY_CLASS = ("completed", "response_s", "number_in_system_s", "shed", "slo_misses")


@dataclass
class Cluster:
    """One lane. What happens is told to `events` as (clock, kind, subject), in order."""

    scenario: Scenario
    arrivals: Arrivals
    luck: Luck
    horizon_s: float
    drains: bool = False
    clock_s: float = field(default=0.0, init=False)
    ending: Ending = field(default=Ending.RUNNING, init=False)
    events: list[tuple[float, EventKind, int]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        scenario, classes = self.scenario, len(self.scenario.request_classes)
        self.requests = _requests(self.arrivals)
        self.next_request = 0
        self.at_the_door: Request | None = None  # waits for the policy to route it
        queues = 1 if self.is_central else len(scenario.replicas)
        self.queues = [Queue([deque() for _ in range(classes)]) for _ in range(queues)]
        self.replicas = [
            ReplicaState(k, model, fault_boundaries=_row(self.luck.fault_s, k))
            for k, model in enumerate(scenario.replicas)
        ]
        initial = scenario.scaling.initial_replicas
        self.replicas_on = len(self.replicas) if initial is None else initial  # wanted
        for replica in self.replicas[: self.replicas_on]:
            replica.mode = ReplicaMode.UP
        self.set_points = _first_set_points(scenario)
        self.below_since_s = math.inf  # since when the autoscaler has wanted fewer replicas
        # Timers of the lane. Ticks, views and controls that have passed are counted, because a
        # product does not drift as a running sum does.
        self.holds = False
        self.ticks = self.views = self.controls = 0
        self.tick_s = scenario.tick_s if self.at_ticks else math.inf
        self.batching_s = math.inf
        # Signals
        self.last_dispatch_s = 0.0
        self.last_replica = -1
        self.arrival_rate_rps = [0.0] * classes  # as of rate_at_s
        self.rate_at_s = [0.0] * classes
        self.responses_s: list[float] = []
        self.arrived = [0] * classes
        # Reward terms
        self.number_in_system = [0] * classes
        self.terms = {term: [0.0] * classes for term in TERMS_BY_CLASS}
        self.replica_seconds = self.energy_j = self.bill = 0.0
        self.view: Signals = current_signals(self)

    @property
    def kind(self) -> DecisionKind:
        """Which decision is the policy's."""
        return self.scenario.decision

    @property
    def at_ticks(self) -> bool:
        """True where a `dispatch` decision is due at every tick."""
        ticks = self.scenario.decision_epochs == DecisionEpochs.TICKS
        return ticks and self.kind == DecisionKind.DISPATCH

    @property
    def is_central(self) -> bool:
        """True where requests wait in one queue for a replica."""
        return self.scenario.queues == QueuePlace.CENTRAL

    @property
    def view_s(self) -> float:
        """When the view is refreshed next. A product: a running sum would drift."""
        refresh_s = self.scenario.view.refresh_s
        return (self.views + 1) * refresh_s if refresh_s > 0 else math.inf

    @property
    def control_s(self) -> float:
        """When the set-points, or the autoscaler, are asked next."""
        controlled = self.kind == DecisionKind.TUNE or self.scenario.scaling.autoscaler is not None
        return (self.controls + 1) * self.scenario.control_interval_s if controlled else math.inf

    def queue_of(self, replica: ReplicaState) -> Queue:
        """The queue that the replica takes requests from."""
        return self.queues[0 if self.is_central else replica.number]

    def wants(self, replica: ReplicaState) -> bool:
        """True where the replica is to be on."""
        return replica.number < self.replicas_on

    def observed(self) -> dict[str, object]:
        """What the dispatcher knows now, by the name of the field of the observation."""
        return observed(self)

    def reward_terms(self) -> list[float]:
        """All terms so far, in the order of `reward_term_names`."""
        by_class = [value for term in TERMS_BY_CLASS for value in self.terms[term]]
        return [*by_class, self.replica_seconds, self.energy_j, self.bill]


def log_event(cluster: Cluster, kind: EventKind, subject: int) -> None:
    """Notes the event at the clock."""
    cluster.events.append((cluster.clock_s, kind, subject))


def _first_set_points(scenario: Scenario) -> SetPointValues:
    """Those of the scenario, where no replica is held below its own maximum."""
    tokens = [model.tokens for model in scenario.replicas if model.tokens is not None]
    return SetPointValues(
        max_batch_size=max(model.max_batch_size for model in scenario.replicas),
        batch_timeout_s=scenario.batch_timeout_s,
        max_num_seqs=max((model.max_num_seqs for model in tokens), default=0),
    )


def _requests(arrivals: Arrivals) -> list[Request]:
    requests = []
    for number, arrival_s in enumerate(arrivals.arrival_s):
        request_class, size = int(arrivals.request_class[number]), float(arrivals.size[number])
        request = Request(number, float(arrival_s), request_class, size)
        if len(arrivals.prompt_tokens):
            request.prompt_tokens = int(arrivals.prompt_tokens[number])
            request.output_tokens = int(arrivals.output_tokens[number])
        requests.append(request)
    return requests


def _row(drawn: np.ndarray, replica: int) -> list[float]:
    """The numbers drawn for the replica, none where nothing was drawn."""
    return [float(value) for value in drawn[replica]] if len(drawn) else []
