"""The shortest of a few random queues."""

import numpy as np

from simulator.checks import check_whole
from simulator.observation import Observation
from simulator.policies.route.choose_replica import least_of_some, shares_of_subsets
from simulator.policies.rule import Rule
from simulator.policies.space import Choice, Space
from simulator.scenario import Scenario


def choices_of_d(replicas: int) -> Choice:
    """One, two, four and so on up to all replicas."""
    powers = {1 << power for power in range(replicas.bit_length())}
    return Choice(tuple(sorted({d for d in powers if d <= replicas} | {replicas})))


class PowerOfD(Rule):
    """The fewest pending requests among `d` different replicas drawn at random, ties at random.

    The probabilities are those of all subsets of d allowed replicas (all of them, where fewer are
    allowed). d = 1 is `random_replica`, d = K `shortest_queue`. Mitzenmacher, The power of two
    choices in randomized load balancing, 2001 (there with replacement; from memory).
    """

    name = "power_of_d"

    def __init__(self, scenario: Scenario, d: int = 2) -> None:
        check_whole("d", d, 1)
        self._share = shares_of_subsets(len(scenario.replicas), d)

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """Some d up to all replicas."""
        replicas = len(scenario.replicas)
        return Space({"d": choices_of_d(replicas)}, {"d": min(2, replicas)})

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """Rows `[B, K]` with the probability that a replica is drawn and is the shortest."""
        return least_of_some(observation.in_flight, action_mask, self._share)
