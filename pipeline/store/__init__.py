"""The warehouse, and the only package that knows DuckDB.

A `WarehouseBuilder` takes the records of one file after another and leaves three things in a
folder: the canonical tables as `tables/<table>/<source>.parquet`, `warehouse.duckdb` with a view of
each table, and the manifest `warehouse.json`. Equal input gives equal bytes, with one release of
DuckDB. Files are streamed: memory does not grow with them.
"""

from pipeline.store.builder import SourceBuilder
from pipeline.store.counts import FileCounts
from pipeline.store.request_rules import RequestRules
from pipeline.store.tables import (
    MANIFEST,
    TABLES_FOLDER,
    WAREHOUSE,
    open_warehouse,
    read_table,
    scan_table,
)
from pipeline.store.text import file_digest
from pipeline.store.warehouse import WarehouseBuilder, warehouse_builder

__all__ = [
    "MANIFEST",
    "TABLES_FOLDER",
    "WAREHOUSE",
    "FileCounts",
    "RequestRules",
    "SourceBuilder",
    "WarehouseBuilder",
    "file_digest",
    "open_warehouse",
    "read_table",
    "scan_table",
    "warehouse_builder",
]
