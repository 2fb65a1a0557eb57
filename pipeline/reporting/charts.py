"""The charts, as Vega-Lite specs. Rows of plain values in, one spec out; no file is read here."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from pipeline.reporting.text import reward as reward_text

Row = dict[str, Any]

WIDTH = 940  # px of a whole chart; the page shrinks it where it is narrower
KINDS = {"rule": "#0072b2", "offline agent": "#d55e00", "online agent": "#007a55"}
SERIES = ("#0072b2", "#d55e00", "#007a55", "#8e4585", "#6b5b00", "#333333", "#c2185b", "#5b7083")
INK, SOFT, BAND = "#333333", "#767676", "#d9d9d9"
AXIS = alt.AxisConfig(
    labelFontSize=12,
    titleFontSize=12,
    titleFontWeight="normal",
    labelColor=INK,
    titleColor=INK,
    gridColor="#e8e8e8",
    domainColor=SOFT,
    tickColor=SOFT,
)
_DIGITS = 6  # of a number in a spec
_FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"


def specification(chart: Any) -> dict[str, Any]:
    """The chart as a Vega-Lite spec, checked by Altair against the schema, in the page's style."""
    told: dict[str, Any] = chart.configure(
        font=_FONT,
        background="white",
        view=alt.ViewConfig(stroke=None),
        axis=AXIS,
        axisXQuantitative=alt.AxisConfig(labelSeparation=10, labelOverlap="greedy"),
        header=alt.HeaderConfig(labelFontSize=13, labelFontWeight="bold", labelColor=INK),
        legend=alt.LegendConfig(labelFontSize=12, labelColor=INK, orient="top", symbolOpacity=1),
    ).to_dict()
    return told


def rows_of(rows: Sequence[Mapping[str, Any]]) -> alt.InlineData:
    """Rows for a chart: numbers with six digits, what is not finite as null."""
    return alt.InlineData(
        values=[{key: _rounded(value) for key, value in row.items()} for row in rows]
    )


def _rounded(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None


def _series(field: str, names: Sequence[str]) -> alt.Color:
    """A color for each of `names`, the same in every chart that names them in this order."""
    colors = [SERIES[number % len(SERIES)] for number in range(len(names))]
    return alt.Color(
        f"{field}:N", title=None, scale=alt.Scale(domain=list(names), range=colors), sort=None
    )


def load_chart(rows: Sequence[Row], splits: Sequence[Row], classes: Sequence[str]) -> alt.Chart:
    """Arrival rate over the logged time; `rows` {clock_s, request_class, rate_rps}.

    `splits` {split, start_s} are marked where they begin.
    """
    rate = (
        alt.Chart(rows_of(rows))
        .mark_line(strokeWidth=1.5)
        .encode(
            x=alt.X("clock_s:Q", title="logged time (s)"),
            y=alt.Y("rate_rps:Q", title="arrivals (requests/s)"),
            color=_series("request_class", classes).legend(title=None, offset=24),
        )
    )
    begin = alt.Chart(rows_of(splits)).encode(x="start_s:Q")
    rule = begin.mark_rule(color=SOFT, strokeDash=[4, 3])
    name = begin.mark_text(align="left", baseline="bottom", dx=4, color=INK, fontSize=12).encode(
        y=alt.value(-2), text="split:N"
    )
    return (rate + rule + name).properties(width=WIDTH - 80, height=150)


def service_chart(rows: Sequence[Row], replicas: Sequence[str], classes: Sequence[str]) -> Any:
    """Batch latency by batch size, a panel for each class.

    `rows` {request_class, replica, total_size, shown_size, expected_ms, mean_ms, low_ms, high_ms}:
    a line through the expected ones, a point with its spread for the measured ones, null else.
    """
    base = alt.Chart().encode(color=_series("replica", replicas))
    size = alt.X("shown_size:Q", title="batch size (requests)")
    latency = "batch latency (ms)"
    line = (
        base.transform_filter("datum.expected_ms != null")
        .mark_line()
        .encode(x=size, y=alt.Y("expected_ms:Q", title=latency))
    )
    measured = base.transform_filter("datum.mean_ms != null")
    spread = measured.mark_rule(opacity=0.6).encode(
        x=size, y=alt.Y("low_ms:Q", title=latency), y2="high_ms:Q"
    )
    point = measured.mark_point(filled=True, size=45, opacity=1).encode(
        x=size,
        y=alt.Y("mean_ms:Q", title=latency),
        tooltip=["request_class:N", "replica:N", "total_size:Q", "batches:Q", "mean_ms:Q"],
    )
    columns = min(2, len(classes))
    panel = alt.layer(line, spread, point, data=rows_of(rows)).properties(
        width=(WIDTH - 70 * columns) // columns, height=220
    )
    return panel.facet(
        facet=alt.Facet("request_class:N", title=None, sort=list(classes)), columns=columns
    ).resolve_scale(x="independent", y="independent")


def learning_chart(
    rows: Sequence[Row], agents: Sequence[str], rule: Row, lowest: float | None
) -> alt.LayerChart:
    """Reward per second of online agents against decisions made; dashed where in training.

    `rows` {agent, series, steps, reward_per_s}, series `training` or `validation`; `rule`
    {name, reward_per_s} is the line to beat. Below `lowest` the lines are cut off.
    """
    domain = alt.Scale(zero=False) if lowest is None else alt.Scale(domainMin=lowest)
    dashes = {"validation": [1, 0], "training": [3, 3]}
    shown = [series for series in dashes if any(row["series"] == series for row in rows)]
    reward = alt.Y("reward_per_s:Q", title="reward/s", scale=domain)
    line = (
        alt.Chart(rows_of(rows))
        .mark_line(clip=True)
        .encode(
            x=alt.X("steps:Q", title="decisions made in training", axis=alt.Axis(tickCount=6)),
            y=reward,
            color=_series("agent", agents),
            strokeDash=alt.StrokeDash(
                "series:N",
                title=None,
                scale=alt.Scale(domain=shown, range=[dashes[series] for series in shown]),
                sort=None,
            ),
        )
    )
    best = alt.Chart(rows_of([rule])).encode(y=reward)
    mark = best.mark_rule(color=INK, strokeWidth=1.5)
    name = best.mark_text(align="left", baseline="bottom", dy=-3, color=INK, fontSize=12).encode(
        x=alt.value(6), text="name:N"
    )
    return (line + mark + name).properties(width=WIDTH - 80, height=240)


def curve_panels(rows: Sequence[Row], agents: Sequence[str], panels: Sequence[str], x: str) -> Any:
    """Small line charts, each with its own scale; `rows` {agent, panel, progress, value}."""
    columns = 3
    line = (
        alt.Chart(rows_of(rows))
        .mark_line(strokeWidth=1.5)
        .encode(
            x=alt.X("progress:Q", title=x, axis=alt.Axis(tickCount=4)),
            y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=False)),
            color=_series("agent", agents),
        )
        .properties(width=(WIDTH - 60 * columns) // columns, height=130)
    )
    return line.facet(
        facet=alt.Facet("panel:N", title=None, sort=list(panels)), columns=columns
    ).resolve_scale(x="independent", y="independent")


