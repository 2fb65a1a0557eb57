"""The check, in one streaming query, that a Parquet file keeps the contract of its table."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from pipeline.schema import TABLES, Column

_NUMBERS = ("int32", "int64", "float64")
SQL_TYPES = {
    "int32": "INTEGER",
    "int64": "BIGINT",
    "float64": "DOUBLE",
    "string": "VARCHAR",
    "list<int32>": "INTEGER[]",
    "list<bool>": "BOOLEAN[]",
}


def projection(table: str, given: Mapping[str, str]) -> str:
    """The columns of a table, each cast to its type; a named set of values becomes an enum.

    A column is the expression in `given`, or else the column of that name.
    """
    return ", ".join(
        f"CAST({given.get(name, name)} AS {_type(table, name, column)}) AS {name}"
        for name, column in TABLES[table].columns.items()
    )


def _type(table: str, name: str, column: Column) -> str:
    if name == "source":  # an enum of one value, which costs next to nothing in each row
        return "source_name"
    return enum_name(table, name) if column.values else SQL_TYPES[column.type]


def enum_name(table: str, column: str) -> str:
    """The name of the type of a column that may hold named values only."""
    return f"{table}_{column}"


def check_contract(table: str, relation: str, query: Callable[[str], tuple[Any, ...]]) -> int:
    """The number of rows; RuntimeError that names the column and rule of a broken contract.

    `relation` is what the table is read from; `query` runs SQL and returns its one row.
    """
    columns = TABLES[table].columns
    numbers = [name for name, column in columns.items() if column.type in _NUMBERS]
    counts = "".join(f", count({name})" for name in columns)
    bounds = "".join(f", min({name}), max({name})" for name in numbers)
    rows, *found = query(f"SELECT count(*){counts}{bounds} FROM {relation}")
    for (name, column), count in zip(columns.items(), found, strict=False):
        if count < rows and not column.nullable:
            raise RuntimeError(f"{table}.{name}: must not be null; {rows - count} of {rows} are")
    for place, name in enumerate(numbers):
        low, high = found[len(columns) + 2 * place :][:2]
        _check_bounds(f"{table}.{name}", columns[name], low, high)
    return int(rows)


def _check_bounds(name: str, column: Column, low: float | None, high: float | None) -> None:
    """What named columns hold is checked by their type."""
    if low is None or high is None:
        return
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"{name}: must be finite")
    if column.low is not None and low < column.low:
        raise RuntimeError(f"{name}: {low!r} must be at least {column.low:g}")
    if column.high is not None and high > column.high:
        raise RuntimeError(f"{name}: {high!r} must be at most {column.high:g}")
