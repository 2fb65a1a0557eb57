"""HTML in which text cannot become markup: whatever is not `Html` is escaped."""

import html
import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple


class Html(str):
    """Markup. Adding or formatting it gives a plain string, which would be escaped again."""

    __slots__ = ()


class Column(NamedTuple):
    """A column of a table; neighbors with the same `group` share a heading above their titles."""

    title: str
    numeric: bool = False
    group: str = ""


def join(parts: Sequence[str]) -> Html:
    """The parts one after another, escaped unless they are `Html`."""
    return Html(
        "".join(part if isinstance(part, Html) else html.escape(part, quote=True) for part in parts)
    )


def element(tag: str, *children: str, **attributes: str | int) -> Html:
    """`<tag attributes>children</tag>`; `class_` is class, `aria_label` is aria-label."""
    told = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(str(value), quote=True)}"'
        for name, value in attributes.items()
    )
    return Html(f"<{tag}{told}>{join(children)}</{tag}>")


def listing(items: Sequence[str]) -> Html:
    """A bulleted list."""
    return element("ul", *(element("li", item) for item in items))


def section(identifier: str, title: str, *children: str) -> Html:
    """A section of the page with its heading."""
    heading = f"{identifier}-heading"
    return element(
        "section",
        element("h2", title, id=heading),
        *children,
        id=identifier,
        aria_labelledby=heading,
    )


def details(summary: str, *children: str) -> Html:
    """What is shown once the reader asks for it."""
    return element("details", element("summary", summary), *children)


def table(caption: str, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> Html:
    """A table whose first column heads its rows; it scrolls sideways where the page is narrow.

    Raises ValueError where a row has not as many cells as there are columns.
    """
    body = [_row(columns, row) for row in rows]
    return element(
        "div",
        element(
            "table",
            element("caption", caption),
            element("thead", *_heading(columns)),
            element("tbody", *body),
        ),
        class_="scroll",
        role="region",
        aria_label=caption,
        tabindex=0,
    )


def _heading(columns: Sequence[Column]) -> list[Html]:
    titles = [
        element("th", column.title, scope="col", class_=_alignment(column)) for column in columns
    ]
    if not any(column.group for column in columns):
        return [element("tr", *titles)]
    groups = [(name, len(list(members))) for name, members in groupby(c.group for c in columns)]
    above = [
        element("th", name, scope="colgroup", colspan=count, class_="group")
        if name
        else element("td", colspan=count)
        for name, count in groups
    ]
    return [element("tr", *above), element("tr", *titles)]


def _row(columns: Sequence[Column], cells: Sequence[str]) -> Html:
    if len(cells) != len(columns):
        raise ValueError(f"cells = {list(cells)!r}: the table has {len(columns)} columns")
    first = element("th", cells[0], scope="row", class_=_alignment(columns[0]))
    others = [
        element("td", cell, class_=_alignment(column))
        for column, cell in zip(columns[1:], cells[1:], strict=True)
    ]
    return element("tr", first, *others)


def _alignment(column: Column) -> str:
    return "number" if column.numeric else "text"


def chart(identifier: str, specification: dict[str, Any], summary: str, caption: str) -> Html:
    """A chart that the page's script draws; `summary` is read to who cannot see it.

    `specification` is a Vega-Lite spec. Raises ValueError where a number in it is not finite.
    """
    drawing = f"chart-{identifier}"
    return element(
        "figure",
        element("div", id=drawing, class_="chart", role="img", aria_label=summary),
        element(
            "script",
            script_json(specification),
            type="application/json",
            class_="specification",
            data_target=drawing,
        ),
        element("figcaption", caption),
    )


def script_json(value: Any) -> Html:
    """JSON that may stand inside a script element: no character of it can end the element."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(text)
