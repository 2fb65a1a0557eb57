"""The contracts of the canonical tables."""

import polars as pl
import pytest

from pipeline.schema import POLARS_TYPES, TABLES, check_table


def decisions(**changed) -> pl.DataFrame:
    values = {
        "source": ["log"],
        "file": [0],
        "line": [1],
        "decision_id": [1],
        "clock_us": [0],
        "queue_length": [[1, 0]],
        "can_take": [[True, False]],
        "action": [0],
        "propensity": [1.0],
        "batch_id": [None],
    } | changed
    return pl.DataFrame(values, schema=types_of("decisions"))


def types_of(name: str) -> dict[str, pl.DataType]:
    return {column: POLARS_TYPES[spec.type] for column, spec in TABLES[name].columns.items()}


def test_a_table_that_keeps_its_contract_passes() -> None:
    check_table("decisions", decisions())


@pytest.mark.parametrize(
    ("column", "value", "fault"),
    [
        ("source", None, r"decisions\.source: must not be null; 1 rows are"),
        ("line", 0, r"decisions\.line: 0 must be at least 1"),
        ("propensity", 1.5, r"decisions\.propensity: 1\.5 must be at most 1"),
        ("propensity", float("nan"), r"decisions\.propensity: must be finite"),
    ],
)
def test_a_bad_value_is_named_with_table_column_and_rule(column, value, fault) -> None:
    with pytest.raises(ValueError, match=fault):
        check_table("decisions", decisions(**{column: [value]}))


def test_a_wrong_type_is_named() -> None:
    frame = decisions().with_columns(pl.col("action").cast(pl.Int64))
    with pytest.raises(ValueError, match=r"decisions\.action: must be int32, not Int64"):
        check_table("decisions", frame)


def test_a_missing_column_is_named() -> None:
    with pytest.raises(ValueError, match="decisions: its columns must be"):
        check_table("decisions", decisions().drop("propensity"))


def test_a_value_outside_the_named_ones_is_shown() -> None:
    values = dict.fromkeys(TABLES["requests"].columns) | {
        "source": "log",
        "file": 0,
        "line": 1,
        "request_id": "a",
        "arrival_us": 0,
        "status": "lost",
        "queue_origin": "absent",
        "service_origin": "absent",
    }
    frame = pl.DataFrame([values], schema=types_of("requests"))
    with pytest.raises(ValueError, match=r"requests\.status: 'lost' must be one of completed"):
        check_table("requests", frame)


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_ordered_by_columns_that_it_has(name) -> None:
    assert set(TABLES[name].order) <= set(TABLES[name].columns)
