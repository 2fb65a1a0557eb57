"""Set-points that never move: the hand-set configuration that every other rule has to beat."""

from typing import Any

import numpy as np

from simulator.checks import check, check_whole
from simulator.observation import Observation
from simulator.policies.rule import Rule
from simulator.policies.space import Choice, Space
from simulator.policies.tune.set_points import FIELDS, SetPointActions
from simulator.scenario import Scenario


def _check_on_menu(field: str, value: object, menu: tuple[Any, ...]) -> None:
    rule = f"must be one of {list(menu)}" if menu else "the scenario has no menu for it"
    check(value in menu and not isinstance(value, bool), field, value, rule)


class FixedSetPoints(Rule):
    """The same set-points at every decision; one that is None stays as it is found.

    They are said again at each decision, so where someone else has moved one it goes back.
    """

    name = "fixed_set_points"

    def __init__(
        self,
        scenario: Scenario,
        max_batch_size: int | None = None,
        batch_timeout_s: float | None = None,
        max_num_seqs: int | None = None,
        replicas_on: int | None = None,
    ) -> None:
        values = (max_batch_size, batch_timeout_s, max_num_seqs, replicas_on)
        given = {n: v for n, v in zip(FIELDS, values, strict=True) if v is not None}
        for name, value in given.items():
            _check_on_menu(name, value, getattr(scenario.set_points, name))
        self._wanted = {name: float(value) for name, value in given.items()}
        self._actions = SetPointActions(scenario)

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """Every combination of the menus."""
        menus = {name: getattr(scenario.set_points, name) for name in FIELDS}
        return Space({name: Choice(menu) for name, menu in menus.items() if menu})

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        return self._actions.rows(observation, action_mask, **self._wanted)


class KeepWarm(Rule):
    """So many replicas are on, always; the other set-points stay as they are found.

    It pays for idle replicas and never for a cold start (`reference/serving.md` 2f, keep-warm).
    """

    name = "keep_warm"

    def __init__(self, scenario: Scenario, replicas: int) -> None:
        check_whole("replicas", replicas, 1)
        _check_on_menu("replicas", replicas, scenario.set_points.replicas_on)
        self._replicas = float(replicas)
        self._actions = SetPointActions(scenario)

    @classmethod
    def misfit(cls, scenario: Scenario) -> str | None:
        """It needs a menu of numbers of replicas."""
        if max(scenario.set_points.replicas_on, default=0) < 1:
            return "set_points.replicas_on offers no number of replicas above 0"
        return None

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """Every number of replicas on the menu, zero apart."""
        menu = scenario.set_points.replicas_on
        return Space({"replicas": Choice(tuple(number for number in menu if number > 0))})

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """One-hot rows `[B, A]`."""
        return self._actions.rows(observation, action_mask, replicas_on=self._replicas)
