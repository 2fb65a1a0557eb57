"""The timeline picture as a Vega-Lite spec: tables in, one spec out; no file is read here."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import altair as alt
import polars as pl

from pipeline.inspect.frame import (
    LINE,
    PADDING,
    PLOT,
    SPACING,
    STRIP,
    Frame,
    inline,
    keyed,
    share_heights,
    value_axis,
)
from pipeline.inspect.levels import QUEUE_LEVELS, most_in_service, stacked_levels
from pipeline.inspect.replica_panel import Rows, is_bars, replica_panel
from pipeline.inspect.service import PREEMPTED
from pipeline.inspect.timeline import Timeline
from pipeline.reporting.charts import AXIS, INK
from pipeline.reporting.text import milliseconds
from simulator.scenario import QueuePlace, Scenario

FONT = "DejaVu Sans, Verdana, sans-serif"
ALARM, LETTER_PX = "#b2182b", 8


class Caption(NamedTuple):
    """The words of the picture."""

    title: str
    facts: Sequence[str]  # lines under the title
    replicas: Sequence[str]  # [K] names of the rows
    alarm: bool = False  # the first fact is a warning


def timeline_chart(
    shown: Timeline, scenario: Scenario, caption: Caption, start_s: float, end_s: float
) -> dict[str, Any]:
    """The picture of a timeline that `cut_to` has cut to [start_s, end_s].

    Replicas, shed requests, set-points, queue, response times; each where the episode has it.
    """
    set_points = shown.set_point["set_point"].unique(maintain_order=True).to_list()
    has_shed, has_response = not shown.shed.is_empty(), not shown.response.is_empty()
    heights = share_heights(
        len(caption.facts), len(scenario.replicas), has_shed, len(set_points), has_response
    )
    frame = Frame(scenario.class_names, start_s, end_s, heights, _states(shown))
    rows = Rows(caption.replicas, max(most_in_service(shown.service), 1))
    as_bars = is_bars(shown.service, scenario)
    panels = [
        _head_panel(caption, frame),
        replica_panel(shown.service, shown.replica_state, rows, frame, as_bars),
    ]
    if has_shed:
        panels.append(_shed_panel(shown.shed, frame))
    if set_points:
        panels.append(_set_point_panel(shown.set_point, set_points, frame))
    panels.append(_queue_panel(shown.queue_change, scenario, frame, not has_response))
    if has_response:
        panels.append(_response_panel(shown.response, scenario, frame))
    return _finished(panels, caption)


def _states(shown: Timeline) -> tuple[str, ...]:
    present = set(shown.replica_state["state"]) & {"starting", "down"}
    if (shown.service["ending"] == PREEMPTED).any():
        present.add("preempted")
    return tuple(state for state in ("starting", "down", "preempted") if state in present)


def _shed_panel(shed: pl.DataFrame, frame: Frame) -> Any:
    """A tick for each request that was refused or lost."""
    axis = value_axis(values=[0.5], labelExpr="'shed'", grid=False, ticks=False, domain=False)
    ticks = keyed(shed).with_columns(top=pl.lit(0.0), bottom=pl.lit(1.0))
    chart = alt.Chart(inline(ticks)).mark_rule(strokeWidth=1.2)
    return chart.encode(
        x=frame.time("clock_s"),
        y=alt.Y("top:Q", scale=alt.Scale(domain=[0, 1]), axis=axis),
        y2="bottom",
        color=frame.color(),
    ).properties(width=PLOT, height=STRIP)


def _set_point_panel(set_point: pl.DataFrame, names: Sequence[str], frame: Frame) -> Any:
    """The values of the set-points; a band begins where a decision has changed one."""
    numbered = set_point.with_columns(
        odd=(pl.int_range(pl.len()) % 2).over("set_point"),
        words=pl.struct("set_point", "value").map_elements(_told, pl.String),
        middle_s=(pl.col("start_s") + pl.col("end_s")) / 2,
    )
    y = alt.Y(
        "set_point:N",
        sort=list(names),
        axis=value_axis(ticks=False, domain=False, labelLimit=110),
    )
    band = (
        alt.Chart(inline(numbered))
        .mark_bar(height=STRIP - 3)
        .encode(
            x=frame.time("start_s"),
            x2="end_s",
            y=y,
            color=alt.condition("datum.odd == 1", alt.value("#d5dce4"), alt.value("#e9edf2")),
        )
    )
    width_px = frame.px(pl.col("end_s") - pl.col("start_s"))
    fitting = numbered.filter(width_px >= 7 * pl.col("words").str.len_chars() + 6)
    text = alt.Chart(inline(fitting)).mark_text(fontSize=11, color=INK)
    told = text.encode(x=frame.time("middle_s"), y=y, text="words:N")
    return (band + told).properties(width=PLOT, height=frame.heights.set_points)


def _told(row: dict[str, Any]) -> str:
    is_time = row["set_point"].endswith("_s")
    return milliseconds(row["value"]) if is_time else f"{row['value']:g}"


def _queue_panel(changes: pl.DataFrame, scenario: Scenario, frame: Frame, last: bool) -> Any:
    """Requests waiting, by class, one class on the other."""
    classes = len(scenario.request_classes)
    changes = changes.with_columns(row=pl.lit(0, pl.Int64))
    levels = stacked_levels(changes, classes, frame.start_s, frame.end_s, QUEUE_LEVELS)
    highest = float(levels["high"].max() or 0.0)  # type: ignore[arg-type]
    scale = alt.Scale(domain=[0, max(highest, 4.0)], nice=True)  # below 4 a tick would be a half
    y = alt.Y(
        "high:Q",
        scale=scale,
        axis=value_axis(["queue length"], format="d", tickMinStep=1, tickCount=4),
    )
    area = (
        alt.Chart(inline(keyed(levels)))
        .mark_area(interpolate="step-after")
        .encode(x=frame.time("clock_s", last), y=y, y2="low", color=frame.color())
    )
    layers = [area]
    if scenario.queues == QueuePlace.CENTRAL and highest >= 0.6 * scenario.queue_capacity:
        capacity = alt.Chart(alt.InlineData(values=[{"high": scenario.queue_capacity}]))
        layers.append(capacity.mark_rule(color=INK, strokeDash=[5, 4]).encode(y=y))
    return alt.layer(*layers).properties(width=PLOT, height=frame.heights.queue)


def _response_panel(response: pl.DataFrame, scenario: Scenario, frame: Frame) -> Any:
    """The P95 of the last answers of each class; dashed the SLO where it is in sight."""
    told = keyed(response).with_columns(ms=pl.col("response_p95_s") * 1e3)
    highest = float(told["ms"].max())  # type: ignore[arg-type]
    targets = pl.DataFrame(
        {
            "request_class": range(len(scenario.request_classes)),
            "ms": [request_class.slo_s * 1e3 for request_class in scenario.request_classes],
        }
    ).filter(pl.col("ms") <= 1.6 * highest)
    dashed = ["dashed: SLO"] if len(targets) else []
    top = max([1.04 * highest, *(1.04 * targets["ms"]).to_list()])
    y = alt.Y(
        "ms:Q",
        scale=alt.Scale(domain=[0, top]),
        axis=value_axis(["P95 response (ms)", *dashed], format=",~r", tickCount=4),
    )
    line = (
        alt.Chart(inline(told.select("key", "clock_s", "ms")))
        .mark_line(interpolate="step-after", strokeWidth=1.5)
        .encode(x=frame.time("clock_s", True), y=y, color=frame.color())
    )
    rule = alt.Chart(inline(keyed(targets))).mark_rule(strokeDash=[5, 4])
    layers = [line, rule.encode(y=y, color=frame.color())] if len(targets) else [line]
    return alt.layer(*layers).properties(width=PLOT, height=frame.heights.response)


def _head_panel(caption: Caption, frame: Frame) -> Any:
    """The lines of facts, the first in red where it is a warning, and the legend under them.

    The legend is drawn here because one of Vega's would lie upon the facts.
    """
    facts = [
        {"y": LINE * number, "words": words, "ink": ALARM if caption.alarm and not number else INK}
        for number, words in enumerate(caption.facts)
    ]
    below, x, symbols = LINE * len(facts) + LINE / 2, 6.0, []
    for _, words, color in frame.legend:
        width = LETTER_PX * len(words) + 40
        if x + width > PLOT:
            below, x = below + LINE, 6.0
        symbols.append({"x": x, "y": below, "words": words, "color": color})
        x += width
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[0, below], range=[0, below]))
    across = alt.Scale(domain=[0, PLOT], range=[0, PLOT])
    text = alt.Chart(alt.InlineData(values=facts)).mark_text(align="left", fontSize=13)
    entries = alt.Chart(alt.InlineData(values=symbols)).encode(y=y)
    square = entries.mark_point(shape="square", filled=True, size=140, opacity=1).encode(
        x=alt.X("x:Q", axis=None, scale=across), color=alt.Color("color:N", scale=None)
    )
    name = entries.mark_text(align="left", dx=12, fontSize=13, color=INK).encode(
        x=alt.X("x:Q", axis=None, scale=across), text="words:N"
    )
    told = text.encode(x=alt.value(0), y=y, text="words:N", color=alt.Color("ink:N", scale=None))
    return alt.layer(told, square, name).properties(width=PLOT, height=below)


def _finished(panels: Sequence[Any], caption: Caption) -> dict[str, Any]:
    """The panels under each other with title and style, checked by Altair against the schema."""
    title = alt.TitleParams(
        caption.title,
        anchor="start",
        frame="group",
        fontSize=20,
        offset=8,
    )
    stacked = alt.vconcat(*panels, spacing=SPACING, title=title, padding=PADDING, bounds="flush")
    told: dict[str, Any] = stacked.configure(
        font=FONT,
        background="white",
        view=alt.ViewConfig(stroke=None),
        axis=AXIS,
        axisX=alt.AxisConfig(labelFlush=True),
    ).to_dict()
    return told
