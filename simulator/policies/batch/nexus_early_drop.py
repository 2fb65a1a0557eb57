"""Nexus: drop what would be late, then send a batch that meets the deadline."""

import numpy as np

from simulator.action import WAIT
from simulator.observation import Observation
from simulator.policies.axes import batch_size_choice
from simulator.policies.batch.menu_actions import (
    MenuActions,
    last_place,
    needs_shedding,
    place_of,
    slo_s,
)
from simulator.policies.choose import checked_batch_size, one_hot
from simulator.policies.rule import Rule
from simulator.policies.space import Choice, Space
from simulator.scenario import Scenario

VARIANTS = ("sliding_window", "earliest")


class NexusEarlyDrop(Rule):
    """Gives up requests at the head that would be late, one decision after the other, then sends.

    A request is due at its arrival + its SLO, so the FIFO queue of a class is in deadline order.

    - `sliding_window`: b = min(n, bmax) would finish at now + L(b); while the head is due before,
      it is shed (b shrinks where the queue cannot fill it any more); then b are sent.
    - `earliest`: the head is shed if it is late even in the smallest batch; then the largest batch
      that the head survives is sent.

    Just in time is in time. bmax of a class is `max_batch_size`, or else Nexus' bound: the largest
    size with L + its standard deviation <= SLO / 2 on the slowest replica that takes it (the
    smallest of the menu where none is). Of the classes the one whose head is due first goes; of
    the free replicas the one that would finish b first, ties to the lowest number.

    nexus `backend/model_exec.cpp`. No place here for its packing of models onto GPUs with duty
    cycles (one queue feeds all replicas), nor for time before and after the GPU, apart from the
    mean dispatch delay; sheds happen only when a decision is due, that is when a replica is free.
    """

    name = "nexus_early_drop"

    def __init__(
        self,
        scenario: Scenario,
        variant: str = "sliding_window",
        max_batch_size: int | None = None,
    ) -> None:
        if variant not in VARIANTS:
            raise ValueError(f"variant = {variant!r}: must be one of {', '.join(VARIANTS)}")
        self._sliding = variant == "sliding_window"
        self._menu, self._slo_s = MenuActions(scenario), slo_s(scenario)
        self._behind = scenario.replica_backlog > 0  # batches may be sent to busy replicas
        limits = _bounds(scenario, self._menu)
        if max_batch_size is not None:
            limits = [checked_batch_size("max_batch_size", max_batch_size, scenario)] * len(limits)
        self._limit = np.array([place_of(limit, self._menu.sizes) for limit in limits])

    @classmethod
    def misfit(cls, scenario: Scenario) -> str | None:
        """It drops requests, and counts on the latency of a batch of one class."""
        return needs_shedding(scenario)

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """Both variants, and the bound or a batch size of the menu."""
        sizes = (None, *batch_size_choice(scenario).values)
        return Space(
            {"variant": Choice(VARIANTS), "max_batch_size": Choice(sizes)},
            {"variant": "sliding_window", "max_batch_size": None},
        )

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        menu, waiting = self._menu, self._menu.waiting(observation)
        takers = menu.takers(observation.can_take)
        left_s = self._slo_s - observation.oldest_wait_s  # [B, C] to the deadline of the head
        able = (waiting > 0) & takers.any(axis=2)
        chosen = np.where(able, left_s, np.inf).argmin(axis=1)
        lane = np.arange(len(chosen))
        number, left_s = waiting[lane, chosen], left_s[lane, chosen]
        # The largest batch on each replica, and the replica that would finish it first.
        wanted = np.minimum(menu.cover[number], self._limit[chosen])
        places = np.minimum(wanted[:, None], menu.most)  # [B, K]
        replicas = np.arange(len(menu.most))
        took_s = menu.took_s[chosen[:, None], number[:, None], replicas, places]
        if self._behind:
            took_s = took_s + observation.remaining_service_s
        replica = np.where(takers[lane, chosen], took_s, np.inf).argmin(axis=1)
        place = places[lane, replica]
        if self._sliding:
            late = took_s[lane, replica] > left_s
        else:
            starts_s = observation.remaining_service_s[lane, replica] if self._behind else 0.0
            fits = menu.took_s[chosen, number, replica] <= (left_s - starts_s)[:, None]
            last, in_time = last_place(fits & (np.arange(len(menu.sizes)) <= place[:, None]))
            place, late = np.minimum(last, place), ~in_time
        action = menu.action[chosen, replica, place]
        if menu.shed is not None:
            action = np.where(late, menu.shed[chosen], action)
        return one_hot(np.where(able[lane, chosen], action, WAIT), action_mask)


def _bounds(scenario: Scenario, menu: MenuActions) -> list[int]:
    """Nexus' largest batch size for each class `[C]`: L(b) + its deviation <= SLO / 2."""
    bounds = []
    for request_class, target_s in enumerate(slo_s(scenario).tolist()):
        slowest_s = np.zeros(len(menu.sizes))
        for replica, server in enumerate(scenario.replicas):
            took_s = menu.took_s[request_class, menu.longest, replica]
            factors = server.residuals[request_class] if server.residuals else ()
            cv = float(np.std(factors)) if factors else server.noise_cv[request_class]
            took_s = np.where(np.isfinite(took_s), (1.0 + cv) * took_s, 0.0)
            slowest_s = np.maximum(slowest_s, took_s)
        fits = (slowest_s > 0.0) & (slowest_s <= target_s / 2.0)
        bounds.append(int(menu.sizes[fits].max()) if fits.any() else int(menu.sizes[0]))
    return bounds
