"""From the set-points that a rule wants to the action of the table that comes nearest."""

import numpy as np

from simulator.observation import Observation
from simulator.policies.choose import one_hot
from simulator.scenario import Scenario

FIELDS = ("max_batch_size", "batch_timeout_s", "max_num_seqs", "replicas_on")
REPLICAS_ON = FIELDS.index("replicas_on")


class SetPointActions:
    """The table of `tune` actions, read backwards.

    The table holds every combination of the menus, the last menu fastest, so the number of an
    action is the sum of place * stride. An empty menu has one place, which leaves its set-point
    alone (KEPT); a set-point that the rule does not name stays where the observation shows it.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._menus = [np.array(getattr(scenario.set_points, name), float) for name in FIELDS]
        places = [max(1, len(menu)) for menu in self._menus]
        self._strides = [int(np.prod(places[number + 1 :])) for number in range(len(FIELDS))]
        self._middles = [(menu[:-1] + menu[1:]) / 2 for menu in self._menus]

    def menu(self, name: str) -> np.ndarray:
        """The values on offer, ascending; none where the set-point is not the policy's to set."""
        return self._menus[FIELDS.index(name)]

    def offered(self, name: str, value: np.ndarray) -> np.ndarray:
        """The values of the menu `[B]` that stand for the wanted `value [B]`."""
        number = FIELDS.index(name)
        return self._menus[number][self._place(number, value)]

    def rows(
        self, observation: Observation, action_mask: np.ndarray, **wanted: np.ndarray | float
    ) -> np.ndarray:
        """One-hot rows `[B, A]` for the wanted set-points by name, each `[B]` or one for all."""
        lanes = len(observation.set_points)
        action = np.zeros(lanes, np.int64)
        for number, name in enumerate(FIELDS):
            if len(self._menus[number]) > 1:
                value = wanted.get(name, observation.set_points[:, number])
                action += self._strides[number] * self._place(number, value)
        return one_hot(action, action_mask)

    def _place(self, number: int, value: np.ndarray | float) -> np.ndarray:
        """Place in the menu: the nearest value, the lower of two as near.

        Of numbers of replicas the first that is enough, or the largest: rounded down, one replica
        that is wanted might become none.
        """
        if number == REPLICAS_ON:
            place = np.searchsorted(self._menus[number], value, side="left")
            return np.minimum(place, len(self._menus[number]) - 1)
        return np.asarray(np.searchsorted(self._middles[number], value, side="left"))
