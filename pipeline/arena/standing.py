"""One line of a league, and a share of costs."""

from typing import NamedTuple

from pipeline.arena.entrants import Kind
from pipeline.arena.figures import Figures
from pipeline.validation.intervals import Interval
from simulator.policies.space import RuleParameters

CONTENDERS = (Kind.TUNED, Kind.GIVEN)  # who may be called the best heuristic
BASELINES = (Kind.BASELINE, Kind.LOGGED)  # whom it is held against


class Standing(NamedTuple):
    """One entrant in the league."""

    name: str
    kind: Kind
    rule: str
    parameters: RuleParameters
    cost_per_s: Interval
    difference: Interval  # to the first, on the same episodes
    tie: bool  # not surely worse than the first
    validation_reward_per_s: float | None  # of a tuned one
    evaluations: int  # parameter settings tried, 0 unless tuned
    figures: Figures


class Share(NamedTuple):
    """What one entrant costs less than another, as a share of the other's cost."""

    of: str
    share: Interval  # NaN where the other costs nothing
