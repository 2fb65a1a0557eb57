"""The noise of service times, drawn before an episode: independent luck, and slow spells."""

import numpy as np

from simulator.jit import entry_kernel


@entry_kernel
def _revert(arrival_s: np.ndarray, time_s: float, spell: np.ndarray) -> None:
    """Turns independent normals into a stationary Ornstein-Uhlenbeck path at `arrival_s`."""
    for number in range(1, len(spell)):
        kept = np.exp(-(arrival_s[number] - arrival_s[number - 1]) / time_s)
        spell[number] = kept * spell[number - 1] + np.sqrt(1.0 - kept * kept) * spell[number]


def draw_noise(
    arrival_s: np.ndarray, spell_share: float, spell_time_s: float, generator: np.random.Generator
) -> np.ndarray:
    """Standard normals `[R]`, one for each request; a batch takes that of its oldest.

    `z = sqrt(share) spell + sqrt(1 - share) luck`. Luck is independent; a spell is shared by all
    requests near in time, with correlation `exp(-gap / spell_time_s)`: a busy host, heat. With
    share 0 only luck is drawn.
    """
    luck = generator.standard_normal(len(arrival_s))
    if spell_share == 0.0:
        return luck
    spell = generator.standard_normal(len(arrival_s))
    _revert(arrival_s, spell_time_s, spell)
    return np.asarray(np.sqrt(spell_share) * spell + np.sqrt(1.0 - spell_share) * luck)
