"""Quantiles of logged against simulated times: a panel for each class and load band."""

import math
from typing import Any

import altair as alt
import vl_convert

from pipeline.calibration.fidelity import ALL_BANDS, Fidelity, QuantileRow
from pipeline.reporting.charts import INK, SERIES, SOFT, Row, rows_of, specification

METRICS = {"response_s": "response time", "ttft_s": "TTFT", "tpot_s": "TPOT"}
_WIDTH = 1190  # px of all panels of a row
_MARKED = {0.5: "P50", 0.95: "P95", 0.99: "P99"}


def drawn_quantiles(fidelity: Fidelity) -> bytes:
    """The chart as PNG, 1200 px wide or somewhat less."""
    return bytes(vl_convert.vegalite_to_png(specification(quantile_chart(fidelity)), scale=1))


def quantile_chart(fidelity: Fidelity, width: int = _WIDTH) -> Any:
    """Simulated over logged quantiles on log axes; on the diagonal they agree.

    A row of panels for each class (and time, where batching is continuous), a column for each load
    band that the log has. Around the median replay a band from the lowest to the highest one.
    """
    bands = [ALL_BANDS, *(band.name for band in fidelity.bands if band.share > 0)]
    found: dict[tuple[str, str], list[QuantileRow]] = {}
    for row in fidelity.quantiles:
        found.setdefault((row.request_class, row.metric), []).append(row)
    several = len({metric for _, metric in found}) > 1
    rows = [
        alt.hconcat(
            *(
                _panel(
                    [row for row in members if row.band == band],
                    f"{name}, {'all loads' if band == ALL_BANDS else f'load {band}'}",
                    METRICS[metric],
                    _domain(members),
                    (width - 75 * len(bands)) // len(bands),
                )
                for band in bands
            ),
            spacing=18,
        )
        for (name, metric), members in sorted(found.items(), key=_order(fidelity, several))
    ]
    replays = "one replay: nothing in it is random"
    if fidelity.replays > 1:
        replays = f"line: median of {fidelity.replays} replays, shade: lowest to highest"
    title = alt.TitleParams(
        "Logged and simulated quantiles",
        subtitle=f"On the dashed diagonal both agree; {replays}.",
        anchor="start",
        subtitleColor=INK,
    )
    return alt.vconcat(*rows, spacing=18).properties(title=title, padding=12)


def _order(fidelity: Fidelity, several: bool) -> Any:
    names, metrics = list(fidelity.at_batch_size), list(METRICS)
    return lambda item: (names.index(item[0][0]), metrics.index(item[0][1]) if several else 0)


def _domain(rows: list[QuantileRow]) -> tuple[float, float]:
    """The span in ms of all values above 0 of a row of panels, a little wider."""
    values = [v for row in rows for v in (row.logged_s, row.low_s, row.high_s) if v > 0.0]
    values = [v for v in values if math.isfinite(v)]
    if not values:
        return 1.0, 10.0
    return 1e3 * min(values) * 0.9, 1e3 * max(values) * 1.1


def _panel(
    rows: list[QuantileRow], title: str, metric: str, domain: tuple[float, float], side: int
) -> Any:
    scale = alt.Scale(type="log", domain=list(domain), nice=False)
    x = alt.X("logged_ms:Q", title=f"logged {metric} (ms)", scale=scale)
    told = f"simulated {metric} (ms)"
    y = alt.Y("simulated_ms:Q", title=told, scale=scale)
    base = alt.Chart(rows_of([_row(row) for row in rows if row.logged_s > 0 and row.low_s > 0]))
    ends = [{"logged_ms": end, "simulated_ms": end} for end in domain]
    diagonal = (
        alt.Chart(rows_of(ends))
        .mark_line(color=SOFT, strokeDash=[4, 3], strokeWidth=1)
        .encode(x=x, y=y)
    )
    shade = base.mark_area(color=SERIES[0], opacity=0.2).encode(
        x=x, y=alt.Y("low_ms:Q", scale=scale, title=told), y2="high_ms:Q"
    )
    line = base.mark_line(color=SERIES[0], strokeWidth=2).encode(x=x, y=y, order="logged_ms:Q")
    named = base.transform_filter("datum.name != null")
    point = named.mark_point(filled=True, size=55, color=SERIES[1], opacity=1).encode(
        x=x, y=y, tooltip=["name:N", "logged_ms:Q", "simulated_ms:Q", "low_ms:Q", "high_ms:Q"]
    )
    text = named.mark_text(align="left", baseline="top", dx=6, dy=3, color=INK, fontSize=11)
    layers = alt.layer(diagonal, shade, line, point, text.encode(x=x, y=y, text="name:N"))
    return layers.properties(
        width=side,
        height=min(side, 260),
        title=alt.TitleParams(title, fontSize=13, anchor="start"),
    )


def _row(row: QuantileRow) -> Row:
    return {
        "name": _MARKED.get(row.level),
        "logged_ms": row.logged_s * 1e3,
        "simulated_ms": row.simulated_s * 1e3,
        "low_ms": row.low_s * 1e3,
        "high_ms": row.high_s * 1e3,
    }
