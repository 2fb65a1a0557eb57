"""A new warehouse, written beside the present one and renamed when it is whole."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from pipeline.schema import TABLES
from pipeline.store.builder import SourceBuilder
from pipeline.store.connection import Connection, one_file, sql
from pipeline.store.contracts import check_contract, enum_name
from pipeline.store.request_rules import RequestRules
from pipeline.store.tables import MANIFEST, TABLES_FOLDER, WAREHOUSE, open_warehouse
from pipeline.store.text import file_digest

MEMORY_LIMIT = "1GB"  # of DuckDB; what does not fit is spilled beside the warehouse
_THREADS = 2
# No extension may be fetched. A newer storage version puts a random number into the header.
_CONFIG: dict[str, Any] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_STORAGE_VERSION = "v1.3.0"


class WarehouseBuilder:
    """Fills a new warehouse, source by source. Made by `warehouse_builder` alone."""

    def __init__(self, connection: Connection, folder: Path) -> None:
        self._connection, self._folder = connection, folder
        self.rows: dict[str, int] = {}  # of each table
        connection.execute("SET enable_progress_bar = false")  # it would go to stdout
        connection.execute(sql("macros"))
        for table, contract in TABLES.items():
            (folder / TABLES_FOLDER / table).mkdir(parents=True)
            for name, column in contract.columns.items():
                if column.values:
                    values = ", ".join(f"'{value}'" for value in column.values)
                    connection.execute(f"CREATE TYPE {enum_name(table, name)} AS ENUM ({values})")

    @property
    def tables(self) -> Path:
        """The folder of the tables that are being written."""
        return self._folder / TABLES_FOLDER

    def source(self, name: str, rules: RequestRules) -> SourceBuilder:
        """The builder of the tables of one source, which comes after the sources before it."""
        return SourceBuilder(self._connection, self._folder, name, rules)

    def write(self) -> None:
        """The contracts have been checked; the manifest and the views are written."""
        manifest: dict[str, Any] = {"format": "batchwright-warehouse", "version": 2, "tables": {}}
        for table, contract in TABLES.items():
            files = sorted((self.tables / table).glob("*.parquet"))
            relation = (
                f"read_parquet([{', '.join(one_file(file) for file in files)}])" if files else None
            )
            self.rows[table] = 0
            if relation is not None:
                self.rows[table] = check_contract(table, relation, self._connection.row)
            manifest["tables"][table] = {
                "rows": self.rows[table],
                "columns": {column: spec.type for column, spec in contract.columns.items()},
                "sha256": {file.stem: file_digest(file) for file in files},
            }
        text = json.dumps(manifest, indent=2) + "\n"
        (self._folder / MANIFEST).write_text(text, encoding="utf-8")
        self._write_views()

    def _write_views(self) -> None:
        config = {**_CONFIG, "threads": 1, "storage_compatibility_version": _STORAGE_VERSION}
        with duckdb.connect(str(self._folder / WAREHOUSE), config=config) as connection:
            connection.execute("SET file_search_path = ?", [str(self._folder)])
            for table in TABLES:
                connection.execute(
                    f"CREATE VIEW {table} AS FROM read_parquet('{TABLES_FOLDER}/{table}/*.parquet')"
                )


@contextmanager
def warehouse_builder(folder: Path) -> Iterator[WarehouseBuilder]:
    """A builder whose warehouse replaces the one in `folder` at the end, unless there is an error.

    Everything is written beside it and renamed. Raises OSError where another process has the
    present warehouse open for writing.
    """
    _refuse_if_locked(folder / WAREHOUSE)
    beside = folder / ".warehouse-partial"
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        config = {
            **_CONFIG,
            "threads": _THREADS,
            "memory_limit": MEMORY_LIMIT,
            "temp_directory": str(beside / "spill"),
        }
        with duckdb.connect(config=config) as connection:
            builder = WarehouseBuilder(Connection(connection), beside)
            yield builder
            builder.write()
        _swap(beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _swap(beside: Path, folder: Path) -> None:
    # The manifest goes first and comes last: where it is, the rest is whole. A write-ahead log
    # that a killed process left must not meet the new file.
    for name in (MANIFEST, f"{WAREHOUSE}.wal"):
        (folder / name).unlink(missing_ok=True)
    os.replace(beside / WAREHOUSE, folder / WAREHOUSE)
    shutil.rmtree(folder / TABLES_FOLDER, ignore_errors=True)
    os.replace(beside / TABLES_FOLDER, folder / TABLES_FOLDER)
    os.replace(beside / MANIFEST, folder / MANIFEST)


def _refuse_if_locked(path: Path) -> None:
    if path.exists():
        try:
            open_warehouse(path).close()
        except (OSError, duckdb.Error) as error:
            if "open for writing" in str(error):
                raise
            # A warehouse that cannot be read for another reason is about to be replaced.
