"""Charts: no number that is not finite, and no policy far behind that flattens the rest."""

import json
from typing import Any

import altair as alt
import polars as pl
import pytest

from pipeline.reporting.charts import comparison_chart, learning_chart, rows_of, specification
from pipeline.reporting.learning import shown_losses, thinned

ROWS = [
    {"policy": name, "kind": kind}
    | {f"{field}{bound}": value + shift for bound, shift in (("", 0.0), ("_low", -1), ("_high", 1))}
    for name, kind, value in (("ppo", "online agent", 5.0), ("c_mu", "rule", 4.0))
    for field in ("reward",)
]
ROWS = [row | {key.replace("reward", "gain"): v for key, v in row.items()} for row in ROWS]


def marks(specification: Any) -> list[str]:
    """The types of all marks in a spec."""
    if isinstance(specification, dict):
        own = [specification["mark"]["type"]] if "mark" in specification else []
        return own + [mark for value in specification.values() for mark in marks(value)]
    if isinstance(specification, list):
        return [mark for value in specification for mark in marks(value)]
    return []


def test_numbers_are_rounded_and_what_is_not_finite_is_null() -> None:
    rows = [{"a": 1 / 3, "b": float("nan"), "c": float("inf"), "d": 1_234_567, "e": None}]
    assert rows_of(rows).to_dict()["values"] == [
        {"a": 0.333333, "b": None, "c": None, "d": 1_234_567, "e": None}
    ]


def test_a_policy_below_the_edge_is_an_arrow_with_its_figure() -> None:
    order = ["ppo", "c_mu"]
    assert "text" not in marks(specification(comparison_chart(ROWS, order, None)))
    cut = specification(comparison_chart(ROWS, order, (4.5, 4.5)))
    assert marks(cut).count("text") == 2  # one in each panel
    text = json.dumps(cut, ensure_ascii=False)
    assert "\u25c0 4.000" in text
    assert '"domainMin": 4.5' in text
    drawn = [values for values in cut["datasets"].values() if "told" not in values[0]]
    assert all(row["policy"] == "ppo" for values in drawn for row in values if "policy" in row)


def test_specifications_keep_to_the_schema() -> None:
    rule = {"name": "best rule", "reward_per_s": 4.0}
    rows = [{"agent": "ppo", "series": "training", "steps": 1, "reward_per_s": 3.0}]
    for lowest in (None, -10.0):
        alt.Chart.from_dict(specification(learning_chart(rows, ["ppo"], rule, lowest)))


@pytest.mark.parametrize("length", [1, 200, 201, 5000])
def test_a_thinned_curve_keeps_its_ends(length: int) -> None:
    curve = thinned(pl.DataFrame({"update": range(1, length + 1)}))
    assert len(curve) == min(length, 200)
    assert curve["update"][0] == 1
    assert curve["update"][-1] == length
    assert curve["update"].is_sorted()


def test_losses_that_are_off_or_repeat_the_total_get_no_panel() -> None:
    told = {"update": [1.0, 2.0], "loss": [3.0, 2.0], "imitation_loss": [3.0, 2.0]}
    curve = pl.DataFrame(told | {"regularization_loss": [0.0, 0.0]})
    assert shown_losses(curve) == ["imitation_loss"]
    parts = pl.DataFrame({"update": [1.0], "loss": [3.0], "td_loss": [1.0]})
    assert shown_losses(parts) == ["loss", "td_loss"]
