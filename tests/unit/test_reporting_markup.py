"""Markup: text is escaped wherever it enters, and a table has the shape it is given."""

import json

import pytest

from pipeline.reporting.markup import (
    Column,
    Html,
    chart,
    element,
    join,
    listing,
    script_json,
    table,
)

HOSTILE = '<b title="x">&\'</b>'
ESCAPED = "&lt;b title=&quot;x&quot;&gt;&amp;&#x27;&lt;/b&gt;"


def test_text_is_escaped_and_markup_is_not() -> None:
    assert element("p", HOSTILE, Html("<i>x</i>")) == f"<p>{ESCAPED}<i>x</i></p>"


def test_attributes_are_escaped_and_named_as_html_names_them() -> None:
    found = element("div", class_="a", aria_label=HOSTILE, tabindex=0)
    assert found == f'<div class="a" aria-label="{ESCAPED}" tabindex="0"></div>'


def test_formatting_markup_makes_it_text_again() -> None:
    # So that a part of text cannot slip in unescaped by way of an f-string.
    assert join([f"{Html('<i>')}{HOSTILE}"]) == f"&lt;i&gt;{ESCAPED}"


def test_cells_and_items_and_captions_are_escaped() -> None:
    for markup in (listing([HOSTILE]), table(HOSTILE, [Column(HOSTILE)], [[HOSTILE]])):
        assert HOSTILE not in markup
        assert ESCAPED in markup


def test_neighbors_of_one_group_share_a_heading() -> None:
    columns = [Column("a"), Column("b", group="x"), Column("c", group="x"), Column("d", group="y")]
    found = table("t", columns, [["1", "2", "3", "4"]])
    above = found.partition("<thead>")[2].partition("</tr>")[0]
    assert above == (
        '<tr><td colspan="1"></td>'
        '<th scope="colgroup" colspan="2" class="group">x</th>'
        '<th scope="colgroup" colspan="1" class="group">y</th>'
    )


def test_a_row_with_too_few_cells_is_refused() -> None:
    with pytest.raises(ValueError, match="has 2 columns"):
        table("t", [Column("a"), Column("b")], [["1"]])


def test_json_in_a_script_cannot_end_the_script() -> None:
    value = {"name": "</script><!--&"}
    told = script_json(value)
    assert not set("<>&") & set(told)
    assert json.loads(told) == value


def test_json_has_no_number_that_is_not_finite() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        script_json({"value": float("nan")})


def test_a_chart_has_its_summary_and_its_specification() -> None:
    found = chart("x", {"mark": "bar"}, HOSTILE, "caption")
    assert f'id="chart-x" class="chart" role="img" aria-label="{ESCAPED}"' in found
    assert 'data-target="chart-x">{"mark":"bar"}</script>' in found
