"""Clockwork: serve what must start first, in the largest batch in time; reject what cannot be."""

import numpy as np

from simulator.action import WAIT
from simulator.observation import Observation
from simulator.policies.batch.menu_actions import (
    MenuActions,
    last_place,
    needs_shedding,
    slo_s,
)
from simulator.policies.choose import checked_seconds, one_hot
from simulator.policies.rule import Rule
from simulator.policies.space import Choice, Space
from simulator.scenario import Scenario

SCHEDULE_AHEAD_S = 0.005
AHEAD_SHARES = (0.0, 0.2, 0.4, 1.0, 2.0, 4.0, 10.0)  # of the source's


class Clockwork(Rule):
    """The class and batch size with the earliest start-by among those that can still be met.

    Class c in a batch of b <= n must start by d - L(b), d = arrival of its head + its SLO. Those
    whose instant lies before the batch could start are out; of the rest the earliest wins, and its
    class goes in the largest batch that meets d. A head that misses its SLO even in the smallest
    batch on the fastest replica is rejected: shed, one decision after the other, the most overdue
    first. Just in time is in time.

    A replica gets work only if at most `schedule_ahead_s` of work is left on it (5 ms): that
    matters where `replica_backlog` allows more than one batch. Of those, the class goes to the one
    that would finish one request first, ties to the lowest number.

    arXiv 2006.02464, from memory; its batch sizes 1, 2, 4, 8, 16 are the menu here. No place here
    for loading models into memory, nor for its workers' windows of earliest and latest start: a
    batch sent runs even if it will be late.
    """

    name = "clockwork"

    def __init__(self, scenario: Scenario, schedule_ahead_s: float = SCHEDULE_AHEAD_S) -> None:
        self._ahead_s = checked_seconds("schedule_ahead_s", schedule_ahead_s)
        self._menu, self._slo_s = MenuActions(scenario), slo_s(scenario)
        self._fastest_s = self._menu.alone_s.min(axis=1)  # [C]
        self._alone_s = np.where(np.isfinite(self._menu.alone_s), self._menu.alone_s, 0.0)
        self._class = np.arange(len(scenario.request_classes))

    @classmethod
    def misfit(cls, scenario: Scenario) -> str | None:
        """It rejects requests, and counts on the latency of a batch of one class."""
        return needs_shedding(scenario)

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """How far ahead to schedule, where the scenario lets a busy replica be sent anything."""
        ahead_s = tuple(float(f"{share * SCHEDULE_AHEAD_S:.9g}") for share in AHEAD_SHARES)
        return Space(
            {"schedule_ahead_s": Choice(ahead_s if scenario.replica_backlog > 0 else (0.005,))},
            {"schedule_ahead_s": SCHEDULE_AHEAD_S},
        )

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        menu, waiting = self._menu, self._menu.waiting(observation)
        work_s = observation.remaining_service_s  # [B, K]
        takers = menu.takers((observation.can_take > 0) & (work_s <= self._ahead_s))
        finish_s = np.where(takers, work_s[:, None] + self._alone_s, np.inf)  # [B, C, K]
        replica = finish_s.argmin(axis=2)  # [B, C]
        lane = np.arange(len(replica))
        left_s = self._slo_s - observation.oldest_wait_s  # [B, C] to the deadline of the head
        start_by_s = left_s[:, :, None] - menu.took_s[self._class, waiting, replica]  # [B, C, S]
        starts_s = np.where(takers.any(axis=2), work_s[lane[:, None], replica], np.inf)
        in_time: np.ndarray = start_by_s >= starts_s[:, :, None]
        chosen = np.where(in_time, start_by_s, np.inf).min(axis=2).argmin(axis=1)
        place, able = last_place(in_time[lane, chosen])
        place = np.minimum(place, menu.cover[waiting[lane, chosen]])
        action = menu.action[chosen, replica[lane, chosen], place]
        action = np.where(able, action, WAIT)
        if menu.shed is not None:
            overdue_s = np.where(waiting > 0, self._fastest_s - left_s, -np.inf)
            worst = overdue_s.argmax(axis=1)
            action = np.where(overdue_s[lane, worst] > 0.0, menu.shed[worst], action)
        return one_hot(action, action_mask)
