"""Windows of a log and their load bands, by what arrives in them."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from simulator.checks import check

ALL_BANDS = "all"
WINDOW_S = 5.0


class LoadBands(NamedTuple):
    """The log cut into windows of 5 s, each with its offered load and load band. W windows."""

    names: tuple[str, ...]  # of the bands, from low to high load
    duration_s: float
    offered_load: np.ndarray  # [W]
    band: np.ndarray  # [W] number of the band in `names`

    @property
    def window_s(self) -> np.ndarray:
        """The length `[W]` s of each window: the last may be cut short by the end of the log."""
        begin_s = WINDOW_S * np.arange(len(self.band))
        return np.minimum(WINDOW_S, self.duration_s - begin_s)

    def window(self, instant_s: np.ndarray) -> np.ndarray:
        """The window of each instant, same shape; -1 after the end of the log and where NaN."""
        inside = instant_s < self.duration_s
        return np.where(inside, np.where(inside, instant_s, 0.0) // WINDOW_S, -1.0).astype(np.int64)

    def in_band(self, name: str) -> np.ndarray:
        """Which windows `[W]` are of a band; all of band `all`."""
        if name == ALL_BANDS:
            return np.ones(len(self.band), bool)
        return np.asarray(self.band == self.names.index(name))


def windows_of(duration_s: float) -> int:
    """How many windows a log of that length has."""
    return max(1, math.ceil(duration_s / WINDOW_S - 1e-9))


def band_names(edges: Sequence[float]) -> tuple[str, ...]:
    """`("< 0.7", "0.7-1", "> 1")` of the edges 0.7 and 1; one edge e gives `<= e` and `> e`.

    ValueError unless they are above 0 and ascend.
    """
    for before, edge in zip([0.0, *edges], edges, strict=False):
        holds = math.isfinite(edge) and edge > before
        check(holds, "bands", tuple(edges), "must be above 0 and ascend")
    if not edges:
        return ()
    first = "<" if len(edges) > 1 else "<="
    between = [f"{low:g}-{high:g}" for low, high in pairwise(edges)]
    return (f"{first} {edges[0]:g}", *between, f"> {edges[-1]:g}")


def load_bands(offered_load: np.ndarray, edges: Sequence[float], duration_s: float) -> LoadBands:
    """The load band of each window by its offered load `[W]`.

    A load that is an edge belongs to the band between two edges, or to the first of two bands.
    """
    names = band_names(edges)
    band = np.zeros(len(offered_load), np.int64)
    for edge in edges[:-1]:
        band += offered_load >= edge
    for edge in edges[-1:]:
        band += offered_load > edge
    return LoadBands(names, duration_s, offered_load, band)
