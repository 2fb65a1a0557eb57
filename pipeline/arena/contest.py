"""What a league is about: a scenario and the episodes of its three splits."""

from collections.abc import Mapping
from typing import NamedTuple

from pipeline.validation.evaluation import Trial
from simulator.scenario import Scenario


class Contest(NamedTuple):
    """The same episodes for all who take part."""

    name: str
    why: str  # a user meets it: one sentence
    trials: Mapping[str, Trial]  # train, validation and test, of one scenario

    @property
    def scenario(self) -> Scenario:
        """The scenario of all three."""
        return self.trials["test"].scenario
