"""What a cluster is made of: requests, queues, batches, sequences and replicas."""

import math
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from simulator.replica import Replica
from simulator.state import ReplicaMode, RequestStatus


class Luck(NamedTuple):
    """All that chance decides, drawn before the episode. Empty where nothing is left to chance."""

    noise_z: np.ndarray  # [R] standard normal, a batch takes that of its first request
    delay_s: np.ndarray  # [R] s on the way to a replica
    cold_start_s: np.ndarray  # [K, M] s, of the n-th start of a replica, in turns
    fault_s: np.ndarray  # [K, F] s, start and end of each fault in turn, infinite after the last


@dataclass(eq=False)
class Request:
    """The unit of work: what arrives, and the record of what became of it."""

    number: int
    arrival_s: float
    request_class: int
    size: float
    prompt_tokens: int = 0
    output_tokens: int = 0
    status: RequestStatus = RequestStatus.EXPECTED
    dispatch_s: float = math.nan
    departure_s: float = math.nan
    first_token_s: float = math.nan
    replica: int = -1  # the last one that began to serve it
    generated: int = 0  # output tokens that a preempted sequence had


@dataclass
class Queue:
    """Requests that wait, FIFO within each class, and those on their way to join them."""

    ready: list[deque[Request]]  # by class
    in_transit: deque[tuple[float, Request]] = field(default_factory=deque)  # join_s, in order

    def length(self, request_class: int) -> int:
        """Requests of the class that wait, those in transit included."""
        coming = sum(request.request_class == request_class for _, request in self.in_transit)
        return len(self.ready[request_class]) + coming

    def front(self, request_class: int) -> Request | None:
        """The request of the class that is first in line, in transit if none has joined."""
        coming = (request for _, request in self.in_transit)
        same_class = (request for request in coming if request.request_class == request_class)
        return next(iter(self.ready[request_class]), None) or next(same_class, None)

    @property
    def total_length(self) -> int:
        """Requests that wait, those in transit included."""
        return self.ready_count + len(self.in_transit)

    @property
    def ready_count(self) -> int:
        """Requests that could be served now."""
        return sum(map(len, self.ready))

    def heads(self) -> list[Request]:
        """The request at the front of each class that has one ready."""
        return [line[0] for line in self.ready if line]


@dataclass
class Batch:
    """Requests that one replica serves together: sent, perhaps behind another, then in service."""

    requests: list[Request]
    arrives_s: float  # at the replica
    service_s: float
    expected_s: float  # the same without noise
    departure_s: float = math.inf  # finite once it is in service
    expected_departure_s: float = math.inf


@dataclass(eq=False)
class RunningSequence:
    """A request in continuous batching: first its tokens are prefilled, then it decodes."""

    request: Request
    target: int  # tokens to prefill: the prompt and what was generated before a preemption
    left: int  # of them, still to be prefilled
    finish: int = -1  # number of the iteration that gives the last token; -1 while prefilling

    @property
    def decodes(self) -> bool:
        """True from its first token of this admission on."""
        return self.finish >= 0


@dataclass
class ReplicaState:
    """One replica: its mode, its timers and what it serves. Infinite timers are off."""

    number: int
    model: Replica
    mode: ReplicaMode = ReplicaMode.OFF
    starts: int = 0
    ready_s: float = math.inf
    fault_boundaries: list[float] = field(default_factory=list)
    boundary: int = 0  # number of the next one; even ones start a fault, odd ones end it
    last_join_s: float = 0.0  # when what was sent last arrives
    timeout_s: float = math.inf
    # Whole batches: the first is in service, or will be
    batches: list[Batch] = field(default_factory=list)
    # Continuous batching
    running: list[RunningSequence] = field(default_factory=list)  # the decoding ones come first
    iteration: int = 0
    planned: int = 0  # iterations from the anchor to the next change of the running set
    anchor_s: float = 0.0
    iteration_end_s: float = math.inf
    kv_used: int = 0
    context: int = 0  # tokens of the sequences that decode
    completed: int = 0  # batches
    last_batch: Batch | None = None  # that was completed
    # Average of the share of time busy
    utilization: float = 0.0
    utilization_at_s: float = 0.0

    @property
    def batch_in_service(self) -> Batch | None:
        """The batch that it serves, if any."""
        started = self.batches and self.batches[0].departure_s < math.inf
        return self.batches[0] if started else None

    @property
    def busy(self) -> bool:
        """True where it serves a batch or runs a sequence."""
        return self.batch_in_service is not None or bool(self.running)

    @property
    def decoding(self) -> int:
        """Sequences that decode."""
        return sum(sequence.decodes for sequence in self.running)

    def serves(self, request_class: int) -> bool:
        """True where it can serve the class."""
        return not self.model.serves or self.model.serves[request_class]


@dataclass
class SetPointValues:
    """What the set-points are now; the wanted number of replicas is in the cluster."""

    max_batch_size: int
    batch_timeout_s: float
    max_num_seqs: int
