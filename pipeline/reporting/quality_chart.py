"""The quality of all sources as a picture: rate over time by class, gaps, and rejects."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import vl_convert

from pipeline.quality import SourceQuality
from pipeline.quality.content import OTHERS, Content
from pipeline.quality.order import Order
from pipeline.quality.words import duration
from pipeline.reporting.charts import BAND, INK, SERIES, SOFT, WIDTH, rows_of, specification
from pipeline.reporting.text import percent, plural

_CLASSES = 7  # that have a color; the others are one
_REASONS = 6
_LETTERS = 46  # of a reason
_REJECTS_WIDTH = 150
_SCALE = 1.5  # pixels of the file in one of the picture
_UNITS = (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0), ("s", 1.0))


def drawn_quality(qualities: Sequence[SourceQuality]) -> bytes:
    """The chart as PNG."""
    return bytes(vl_convert.vegalite_to_png(quality_chart(qualities), scale=_SCALE))


def quality_chart(qualities: Sequence[SourceQuality]) -> dict[str, Any]:
    """The chart as a Vega-Lite spec: a row of panels for each source."""
    rows = [_source(quality) for quality in qualities]
    whole = alt.vconcat(*rows, spacing=28).resolve_scale(color="independent")
    return specification(whole.properties(padding=12))


def _source(quality: SourceQuality) -> Any:
    share = quality.rows_rejected / quality.rows_read if quality.rows_read else 0.0
    told = f"{plural(quality.rows_read, 'row')} read, {percent(share, 2)} rejected"
    lines = [f"{told}; {quality.survivors}"]
    if quality.order is not None:
        lines.append(_gaps_told(quality.order))
    title = alt.TitleParams(
        f"{quality.source} ({quality.kind})",
        subtitle=lines,
        anchor="start",
        subtitleColor=INK,
        offset=8,
    )
    panels: list[Any] = []
    if quality.order is not None and quality.content is not None:
        rejects = 2 * _REJECTS_WIDTH + 60 if quality.rejects else 0
        width = WIDTH - 80 - rejects
        panels.append(_rate_panel(quality.order, quality.content, width))
    if quality.rejects:
        panels.append(_rejects_panel(quality))
    if not panels:
        panels.append(_words_panel("no requests and no rejects"))
    return alt.hconcat(*panels, spacing=20).properties(title=title)


def _gaps_told(order: Order) -> str:
    beyond = order.gaps.beyond_poisson
    step = "" if order.step_us is None else f"; the clock's step is {duration(order.step_us)}"
    return (
        f"{plural(beyond, 'gap')} longer than Poisson arrivals would have"
        f"{' (the longest are shaded)' if beyond else ''}; "
        f"{plural(order.inversions, 'inversion')}, {order.ties:,} ties{step}"
    )


def _rate_panel(order: Order, content: Content, width: int) -> Any:
    """Steps of the rate by class, and the longest gaps that Poisson arrivals would not have."""
    rate = content.rate
    span_s = (order.last_us - order.first_us) / 1e6
    unit, unit_s = next((unit for unit in _UNITS if span_s >= 3 * unit[1]), ("s", 1.0))
    title = f"time since the first arrival ({unit})"
    series = _shown_classes(content)
    rows = [
        {"clock": number * rate.window_s / unit_s, "name": name, "rate": rows / rate.window_s}
        for name, counts in series.items()
        for number, rows in enumerate([*counts, counts[-1]])
    ]
    domain = [0.0, len(next(iter(series.values()))) * rate.window_s / unit_s]
    scale = alt.Scale(domain=domain, nice=False)
    colors = alt.Scale(domain=list(series), range=list(SERIES[: len(series)]))
    legend = alt.Legend(title=None, labelLimit=180, columns=4) if len(series) > 1 else None
    line = (
        alt.Chart(rows_of(rows))
        .mark_line(interpolate="step-after", strokeWidth=1.5)
        .encode(
            x=alt.X("clock:Q", title=title, scale=scale),
            y=alt.Y("rate:Q", title="arrivals (requests/s)", axis=alt.Axis(tickCount=4)),
            color=alt.Color("name:N", title=None, scale=colors, sort=None, legend=legend),
        )
    )
    silent = [
        {
            "clock": (gap.start_us - order.first_us) / 1e6 / unit_s,
            "end": (gap.start_us + gap.length_us - order.first_us) / 1e6 / unit_s,
        }
        for gap in order.gaps.longest
        if gap.length_us > order.gaps.poisson_longest_us
    ]
    band = (
        alt.Chart(rows_of(silent))
        .mark_rect(color=BAND, stroke=BAND, strokeWidth=1)
        .encode(x=alt.X("clock:Q", title=title, scale=scale), x2="end:Q")
    )
    layers = [band, line] if silent else [line]
    return alt.layer(*layers).properties(width=width, height=120)


def _shown_classes(content: Content) -> dict[str, list[int]]:
    """The counts of the most frequent classes, and of all others together."""
    requests = content.rate.whole_windows()
    if len(requests) <= _CLASSES + 1:
        return requests
    first = {name: counts for name, counts in list(requests.items())[:_CLASSES] if name != OTHERS}
    rest = [counts for name, counts in requests.items() if name not in first]
    return {**first, OTHERS: [sum(window) for window in zip(*rest, strict=True)]}


def _rejects_panel(quality: SourceQuality) -> Any:
    """Rejected rows by reason."""
    by_reason: dict[str, int] = {}
    for reason in quality.rejects:
        name = reason.reason if len(reason.reason) <= _LETTERS else reason.reason[:_LETTERS] + "…"
        by_reason[name] = by_reason.get(name, 0) + reason.rows
    shown = sorted(by_reason.items(), key=lambda item: -item[1])[:_REASONS]
    rows = [{"reason": name, "rows": count} for name, count in shown]
    y = alt.Y(
        "reason:N",
        sort=[name for name, _ in shown],
        title=None,
        axis=alt.Axis(labelLimit=290, ticks=False, domain=False),
    )
    bar = alt.Chart(rows_of(rows)).encode(y=y)
    axis = alt.Axis(tickCount=3, tickMinStep=1, format="~s")
    drawn = bar.mark_bar(color=SERIES[1], size=12).encode(
        x=alt.X("rows:Q", title="rejected rows", axis=axis)
    )
    return drawn.properties(width=_REJECTS_WIDTH, height=alt.Step(20))


def _words_panel(words: str) -> Any:
    text = alt.Chart(rows_of([{"words": words}])).mark_text(align="left", color=SOFT, fontSize=12)
    return text.encode(x=alt.value(0), text="words:N").properties(width=WIDTH - 80, height=20)
