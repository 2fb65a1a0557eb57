"""The league as a picture: cost above the first with intervals, and SLO attainment."""

import textwrap
from collections.abc import Sequence
from typing import Any

import altair as alt
import vl_convert

from pipeline.arena.entrants import Kind
from pipeline.arena.league import League
from pipeline.arena.standing import Standing
from pipeline.arena.table import number
from pipeline.reporting.charts import INK, SERIES, SOFT, WIDTH, rows_of, specification
from pipeline.reporting.text import plural

COLORS = {Kind.TUNED: "#0072b2", Kind.GIVEN: "#8e4585", Kind.BASELINE: "#d55e00"}
COLORS |= {Kind.LOGGED: "#009e73", Kind.YARDSTICK: INK}
_SHAPES = {
    Kind.TUNED: "circle",
    Kind.GIVEN: "diamond",
    Kind.BASELINE: "square",
    Kind.LOGGED: "cross",
    Kind.YARDSTICK: "triangle-up",
}
_LETTERS = 135  # of a line of words
_FAR = 4.0  # times the median difference: what lies beyond is an arrow at the edge


def drawn_league(league: League) -> bytes:
    """The chart as PNG."""
    return bytes(vl_convert.vegalite_to_png(league_chart(league), scale=2))


def league_chart(league: League) -> dict[str, Any]:
    """The chart as a Vega-Lite spec."""
    rows = [_row(standing) for standing in league.standings]
    title = alt.TitleParams(
        f"{league.scenario}: {plural(league.episodes, 'test episode')}",
        subtitle=[
            line
            for sentence in (league.why, *league.sentences)
            for line in textwrap.wrap(sentence, _LETTERS)
        ],
        anchor="start",
        subtitleColor=INK,
        offset=12,
    )
    panels = alt.hconcat(_cost_panel(rows), _slo_panel(league), spacing=24)
    panels = panels.resolve_scale(color="independent")
    return specification(panels.properties(title=title, padding=12))


def _row(standing: Standing) -> dict[str, Any]:
    difference = standing.difference
    return {
        "policy": standing.name,
        "kind": str(standing.kind),
        "more": difference.mean,
        "low": difference.low,
        "high": difference.high,
    }


def edge_of(differences: Sequence[float]) -> float:
    """Up to where the axis goes: to the largest, or to `_FAR` times the median of what is above 0.

    One policy that lets its queue overflow would press all others into a line.
    """
    above = sorted(difference for difference in differences if difference > 0)
    if not above:
        return 1.0
    return min(above[-1], _FAR * above[len(above) // 2])


def _policies(order: Sequence[str], labelled: bool) -> alt.Y:
    return alt.Y(
        "policy:N",
        sort=list(order),
        scale=alt.Scale(domain=list(order)),
        title=None,
        axis=alt.Axis(
            grid=True,
            labels=labelled,
            ticks=False,
            domain=False,
            labelLimit=260,
            labelPadding=8,
        ),
    )


def _cost_panel(rows: Sequence[dict[str, Any]]) -> Any:
    """The difference to the first with its interval, in the color of where parameters come from."""
    edge = edge_of([row["more"] for row in rows])
    inside = [row for row in rows if row["more"] <= edge]
    beyond = [
        {**row, "edge": edge, "told": f"{number(row['more'], True)} ▶"}
        for row in rows
        if row["more"] > edge
    ]
    y = _policies([row["policy"] for row in rows], labelled=True)
    present = [kind for kind in Kind if any(row["kind"] == kind for row in rows)]
    domain = [str(kind) for kind in present]
    colors = alt.Scale(domain=domain, range=[COLORS[kind] for kind in present])
    shapes = alt.Scale(domain=domain, range=[_SHAPES[kind] for kind in present])
    color = alt.Color("kind:N", title=None, scale=colors, sort=None)
    lowest = min(0.0, *(row["low"] for row in inside))
    highest = edge if beyond else max(edge, *(row["high"] for row in inside))
    scale = alt.Scale(domain=[lowest, highest], nice=not beyond)
    axis = alt.Axis(tickCount=6)
    base = alt.Chart(rows_of(inside)).encode(y=y, color=color)
    title = "cost/s above the first (95 % interval, paired)"
    span = base.mark_rule(strokeWidth=2.5, clip=True).encode(
        x=alt.X("low:Q", title=title, scale=scale, axis=axis), x2="high:Q"
    )
    point = base.mark_point(filled=True, size=80, opacity=1).encode(
        x=alt.X("more:Q", title=title, scale=scale, axis=axis),
        shape=alt.Shape("kind:N", scale=shapes, sort=None, legend=None),
    )
    zero = alt.Chart(rows_of([{"zero": 0.0}])).mark_rule(color=SOFT).encode(x="zero:Q")
    layers = [zero, span, point]
    if beyond:  # of some inside the interval runs out of the picture
        beyond += [{**row, "edge": edge, "told": "▶"} for row in inside if row["high"] > edge]
        arrow = alt.Chart(rows_of(beyond)).mark_text(align="right", fontSize=12)
        layers.append(arrow.encode(x="edge:Q", y=y, color=color, text="told:N"))
    return alt.layer(*layers).properties(width=(WIDTH - 190) * 3 // 5, height=alt.Step(22))


def _slo_panel(league: League) -> Any:
    """SLO attainment of every class."""
    names = list(league.class_names)
    rows = [
        {
            "policy": standing.name,
            "request_class": name,
            "percent": 100.0 * standing.figures.by_class[name]["slo_attainment"],
        }
        for standing in league.standings
        for name in names
    ]
    colors = alt.Scale(
        domain=names, range=[SERIES[(3 + n) % len(SERIES)] for n in range(len(names))]
    )
    legend = alt.Legend(title=None) if len(names) > 1 else None
    order = [standing.name for standing in league.standings]
    panel = (
        alt.Chart(rows_of(rows))
        .mark_tick(thickness=3, size=16, opacity=1)
        .encode(
            x=alt.X(
                "percent:Q",
                title="SLO attainment (%)",
                scale=alt.Scale(zero=False, nice=True),
                axis=alt.Axis(tickCount=5),
            ),
            y=_policies(order, labelled=False),
            color=alt.Color("request_class:N", scale=colors, sort=None, legend=legend),
        )
    )
    return panel.properties(width=(WIDTH - 190) * 2 // 5, height=alt.Step(22))
