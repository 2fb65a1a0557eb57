"""What the rules share that weigh every batch size of the menu against a deadline."""

import numpy as np

from simulator.action import HEAD_OF_LINE, SHED, WAIT, action_table
from simulator.observation import Observation
from simulator.policies.axes import usable_sizes
from simulator.policies.choose import batch_latency_s
from simulator.scenario import ClassChoice, MixedBatches, Scenario


class MenuActions:
    """Every batch size that can be sent, what it takes, and the number of its action.

    B lanes, C classes, K replicas, S usable sizes of the menu, N the largest of them. An action of
    size s sends min(n, s) of n waiting. `took_s [C, N + 1, K, S]` s is what that takes, infinite
    where nothing waits or the replica cannot take it; `action [C, K, S]` its number, else WAIT.
    `cover [N + 1]` is the place in the menu of the least size that sends all n (the last place
    where none does), `most [K]` that of the largest size of the replica. `alone_s [C, K]` s is the
    least that any size takes with one waiting. `shed [C]` gives up the oldest of the class, or is
    None.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.sizes = np.array(usable_sizes(scenario))
        self.longest = int(self.sizes[-1])
        parameters, latency_s = scenario.parameters(), batch_latency_s(scenario)
        waiting = np.arange(self.longest + 1)
        places = np.searchsorted(self.sizes, waiting)
        self.cover = np.minimum(places, len(self.sizes) - 1)
        largest = parameters.max_batch_size
        self.most = np.searchsorted(self.sizes, largest, side="right") - 1
        self.serves = parameters.serves  # [K, C]
        sent = np.minimum(waiting[:, None], self.sizes)  # [N + 1, S]
        fits = self.sizes <= largest[:, None]  # [K, S]
        took_s = latency_s[:, :, np.minimum(sent, latency_s.shape[2] - 1)]  # [K, C, N + 1, S]
        took_s = np.where(fits[:, None, None] & (sent > 0), took_s, np.inf)
        self.took_s = np.ascontiguousarray(took_s.transpose(1, 2, 0, 3))
        self.alone_s = self.took_s[:, 1].min(axis=2)
        self._any_class = scenario.class_choice == ClassChoice.ANY
        self.action, self.shed = self._numbers(scenario, fits)

    def _numbers(
        self, scenario: Scenario, fits: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        table, classes = action_table(scenario), len(scenario.request_classes)
        shape = (classes, len(scenario.replicas), len(self.sizes))
        number = np.full(shape, WAIT, np.int64)
        shed = np.full(classes, WAIT, np.int64)
        for action in range(WAIT + 1, table.size):
            named, size = table.request_class[action], table.batch_size[action]
            slot = slice(None) if named == HEAD_OF_LINE else named
            if size == SHED:
                shed[slot] = action
            elif size <= self.longest:
                place = np.searchsorted(self.sizes, size)
                number[slot, table.replica[action], place] = action
        number[~(fits & self.serves.T[:, :, None])] = WAIT
        return number, shed if scenario.may_shed else None

    def waiting(self, observation: Observation) -> np.ndarray:
        """Requests waiting `[B, C]`, at most N; 0 for classes that an action cannot name."""
        waiting = np.minimum(observation.queue_length, self.longest).astype(np.int64, copy=False)
        if self._any_class:
            return waiting
        head = observation.head_class[:, None] == np.arange(waiting.shape[1])
        return np.where(head, waiting, 0)

    def takers(self, can_take: np.ndarray) -> np.ndarray:
        """True `[B, C, K]` where the replica can take a batch, `can_take [B, K]`, of the class."""
        takers: np.ndarray = (can_take > 0)[:, None, :] & self.serves.T
        return takers


def place_of(limit: int, sizes: np.ndarray) -> int:
    """The place of the largest of `sizes` up to `limit`, which is at least the first."""
    return int(np.searchsorted(sizes, limit, side="right")) - 1


def last_place(fits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The place of the last True of each row `[B, S]`, and whether there is one, both `[B]`."""
    place = fits.shape[1] - 1 - fits[:, ::-1].argmax(axis=1)
    return place, np.asarray(fits.any(axis=1))


def network_s(scenario: Scenario) -> float:
    """The mean time that a batch sent is on its way to the replica, in s."""
    return scenario.dispatch_delay.constant_s + scenario.dispatch_delay.mean_s


def slo_s(scenario: Scenario) -> np.ndarray:
    """What the SLO of each class leaves for waiting and service, `[C]` s: the network is off."""
    targets_s = [request_class.slo_s for request_class in scenario.request_classes]
    return np.array(targets_s) - network_s(scenario)


def needs_one_latency(scenario: Scenario) -> str | None:
    """Why the batch latency of a class says nothing in the scenario; None where it does."""
    if scenario.mixed != MixedBatches.NEVER:
        return "needs the batch latency of one class, and mixed batches hold several"
    return None


def needs_shedding(scenario: Scenario) -> str | None:
    """Why a rule that gives up late requests cannot; None where it can."""
    if not scenario.may_shed:
        return "gives up requests that would be late, and may_shed is false"
    return needs_one_latency(scenario)
