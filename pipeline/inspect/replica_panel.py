"""The upper panel: one row per replica, with what it served and when it was not up."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import altair as alt
import polars as pl

from pipeline.inspect.frame import CLASS_COLORS, DARK_COLORS, PLOT, Frame, inline, keyed, value_axis
from pipeline.inspect.levels import ROW_LEVELS, service_changes, stacked_levels
from pipeline.inspect.service import LOST, PREEMPTED
from pipeline.reporting.charts import INK
from simulator.scenario import Scenario

UP, HATCH = "#efefef", "#8f8f8f"
TOP, BOTTOM = 0.08, 0.94  # shares of a row's height between which a full bar stands
MOST_BARS = 600  # in a row; beyond it, at some 2 px each, they become a level over time
LABELED_ROWS, TALL_ROWS = 14, 24  # most replicas whose bars have a label, and a height of their own
HATCH_PX, DIGIT_PX, LABEL_PX, ROW_LABEL_PX, GAP_PX = 9, 7, 13, 14, 4

_PALE = alt.condition(f"datum.ending == '{LOST}'", alt.value(0.45), alt.value(1))


class Rows(NamedTuple):
    """The replicas as rows, from the top."""

    names: Sequence[str]  # [K]
    tallest: float  # requests in service that fill a row's height


def is_bars(service: pl.DataFrame, scenario: Scenario) -> bool:
    """Whether batches are drawn as bars: they exist, and are not too many."""
    in_a_row = service.group_by("replica").len().filter(pl.col("len") > MOST_BARS)
    return not scenario.continuous and in_a_row.is_empty()


def replica_panel(
    service: pl.DataFrame, replica_state: pl.DataFrame, rows: Rows, frame: Frame, as_bars: bool
) -> Any:
    """Bars of batches, or else the requests in service over time.

    Either is as high as there are requests in service, of `rows.tallest`; with more than TALL_ROWS
    replicas there is no room for that, and a bar fills its row.
    """
    layers = [_up(replica_state, rows, frame)]
    if as_bars:
        layers += _bars(service, rows, frame)
    elif not service.is_empty():
        layers.append(_levels(service, rows, frame))
    layers += _states(replica_state, rows, frame)
    layers += _preempted(service, rows, frame)
    return alt.layer(*layers).properties(width=PLOT, height=frame.heights.replicas)


def _row_axis(rows: Rows, frame: Frame) -> alt.Y:
    count = len(rows.names)
    every = max(1, round(ROW_LABEL_PX * count / frame.heights.replicas + 0.49))
    axis = value_axis(
        values=[number + 0.5 for number in range(0, count, every)],
        labelExpr=f"{json.dumps(list(rows.names))}[floor(datum.value)]",
        grid=False,
        ticks=False,
        domain=False,
        labelOverlap=False,
    )
    scale = alt.Scale(domain=[0, count], reverse=True, nice=False, zero=False)
    return alt.Y("top:Q", scale=scale, axis=axis)


def _placed(frame: pl.DataFrame, rows: Rows) -> pl.DataFrame:
    """With `top` and `bottom` in rows, from `low` and `high` in requests."""
    base, height = pl.col("replica") + BOTTOM, (BOTTOM - TOP) / rows.tallest
    return frame.with_columns(
        top=base - height * pl.col("high"), bottom=base - height * pl.col("low")
    )


def _whole_rows(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(top=pl.col("replica") + TOP, bottom=pl.col("replica") + BOTTOM)


def _up(replica_state: pl.DataFrame, rows: Rows, frame: Frame) -> Any:
    """A light band where a replica is on; nothing where it is off."""
    spans = []
    for replica in range(len(rows.names)):
        off = replica_state.filter(pl.col("replica") == replica, pl.col("state") == "off")
        edges = [frame.start_s, *off.select("start_s", "end_s").to_numpy().ravel(), frame.end_s]
        pairs = zip(edges[::2], edges[1::2], strict=True)
        spans += [(replica, start, end) for start, end in pairs if end > start]
    schema = {"replica": pl.Int64, "start_s": pl.Float64, "end_s": pl.Float64}
    bands = _whole_rows(pl.DataFrame(spans, schema, orient="row"))
    return _rectangles(bands, rows, frame).mark_rect(color=UP)


def _rectangles(spans: pl.DataFrame, rows: Rows, frame: Frame) -> alt.Chart:
    return alt.Chart(inline(spans)).encode(
        x=frame.time("start_s"), x2="end_s", y=_row_axis(rows, frame), y2="bottom"
    )


def _bars(service: pl.DataFrame, rows: Rows, frame: Frame) -> list[Any]:
    """The batches, and how many requests each had where there is room to say it."""
    if len(rows.names) > TALL_ROWS:
        full = (BOTTOM - TOP) / pl.col("batch_size")
        base = pl.col("replica") + BOTTOM
        top, bottom = base - full * pl.col("high"), base - full * pl.col("low")
        filled = _rectangles(keyed(service).with_columns(top=top, bottom=bottom), rows, frame)
        return [filled.mark_rect().encode(color=frame.color(), opacity=_PALE)]
    gap = alt.condition(
        f"datum.end_s - datum.start_s > {frame.seconds(GAP_PX):g}", alt.value(0.7), alt.value(0)
    )
    bars = _placed(keyed(service), rows)
    drawn = _rectangles(bars, rows, frame).mark_rect(stroke="white")
    layers = [drawn.encode(color=frame.color(), opacity=_PALE, strokeWidth=gap)]
    return layers + _labels(bars, rows, frame) if len(rows.names) <= LABELED_ROWS else layers


def _labels(bars: pl.DataFrame, rows: Rows, frame: Frame) -> list[Any]:
    """Batch sizes of the bars that are wide enough: inside where it is high enough, else above."""
    row_px = frame.heights.replicas / len(rows.names)
    digits = pl.col("batch_size").cast(pl.String).str.len_chars()
    inside = (pl.col("bottom") - pl.col("top")) * row_px > LABEL_PX + 2
    on_dark = (pl.col("request_class") % len(CLASS_COLORS)).is_in(DARK_COLORS)
    told = bars.filter(
        pl.col("high") == pl.col("batch_size"),
        frame.px(pl.col("end_s") - pl.col("start_s")) >= DIGIT_PX * digits + 4,
    ).with_columns(
        middle_s=(pl.col("start_s") + pl.col("end_s")) / 2,
        ink=pl.when(inside & on_dark).then(pl.lit("white")).otherwise(pl.lit(INK)),
    )
    layers = []
    for words, dy in ((told.filter(inside), 8), (told.filter(~inside), -6)):
        if not words.is_empty():
            text = alt.Chart(inline(words)).mark_text(fontSize=11, dy=dy)
            layers.append(
                text.encode(
                    x=frame.time("middle_s"),
                    y=_row_axis(rows, frame),
                    text="batch_size:Q",
                    color=alt.Color("ink:N", scale=None),
                )
            )
    return layers


def _levels(service: pl.DataFrame, rows: Rows, frame: Frame) -> Any:
    """Requests in service over time."""
    changes = service_changes(service)
    classes = len(frame.class_names)
    levels = stacked_levels(changes, classes, frame.start_s, frame.end_s, ROW_LEVELS)
    areas = _placed(keyed(levels.rename({"row": "replica"})), rows)
    return (
        alt.Chart(inline(areas))
        .mark_area(interpolate="step-after")
        .encode(
            x=frame.time("clock_s"),
            y=_row_axis(rows, frame),
            y2="bottom",
            detail="replica:N",
            color=frame.color(),
        )
    )


def _states(replica_state: pl.DataFrame, rows: Rows, frame: Frame) -> list[Any]:
    layers = []
    down = _whole_rows(replica_state.filter(pl.col("state") == "down"))
    if not down.is_empty():
        chart = _rectangles(down.with_columns(key=pl.lit("down")), rows, frame)
        layers.append(chart.mark_rect(opacity=0.85).encode(color=frame.color()))
    starting = replica_state.filter(pl.col("state") == "starting")
    if not starting.is_empty():
        layers.append(_hatch(starting, rows, frame))
    return layers


def _hatch(spans: pl.DataFrame, rows: Rows, frame: Frame) -> Any:
    """Slanted lines over the spans: Vega-Lite has no pattern to fill with."""
    row_px = frame.heights.replicas / len(rows.names)
    slant = frame.seconds((BOTTOM - TOP) * row_px)  # at 45 degrees
    gap_s = frame.seconds(HATCH_PX)
    lines = []
    for replica, start, end in spans.select("replica", "start_s", "end_s").iter_rows():
        foot = start - slant + gap_s / 2
        while foot < end:
            low, high = max(foot, start), min(foot + slant, end)
            lift = [(BOTTOM - TOP) * (instant - foot) / slant for instant in (low, high)]
            lines.append((low, high, *(replica + BOTTOM - part for part in lift)))
            foot += gap_s
    frame_lines = pl.DataFrame(lines, ["start_s", "end_s", "top", "bottom"], orient="row")
    chart = _rectangles(frame_lines.with_columns(key=pl.lit("starting")), rows, frame)
    return chart.mark_rule(strokeWidth=1.2).encode(color=frame.color())


def _preempted(service: pl.DataFrame, rows: Rows, frame: Frame) -> list[Any]:
    """A tick over a row where a sequence had to leave."""
    ticks = service.filter(
        pl.col("ending") == PREEMPTED,
        pl.col("end_s") >= frame.start_s,
        pl.col("end_s") < frame.end_s,
    ).select(
        start_s="end_s",
        top=pl.col("replica") + 0.0,
        bottom=pl.col("replica") + TOP + 0.06,
        key=pl.lit("preempted"),
    )
    if ticks.is_empty():
        return []
    chart = alt.Chart(inline(ticks)).mark_rule(strokeWidth=1.4)
    return [
        chart.encode(
            x=frame.time("start_s"),
            y=_row_axis(rows, frame),
            y2="bottom",
            color=frame.color(),
        )
    ]
