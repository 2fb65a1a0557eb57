"""What the panels of the picture share: the time axis, the colors, the room on the sheet."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import altair as alt
import polars as pl

WIDTH, HEIGHT = 1600, 900  # px of the whole picture
PADDING, LEFT, SPACING = 18, 140, 12  # px: around it, for the y axes, between panels
PLOT = WIDTH - 2 * PADDING - LEFT
TITLE, LINE, LEGEND, TIME_AXIS, STRIP = 30, 19, 15, 44, 18  # px of height
SMALLEST_PANEL = 70  # px

# Okabe and Ito's colors, which color-blind people can tell apart, without their vermilion: it is
# too near to the red of a replica that is down.
CLASS_COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8c6d1f", "#5b5b5b")
DARK_COLORS = (0, 2, 5, 6)  # on which white text is read better than black
STATES = {  # key: words of the legend, color
    "starting": ("cold start", "#8f8f8f"),
    "down": ("down", "#b2182b"),
    "preempted": ("preempted", "#000000"),
}


class Heights(NamedTuple):
    """Px of each panel; the strips are there where the episode has what they show."""

    replicas: int
    set_points: int
    queue: int
    response: int


class Frame(NamedTuple):
    """The window that is shown, and the scales that all panels use."""

    class_names: tuple[str, ...]
    start_s: float
    end_s: float
    heights: Heights
    states: tuple[str, ...]  # keys of STATES that occur, for the legend

    def px(self, span_s: pl.Expr) -> pl.Expr:
        """The width of so many seconds."""
        return span_s / (self.end_s - self.start_s) * PLOT

    def seconds(self, px: float) -> float:
        """The time that so many px of width show."""
        return px / PLOT * (self.end_s - self.start_s)

    def time(self, field: str = "start_s", last: bool = False) -> alt.X:
        """The common time axis, with its labels under the last panel alone."""
        axis = alt.Axis(
            labels=last, ticks=last, domain=last, title="clock (s)" if last else None, tickCount=12
        )
        domain = alt.Scale(domain=[self.start_s, self.end_s], nice=False, zero=False)
        return alt.X(f"{field}:Q", scale=domain, axis=axis)

    @property
    def legend(self) -> list[tuple[str, str, str]]:
        """Key, words and color of every request class, and of the states that occur."""
        classes = [
            (class_key(number), name, CLASS_COLORS[number % len(CLASS_COLORS)])
            for number, name in enumerate(self.class_names)
        ]
        return classes + [(state, *STATES[state]) for state in self.states]

    def color(self) -> alt.Color:
        """The color of a class or a state, by its key in the column `key`."""
        keys, _, colors = zip(*self.legend, strict=True)
        scale = alt.Scale(domain=list(keys), range=list(colors))
        return alt.Color("key:N", scale=scale, sort=None, legend=None)


def class_key(number: int) -> str:
    """The key of a request class; a state is not called so, whatever the class is called."""
    return f"class {number}"


def keyed(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows with the key of their request class."""
    return frame.with_columns(key=pl.format("class {}", "request_class"))


def inline(frame: pl.DataFrame) -> alt.InlineData:
    """The rows as data of a spec, its numbers with nine digits."""
    numbers = pl.selectors.float().round_sig_figs(9)
    return alt.InlineData(values=frame.with_columns(numbers).to_dicts())


def share_heights(
    lines: int, replicas: int, shed: bool, set_points: int, response: bool
) -> Heights:
    """The sheet's height in px, shared among the panels that the episode has."""
    room = HEIGHT - 2 * PADDING - TITLE - LINE * lines - LEGEND - TIME_AXIS
    panels = 2 + shed + (set_points > 0) + response
    room -= SPACING * (panels - 1) + STRIP * (shed + set_points)
    rows = int(max(110, min(96 * replicas, 0.58 * room)))
    rest = max(room - rows, SMALLEST_PANEL * (1 + response))
    queue = int(rest * 0.55) if response else rest
    return Heights(rows, STRIP * set_points, queue, rest - queue)


def value_axis(title: Sequence[str] = (), **options: Any) -> alt.Axis:
    """A y axis as wide as all others, so that the panels align; its title has two lines at most."""
    extent = LEFT - 36
    told = list(title) or None
    return alt.Axis(title=told, minExtent=extent, maxExtent=extent, **options)


def wrapped(parts: Sequence[str], separator: str, most: int) -> list[str]:
    """The parts in lines of at most `most` characters, a longer part on a line of its own."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(separator) + len(part) <= most:
            lines[-1] += separator + part
        else:
            lines.append(part)
    return lines
