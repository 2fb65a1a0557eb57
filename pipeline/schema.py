"""The column contracts of the canonical tables, as data, and the check that a table keeps them."""

from typing import NamedTuple

import polars as pl

from pipeline.settings.data import SOURCE_KINDS

POLARS_TYPES: dict[str, pl.DataType] = {
    "int32": pl.Int32(),
    "int64": pl.Int64(),
    "float64": pl.Float64(),
    "string": pl.String(),
    "list<int32>": pl.List(pl.Int32()),
    "list<bool>": pl.List(pl.Boolean()),
}


class Column(NamedTuple):
    """What a column may hold."""

    type: str  # a key of POLARS_TYPES
    nullable: bool = False
    values: tuple[str, ...] = ()  # the only ones, if any are named
    low: float | None = None  # the smallest
    high: float | None = None  # the largest


class Table(NamedTuple):
    """The columns of a table in their order, and the columns that its rows are sorted by."""

    columns: dict[str, Column]
    order: tuple[str, ...]


TEXT, NULLABLE_TEXT = Column("string"), Column("string", nullable=True)
NUMBER, COUNT = Column("int64"), Column("int64", low=0)  # COUNT: also microseconds, from origin
NULLABLE_NUMBER, NULLABLE_COUNT = Column("int64", nullable=True), Column("int64", True, low=0)
LINE = Column("int64", low=1)  # of the file, counted from 1; the row of a Parquet file
NULLABLE_AMOUNT = Column("float64", nullable=True, low=0.0)
FILE = Column("int32", low=0)  # its place in the files of the source
ORIGIN = Column("string", values=("measured", "derived", "absent"))

TABLES: dict[str, Table] = {
    "sources": Table(
        {
            "source": TEXT,
            "kind": Column("string", values=SOURCE_KINDS),
            "files": TEXT,  # JSON: a list of {path, sha256, record, rows_read, rows_kept, ...}
            "license": NULLABLE_TEXT,  # null: none stated
            "clock": TEXT,  # monotonic or wall
            "zone": TEXT,
            "origin": TEXT,  # ISO 8601 instant of time 0
            "system": NULLABLE_TEXT,  # JSON: system.json of a serving log
            "derived": TEXT,  # JSON: a list of facts that are computed, not measured; see FACTS
            "notes": TEXT,  # JSON: a list of sentences, on what the log cannot tell
            "rows_read": COUNT,
            "rows_kept": COUNT,
            "rows_rejected": COUNT,
        },
        ("source",),
    ),
    "requests": Table(
        {
            "source": TEXT,
            "file": FILE,
            "line": LINE,
            "request_id": NULLABLE_TEXT,
            "arrival_us": COUNT,
            "request_class": NULLABLE_TEXT,
            "replica": NULLABLE_TEXT,
            "size": Column("float64", nullable=True, low=0.0),
            "prompt_tokens": NULLABLE_COUNT,
            "output_tokens": NULLABLE_COUNT,
            "status": Column("string", values=("completed", "shed", "failed")),
            "dispatch_us": NULLABLE_COUNT,
            "first_token_us": NULLABLE_COUNT,
            "departure_us": NULLABLE_COUNT,
            "batch_id": NULLABLE_NUMBER,
            "queue_origin": ORIGIN,  # of waiting times
            "service_origin": ORIGIN,  # of service times
        },
        ("source", "arrival_us", "file", "line"),
    ),
    "batches": Table(
        {
            "source": TEXT,
            "file": FILE,
            "line": LINE,
            "batch_id": NUMBER,
            "replica": TEXT,
            "request_class": TEXT,
            "batch_size": Column("int32", low=1),
            "dispatch_us": COUNT,
            "departure_us": COUNT,
        },
        ("source", "file", "line"),
    ),
    "decisions": Table(
        {
            "source": TEXT,
            "file": FILE,
            "line": LINE,
            "decision_id": NUMBER,
            "clock_us": COUNT,
            "queue_length": Column("list<int32>"),  # by request class
            "can_take": Column("list<bool>"),  # by replica
            "action": Column("int32", low=0),
            "propensity": Column("float64", low=0.0, high=1.0),
            "batch_id": NULLABLE_NUMBER,  # null: WAIT
        },
        ("source", "file", "line"),
    ),
    "profiles": Table(  # measured batch latencies, aggregated
        {
            "source": TEXT,
            "file": FILE,
            "line": LINE,
            "request_class": NULLABLE_TEXT,
            "replica": NULLABLE_TEXT,
            "batch_size": Column("int32", low=1),
            "latency_us": Column("float64", low=0.0),  # mean batch latency
            "deviation_us": NULLABLE_AMOUNT,  # its standard deviation
            "batches": NULLABLE_COUNT,  # that were measured
            "queue_us": NULLABLE_AMOUNT,  # mean waiting time
            "rate_rps": NULLABLE_AMOUNT,  # at which it was measured
            "concurrency": NULLABLE_AMOUNT,
        },
        ("source", "file", "line"),
    ),
    "cold_starts": Table(
        {
            "source": TEXT,
            "file": FILE,
            "line": LINE,
            "request_class": NULLABLE_TEXT,
            "replica": NULLABLE_TEXT,
            "cold_start_us": COUNT,
        },
        ("source", "file", "line"),
    ),
    "rejects": Table(
        {
            "source": TEXT,
            "file": TEXT,
            "line": LINE,
            "reason": TEXT,
            "raw": TEXT,  # cut at 200 characters
        },
        ("source", "file", "line"),
    ),
}
# The tables that hold rows of logs.
RECORDS = ("requests", "batches", "decisions", "profiles", "cold_starts")
FACTS = ("arrival", "queue", "service", "batch", "replica", "tokens", "status")


def check_table(name: str, frame: pl.DataFrame) -> None:
    """Raises ValueError unless `frame` keeps the contract of the table called `name`."""
    columns = TABLES[name].columns
    if frame.columns != list(columns):
        raise ValueError(f"{name}: its columns must be {list(columns)}, not {frame.columns}")
    for column_name, column in columns.items():
        fault = _fault(column, frame[column_name])
        if fault is not None:
            raise ValueError(f"{name}.{column_name}: {fault}")


def _fault(column: Column, series: pl.Series) -> str | None:
    """What is wrong with the values of a column, or None."""
    if series.dtype != POLARS_TYPES[column.type]:
        return f"must be {column.type}, not {series.dtype}"
    if not column.nullable and series.null_count():
        return f"must not be null; {series.null_count()} rows are"
    present = series.drop_nulls()
    if column.values:
        strange = present.filter(~present.is_in(list(column.values)))
        if len(strange):
            return f"{strange[0]!r} must be one of {', '.join(column.values)}"
    if column.type == "float64" and not present.is_finite().all():
        return "must be finite"
    if column.low is not None and (present < column.low).any():
        return f"{present.min()!r} must be at least {column.low:g}"
    if column.high is not None and (present > column.high).any():
        return f"{present.max()!r} must be at most {column.high:g}"
    return None
