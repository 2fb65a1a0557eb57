"""The step of a clock, from the instants it gave."""

import numpy as np

STEPS_US = (
    *(1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000),
    *(60_000_000, 300_000_000, 3_600_000_000),
)
SHARE = 0.99  # of the instants that must be multiples of the step
_LOOKED_AT = 1001  # instants, for the remainder
_LEAST = 10  # distinct instants; fewer may be multiples by chance


class StepFinder:
    """The largest of `STEPS_US` that nearly all of `total` instants are multiples of.

    Instants come in blocks, so that not all have to be in memory. Time 0 need not be a multiple:
    the remainder that is most frequent in the first block is taken off.
    """

    def __init__(self, total: int) -> None:
        self._may_miss = (1 - SHARE) * total
        self._missed = dict.fromkeys(STEPS_US[1:], 0)
        self._remainder: dict[int, int] = {}

    def see(self, instants_us: np.ndarray) -> None:
        """Counts a block `[n]` us, not empty."""
        if not self._remainder:
            places = np.linspace(0, len(instants_us) - 1, _LOOKED_AT).astype(int)
            for step_us in self._missed:
                values, times = np.unique(instants_us[places] % step_us, return_counts=True)
                self._remainder[step_us] = int(values[np.argmax(times)])
        for step_us in list(self._missed):
            left = (instants_us - self._remainder[step_us]) % step_us
            self._missed[step_us] += int(np.count_nonzero(left))
            if self._missed[step_us] > self._may_miss:  # larger ones are multiples of this one
                larger = [step for step in self._missed if step >= step_us]
                for step in larger:
                    del self._missed[step]
                return

    def step_us(self, distinct: int) -> int | None:
        """The step; None where there are too few distinct instants to tell."""
        return max(self._missed, default=STEPS_US[0]) if distinct >= _LEAST else None


def time_step_us(instants_us: np.ndarray) -> int | None:
    """The step of the clock that gave the instants `[n]` us; None where they are too few."""
    if len(instants_us) == 0:
        return None
    finder = StepFinder(len(instants_us))
    finder.see(instants_us)
    return finder.step_us(len(np.unique(instants_us)))
