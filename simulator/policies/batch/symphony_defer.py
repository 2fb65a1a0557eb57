"""Symphony: hold a batch as long as its deadline lets it grow by one more request."""

import numpy as np

from simulator.action import WAIT
from simulator.observation import Observation
from simulator.policies.axes import batch_size_choice, slo_shares
from simulator.policies.batch.menu_actions import (
    MenuActions,
    last_place,
    needs_one_latency,
    place_of,
    slo_s,
)
from simulator.policies.choose import checked_batch_size, checked_seconds, one_hot
from simulator.policies.rule import Rule
from simulator.policies.space import Space
from simulator.scenario import Scenario

SLACK_SHARES = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7)  # of the tightest SLO


class SymphonyDefer(Rule):
    """Sends b = min(n, max_batch_size) from the instant d - L(b + 1) on, or at once when b is full.

    d = arrival of the head + its SLO - `slack_s`. Before d - L(b + 1) one more request could still
    be served in time, so b is held; d - L(b) is the last instant for b itself. A decision comes at
    the next event or `tick_s` later, so b goes already where one more tick would pass that instant.
    Later than that, the largest batch that meets d goes; where none does, all that wait up to the
    limit. A head that would miss its SLO even alone on the fastest replica is shed where the
    scenario allows it, the most overdue first. Of the classes that are ready the one with the
    earliest d - L(b) goes, to the lowest-numbered free replica that serves it; the higher numbers
    idle first, which is what Symphony's autoscaler wants.

    arXiv 2308.07470, from memory. No place here for its scheduler that plans many models ahead on
    one timer for each: what it would do between two decisions is done at the next.
    """

    name = "symphony_defer"

    def __init__(self, scenario: Scenario, max_batch_size: int, slack_s: float = 0.0) -> None:
        limit = checked_batch_size("max_batch_size", max_batch_size, scenario)
        self._slack_s, self._tick_s = checked_seconds("slack_s", slack_s), scenario.tick_s
        self._menu, self._slo_s = MenuActions(scenario), slo_s(scenario)
        menu, classes = self._menu, len(scenario.request_classes)
        self._place = np.minimum(place_of(limit, menu.sizes), menu.most)  # [K] of the largest size
        replicas, number = np.arange(len(menu.most)), np.arange(menu.longest + 1)
        places = np.minimum(menu.cover[:, None], self._place)  # [N + 1, K]
        # [C, N + 1, K] s for min(n, limit), and for one more.
        self._all_s = menu.took_s[
            np.arange(classes)[:, None, None], number[:, None], replicas, places
        ]
        self._more_s = self._all_s[:, np.minimum(number + 1, menu.longest)]
        self._full = menu.sizes[self._place]  # [K]
        self._alone_s = menu.alone_s.min(axis=1)
        self._class = np.arange(classes)

    @classmethod
    def misfit(cls, scenario: Scenario) -> str | None:
        """It counts on the latency of a batch of one class."""
        return needs_one_latency(scenario)

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """Batch sizes, and slack as shares of the tightest SLO."""
        sizes = batch_size_choice(scenario)
        return Space(
            {"max_batch_size": sizes, "slack_s": slo_shares(scenario, SLACK_SHARES)},
            {"max_batch_size": sizes.values[-1], "slack_s": 0.0},
        )

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        menu, waiting = self._menu, self._menu.waiting(observation)
        takers = menu.takers(observation.can_take)
        replica = takers.argmax(axis=2)  # [B, C] the lowest-numbered
        left_s = self._slo_s - self._slack_s - observation.oldest_wait_s  # [B, C] until d
        last_s = left_s - self._all_s[self._class, waiting, replica]
        ready = last_s < self._tick_s
        ready |= left_s - self._more_s[self._class, waiting, replica] <= 0.0
        ready |= waiting >= self._full[replica]
        ready &= (waiting > 0) & takers.any(axis=2)
        chosen = np.where(ready, last_s, np.inf).argmin(axis=1)
        lane = np.arange(len(chosen))
        replica, number = replica[lane, chosen], waiting[lane, chosen]
        place = np.minimum(menu.cover[number], self._place[replica])
        fits = menu.took_s[chosen, number, replica] <= left_s[lane, chosen][:, None]
        last, in_time = last_place(fits & (np.arange(len(menu.sizes)) <= place[:, None]))
        place = np.where(in_time, np.minimum(last, place), place)
        action = np.where(ready[lane, chosen], menu.action[chosen, replica, place], WAIT)
        if menu.shed is not None:
            overdue_s = np.where(waiting > 0, self._alone_s - left_s - self._slack_s, -np.inf)
            worst = overdue_s.argmax(axis=1)
            action = np.where(overdue_s[lane, worst] > 0.0, menu.shed[worst], action)
        return one_hot(action, action_mask)
