"""What every rule has beside its decisions: its name, where to tune it, and what it remembers."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from simulator.observation import Observation
from simulator.policies.space import Space
from simulator.scenario import Scenario


class Rule(ABC):
    """A heuristic that decides from the observation alone, so there is nothing to forget."""

    name: str  # of the class, for the registry

    def __init__(self, scenario: Scenario, **parameters: Any) -> None:  # noqa: B027
        """Raises ValueError for a parameter that is out of range, naming field, value and rule."""

    def reset(self, lanes: int) -> None:  # noqa: B027 (most rules have nothing to forget)
        """Nothing happens."""

    @abstractmethod
    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """As in `Policy`."""

    @classmethod
    def space(cls, scenario: Scenario) -> Space:
        """Where a tuner looks for the parameters."""
        return Space()

    @classmethod
    def misfit(cls, scenario: Scenario) -> str | None:
        """Why the scenario cannot have the rule, decision kind apart; None where it can."""
        return None


class StatefulRule(Rule):
    """A rule with a memory: named arrays, the lane first.

    What happened is learned from observations, never from what the rule answered: in a mixture
    somebody else may have chosen the action. A lane whose clock goes back has begun a new episode
    and starts with a fresh memory.
    """

    @abstractmethod
    def fresh(self, lanes: int) -> dict[str, np.ndarray]:
        """The memory of lanes whose episode begins, by name, each `[lanes, ...]`."""

    def reset(self, lanes: int) -> None:
        """Every lane begins an episode."""
        self._memory = self.fresh(lanes)
        self._seen_s = np.full(lanes, -np.inf)

    def recall(self, observation: Observation) -> dict[str, np.ndarray]:
        """The memory, to be changed in place; called once in each decision.

        RuntimeError where the number of lanes is not that of the last `reset`.
        """
        lanes = len(observation.clock_s)
        if not hasattr(self, "_memory") or len(self._seen_s) != lanes:
            raise RuntimeError(f"{self.name}: reset({lanes}) must come before {lanes} lanes decide")
        again = observation.clock_s < self._seen_s
        if again.any():
            for name, values in self.fresh(lanes).items():
                self._memory[name][again] = values[again]
        self._seen_s[:] = observation.clock_s
        return self._memory
