"""Reading what ingest left: the canonical tables, and the warehouse."""

import re
from pathlib import Path

import duckdb
import polars as pl

from pipeline.schema import check_table

WAREHOUSE, MANIFEST, TABLES_FOLDER = "warehouse.duckdb", "warehouse.json", "tables"


def scan_table(data: Path, name: str, source: str | None = None) -> pl.LazyFrame:
    """The canonical table called `name` below `data`, of one source or of all, read when collected.

    Raises FileNotFoundError where ingest has not written it.
    """
    folder = data / TABLES_FOLDER / name
    files = sorted(folder.glob("*.parquet")) if source is None else [folder / f"{source}.parquet"]
    if not files or not all(file.is_file() for file in files):
        raise FileNotFoundError(f"{folder}: no {source or 'table'}; run the ingest stage")
    return pl.scan_parquet(files, glob=False)


def read_table(data: Path, name: str, source: str | None = None) -> pl.DataFrame:
    """The canonical table called `name`, checked against its contract."""
    frame = scan_table(data, name, source).collect()
    check_table(name, frame)
    return frame


def open_warehouse(path: Path) -> duckdb.DuckDBPyConnection:
    """A read-only connection; OSError where there is no warehouse or another process writes it.

    Its views read the Parquet files beside it. In a DuckDB shell they are found from the folder of
    the warehouse, or after `SET file_search_path = '<that folder>'`.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path}: no warehouse; run the ingest stage")
    try:
        connection = duckdb.connect(str(path), read_only=True)
    except duckdb.IOException as error:
        if "lock" not in str(error):
            raise OSError(f"{path}: not a readable warehouse: {brief(error)}") from None
        process = re.search(r"PID (\d+)", str(error))
        holder = f"process {process.group(1)}" if process else "another process"
        raise OSError(
            f"{path}: {holder} has it open for writing; close it there (a notebook or a DuckDB "
            "shell?) or open it read-only, then run this again"
        ) from None
    connection.execute("SET file_search_path = ?", [str(path.parent.resolve())])
    return connection


def brief(error: Exception) -> str:
    """The first line of what an error says."""
    return str(error).splitlines()[0]
