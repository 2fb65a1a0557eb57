"""Errors of the simulator by class and load band, with their intervals and the tolerance."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from pipeline.reporting.charts import BAND, INK, SERIES, WIDTH, Row, rows_of

_LEAST_REACH = 50.0  # percent, on either side of 0


def error_chart(rows: Sequence[Row], bands: Sequence[str], statistics: Sequence[str]) -> Any:
    """A row of panels for each class, a panel for each load band.

    `rows` {request_class, band, statistic, error, low, high, limit}: percent; an interval that
    reaches out of the panel is cut off. The gray band is the tolerance.
    """
    reach = max(
        _LEAST_REACH, *(1.2 * abs(row["error"]) for row in rows if row["error"] is not None)
    )
    names = list(dict.fromkeys(row["request_class"] for row in rows))
    side = (WIDTH - 60 - 22 * len(bands)) // len(bands)
    panels = [
        alt.hconcat(
            *(
                _panel(
                    [row for row in rows if (row["request_class"], row["band"]) == (name, band)],
                    f"{name}, {band}",
                    statistics,
                    reach,
                    band == bands[0],
                ).properties(width=side, height=alt.Step(24))
                for band in bands
            ),
            spacing=16,
        )
        for name in names
    ]
    return alt.vconcat(*panels, spacing=12)


def _panel(
    rows: Sequence[Row], title: str, statistics: Sequence[str], reach: float, labelled: bool
) -> Any:
    y = alt.Y(
        "statistic:N",
        sort=list(statistics),
        scale=alt.Scale(domain=list(statistics)),
        title=None,
        axis=alt.Axis(grid=False, ticks=False, domain=False, labels=labelled),
    )
    scale = alt.Scale(domain=[-reach, reach], nice=False)
    axis = alt.Axis(tickCount=5)
    base = alt.Chart(rows_of(rows)).encode(y=y)
    x = alt.X("error:Q", title="error (%)", scale=scale, axis=axis)
    tolerance = (
        base.transform_calculate(below="-datum.limit")
        .mark_bar(size=16, color=BAND, clip=True)
        .encode(x=alt.X("below:Q", title="error (%)", scale=scale, axis=axis), x2="limit:Q")
    )
    zero = alt.Chart(rows_of([{"zero": 0.0}])).mark_rule(color=INK).encode(x="zero:Q")
    span = base.mark_rule(strokeWidth=2.5, color=SERIES[0], clip=True).encode(
        x=alt.X("low:Q", title="error (%)", scale=scale, axis=axis), x2="high:Q"
    )
    point = base.mark_point(filled=True, size=70, opacity=1, color=SERIES[0], clip=True).encode(
        x=x, tooltip=["statistic:N", "error:Q", "low:Q", "high:Q", "limit:Q"]
    )
    heading = alt.TitleParams(title, fontSize=13, anchor="start")
    return alt.layer(tolerance, zero, span, point).properties(title=heading)