def comparison_chart(
    rows: Sequence[Row], order: Sequence[str], lowest: tuple[float, float] | None
) -> alt.HConcatChart:
    """Every policy's reward and its difference to the best rule, with intervals, side by side.

    `rows` {policy, kind, reward, reward_low, reward_high, gain, gain_low, gain_high}. Where
    `lowest` (reward, gain) is given, a policy below it is drawn as an arrow at the edge.
    """
    reward, gain = (None, None) if lowest is None else lowest
    left = _interval_panel(rows, order, "reward", "reward/s", reward, True)
    right = _interval_panel(rows, order, "gain", "difference to the best rule (reward/s)", gain)
    zero = alt.Chart(rows_of([{"zero": 0.0}])).mark_rule(color=INK).encode(x="zero:Q")
    return alt.hconcat(left, zero + right, spacing=24)


def _interval_panel(
    rows: Sequence[Row],
    order: Sequence[str],
    field: str,
    title: str,
    lowest: float | None,
    labelled: bool = False,
) -> Any:
    inside = [row for row in rows if lowest is None or row[field] >= lowest]
    beyond = [{**row, "edge": lowest, "told": f"◀ {reward_text(row[field])}"} for row in rows]
    beyond = [row for row in beyond if lowest is not None and row[field] < lowest]
    domain = alt.Scale(zero=False) if lowest is None else alt.Scale(domainMin=lowest)
    y = alt.Y(
        "policy:N",
        sort=list(order),
        scale=alt.Scale(domain=list(order)),
        title=None,
        axis=alt.Axis(grid=True, labels=labelled, ticks=False, domain=False, labelLimit=200),
    )
    colors = alt.Scale(domain=list(KINDS), range=list(KINDS.values()))
    shapes = alt.Scale(domain=list(KINDS), range=["circle", "square", "triangle-up"])
    color = alt.Color("kind:N", title=None, scale=colors, sort=None)
    base = alt.Chart(rows_of(inside)).encode(y=y, color=color)
    span = base.mark_rule(strokeWidth=2.5, clip=True).encode(
        x=alt.X(f"{field}_low:Q", title=title, scale=domain, axis=alt.Axis(tickCount=6)),
        x2=f"{field}_high:Q",
    )
    point = base.mark_point(filled=True, size=80, opacity=1).encode(
        x=alt.X(f"{field}:Q", title=title, scale=domain),
        shape=alt.Shape("kind:N", title=None, scale=shapes, sort=None),
        tooltip=["policy:N", "kind:N", f"{field}:Q", f"{field}_low:Q", f"{field}_high:Q"],
    )
    arrow = (
        alt.Chart(rows_of(beyond))
        .mark_text(align="left", fontSize=12)
        .encode(x=alt.X("edge:Q", title=title, scale=domain), y=y, color=color, text="told:N")
    )
    layers = [span, point, arrow] if beyond else [span, point]
    return alt.layer(*layers).properties(width=(WIDTH - 190) // 2, height=alt.Step(24))
