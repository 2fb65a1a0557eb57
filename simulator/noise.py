"""The noise of service times, drawn before an episode: independent luck, and slow spells."""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from simulator.checks import check
from simulator.jit import entry_kernel


@dataclass(frozen=True)
class NoisePath:
    """The noise of a log's batches in the order of time, as standard normals; empty: none.

    An episode starts at a random place of it and goes around: so slow spells come as often, last as
    long and go as deep as they did in the log. It knows no spell that the log did not meet, and
    slow spells do not come with the load, even where they did in the log.
    """

    at_s: tuple[float, ...] = ()  # ascending
    z: tuple[float, ...] = ()  # at these instants

    def __post_init__(self) -> None:
        points = len(self.at_s)
        rule = f"needs one for each of the {points} instants"
        check(len(self.z) == points, "length of noise_path.z", len(self.z), rule)
        check(points != 1, "noise_path.at_s", self.at_s, "needs at least two instants, or none")
        for field in ("at_s", "z"):
            values = getattr(self, field)
            wrong = next((value for value in values if not math.isfinite(value)), None)
            check(wrong is None, f"noise_path.{field}", wrong, "must be finite")
        ascends = all(before_s <= after_s for before_s, after_s in pairwise(self.at_s))
        # The values of a long path would fill pages of an error.
        check(ascends, "noise_path.at_s", self.at_s[:3], "must ascend")
        lasts = not points or self.at_s[-1] > self.at_s[0]
        check(lasts, "noise_path.at_s", self.at_s[:3], "must not be one instant alone")

    @property
    def exists(self) -> bool:
        """True where there is a path."""
        return len(self.at_s) > 0

    @cached_property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """`at_s [n]` and `z [n]`; kept, because every episode asks for them."""
        return np.array(self.at_s, float), np.array(self.z, float)


NO_PATH = NoisePath()


@entry_kernel
def _revert(arrival_s: np.ndarray, time_s: float, spell: np.ndarray) -> None:
    """Turns independent normals into a stationary Ornstein-Uhlenbeck path at `arrival_s`."""
    for number in range(1, len(spell)):
        kept = np.exp(-(arrival_s[number] - arrival_s[number - 1]) / time_s)
        spell[number] = kept * spell[number - 1] + np.sqrt(1.0 - kept * kept) * spell[number]


def _along(path: NoisePath, arrival_s: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """The values `[R]` of the path nearest in time, from a random place on; it goes around.

    Each request looks from its instant moved by a normal of the path's mean gap, so that those that
    arrive between two batches of the log do not all share the luck of one of them.
    """
    at_s, z = path.arrays
    gap_s = (at_s[-1] - at_s[0]) / (len(at_s) - 1)
    round_s = at_s[-1] - at_s[0] + gap_s
    start_s = generator.uniform(0.0, round_s)
    moved_s = gap_s * generator.standard_normal(len(arrival_s))
    place_s = at_s[0] + (start_s + arrival_s + moved_s) % round_s
    return np.asarray(z[np.searchsorted(0.5 * (at_s[1:] + at_s[:-1]), place_s)])


def draw_noise(
    arrival_s: np.ndarray,
    spell_share: float,
    spell_time_s: float,
    generator: np.random.Generator,
    path: NoisePath = NO_PATH,
) -> np.ndarray:
    """Standard normals `[R]`, one for each request; a batch takes that of its oldest.

    `z = sqrt(share) spell + sqrt(1 - share) luck`. Luck is independent; a spell is shared by all
    requests near in time, with correlation `exp(-gap / spell_time_s)`: a busy host, heat. With
    share 0 only luck is drawn. A path takes the place of both: its values are resampled in whole
    episodes, a circular block bootstrap (Politis and Romano, 1992).
    """
    if path.exists:
        return _along(path, arrival_s, generator)
    luck = generator.standard_normal(len(arrival_s))
    if spell_share == 0.0:
        return luck
    spell = generator.standard_normal(len(arrival_s))
    _revert(arrival_s, spell_time_s, spell)
    return np.asarray(np.sqrt(spell_share) * spell + np.sqrt(1.0 - spell_share) * luck)
