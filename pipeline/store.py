"""The warehouse, and the only module that knows DuckDB.

A `WarehouseBuilder` takes the records of one file after another and leaves three things in a
folder: `warehouse.duckdb`, the same tables as `tables/<table>.parquet`, and the manifest
`warehouse.json`. Equal input gives equal bytes, with one release of DuckDB.
"""

import gzip
import hashlib
import json
import os
import re
import shutil
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import polars as pl

from pipeline.schema import RECORDS, TABLES, check_table
from pipeline.settings.checks import check_name

WAREHOUSE, MANIFEST, TABLES_FOLDER = "warehouse.duckdb", "warehouse.json", "tables"
RAW_LENGTH = 200  # characters of a rejected row that are kept
_SQL = Path(__file__).resolve().parent / "sql"
BLOCK_BYTES = 1 << 24  # bytes of a text file that are held at once
_TYPES = {
    "int32": "INTEGER",
    "int64": "BIGINT",
    "float64": "DOUBLE",
    "string": "VARCHAR",
    "list<int32>": "INTEGER[]",
    "list<bool>": "BOOLEAN[]",
}
# A newer storage version puts a random number into the header; with more threads the blocks lie in
# varying order. No extension may be fetched.
_CONFIG: dict[str, Any] = {
    "threads": 1,
    "storage_compatibility_version": "v1.3.0",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


class FileCounts(NamedTuple):
    """What became of the rows of one file; `rows_read` = `rows_kept` + `rows_rejected`."""

    path: str
    sha256: str
    record: str  # one of RECORDS
    rows_read: int
    rows_kept: int
    rows_rejected: int


class WarehouseBuilder:
    """Fills the tables of a new warehouse. Made by `warehouse_builder` alone."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._execute(_sql("macros"))
        for name, table in TABLES.items():
            columns = ", ".join(
                f"{column_name} {_TYPES[column.type]}{'' if column.nullable else ' NOT NULL'}"
                for column_name, column in table.columns.items()
            )
            self._execute(f"CREATE TABLE {name} ({columns})")

    def load_text(self, path: Path, header: bool = False) -> str:
        """The lines of a text file become `records` (line, raw); the first line if `header`.

        Lines may end in LF or CRLF, the last in nothing; blank lines are no records, but counted
        in `line`. The text may begin with a byte order mark, and be compressed (.gz). Bytes that
        are not UTF-8 turn into escapes such as \\xff, which no field allows.
        """
        self._execute("CREATE OR REPLACE TEMP TABLE records (line BIGINT, raw VARCHAR)")
        first_line, line = "", 1
        for block in _blocks(path):
            text = block.decode("utf-8", errors="backslashreplace")
            if line == 1:
                text = text.removeprefix("\ufeff")
                if header:
                    first_line, _, text = text.partition("\n")
                    line = 2
            self._execute(_sql("load_text"), {"text": text, "line": line})
            line += text.count("\n")
        return first_line.rstrip("\r")

    def load_parquet(self, path: Path) -> None:
        """The rows of a Parquet file become `records` (line, raw), each as one JSON object."""
        try:
            self._execute(_sql("load_parquet"), {"path": str(path)})
        except (duckdb.Error, OSError) as error:
            raise ValueError(f"{path.name}: not a readable Parquet file: {_brief(error)}") from None

    def admit(
        self, source: str, record: str, file: Path, shown: str, parameters: Mapping[str, Any]
    ) -> FileCounts:
        """`records` pass the staging query of (kind, record) and become rows or rejects.

        `record` names the query, such as `serving_log_requests`; `shown` is the path of the file
        as reports name it. Raises RuntimeError where the counts do not add up.
        """
        check_name("record", record)
        table = next(name for name in RECORDS if record.endswith(f"_{name}"))
        self._execute(_sql(record), parameters)
        columns = ", ".join(name for name in TABLES[table].columns if name != "source")
        kept = self._count(
            f"INSERT INTO {table} SELECT $source, {columns} FROM staged WHERE reason IS NULL",
            {"source": source},
        )
        rejected = self._count(
            "INSERT INTO rejects SELECT $source, $file, line, reason, left(raw, $length) "
            "FROM staged JOIN records USING (line) WHERE reason IS NOT NULL",
            {"source": source, "file": shown, "length": RAW_LENGTH},
        )
        read = self._count("SELECT count(*) FROM records")
        if read != kept + rejected:
            raise RuntimeError(f"{shown}: {read} rows read, but {kept} kept + {rejected} rejected")
        return FileCounts(shown, file_digest(file), table, read, kept, rejected)

    def frequent_reasons(self, source: str, file: str, most: int = 3) -> list[str]:
        """The most frequent reasons of a file's rejects, in words, with the first line of each."""
        rows = self._execute(
            _sql("frequent_reasons"), {"source": source, "file": file, "most": most}
        ).fetchall()
        return [f"{count} x {reason} (first in line {line})" for count, reason, line in rows]

    def staged_number(self, column: str) -> int | None:
        """The number that a column of the last staging query holds in every row, or None."""
        check_name("column", column)
        row = self._execute(f"SELECT any_value({column}) FROM staged").fetchone()
        return None if row is None else row[0]

    def add_source(self, values: Mapping[str, Any]) -> None:
        """One row of `sources`; `values` has a value for each column."""
        columns = TABLES["sources"].columns
        places = ", ".join(f"${name}" for name in columns)
        self._execute(f"INSERT INTO sources VALUES ({places})", {n: values[n] for n in columns})

    def write(self, folder: Path) -> None:
        """The Parquet tables and the manifest are in `folder`; the contracts have been checked."""
        (folder / TABLES_FOLDER).mkdir()
        manifest: dict[str, Any] = {"format": "batchwright-warehouse", "version": 1, "tables": {}}
        for name, table in TABLES.items():
            path = folder / TABLES_FOLDER / f"{name}.parquet"
            self._execute(
                f"COPY (FROM {name} ORDER BY {', '.join(table.order)}) TO '{_quoted(path)}' "
                "(FORMAT parquet, COMPRESSION zstd)"
            )
            check_table(name, pl.read_parquet(path))
            # Order-free, and the same in every release of DuckDB, unlike its hash().
            digest = f"SELECT sum(md5_number_lower(to_json(t)::VARCHAR)::HUGEINT) FROM {name} t"
            manifest["tables"][name] = {
                "rows": self._count(f"SELECT count(*) FROM {name}"),
                "columns": {column: spec.type for column, spec in table.columns.items()},
                "digest": str(self._count(digest) or 0),
            }
        text = json.dumps(manifest, indent=2) + "\n"
        (folder / MANIFEST).write_text(text, encoding="utf-8")

    def _count(self, query: str, parameters: Mapping[str, Any] | None = None) -> int:
        row = self._execute(query, parameters).fetchone()
        return 0 if row is None or row[0] is None else row[0]

    def _execute(self, query: str, parameters: Mapping[str, Any] | None = None) -> Any:
        try:
            return self._connection.execute(query, dict(parameters or {}))
        except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
            raise OSError(f"warehouse: {_brief(error)}") from None
        except (duckdb.InterruptException, RuntimeError) as error:
            if "interrupted" not in str(error).lower():
                raise
            raise KeyboardInterrupt from None  # DuckDB makes another exception of it


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
        config = {**_CONFIG, "temp_directory": str(beside / "spill")}
        with duckdb.connect(str(beside / WAREHOUSE), config=config) as connection:
            builder = WarehouseBuilder(connection)
            yield builder
            builder.write(beside)
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


def open_warehouse(path: Path) -> duckdb.DuckDBPyConnection:
    """A read-only connection; OSError where there is no warehouse or another process writes it."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: no warehouse; run the ingest stage")
    try:
        return duckdb.connect(str(path), read_only=True)
    except duckdb.IOException as error:
        if "lock" not in str(error):
            raise OSError(f"{path}: not a readable warehouse: {_brief(error)}") from None
        process = re.search(r"PID (\d+)", str(error))
        holder = f"process {process.group(1)}" if process else "another process"
        raise OSError(
            f"{path}: {holder} has it open for writing; close it there (a notebook or a DuckDB "
            "shell?) or open it read-only, then run this again"
        ) from None


def _refuse_if_locked(path: Path) -> None:
    if path.exists():
        try:
            open_warehouse(path).close()
        except (OSError, duckdb.Error) as error:
            if "open for writing" in str(error):
                raise
            # A warehouse that cannot be read for another reason is about to be replaced.


def read_table(data: Path, name: str) -> pl.DataFrame:
    """The canonical table called `name` from `data/tables/`, checked against its contract."""
    path = data / TABLES_FOLDER / f"{name}.parquet"
    if not path.exists():
        raise FileNotFoundError(f"{path}: missing; run the ingest stage")
    frame = pl.read_parquet(path)
    check_table(name, frame)
    return frame


def file_digest(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _blocks(path: Path) -> Iterator[bytes]:
    """The bytes of a file, unpacked if it is a .gz, in blocks that end with a line."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            while block := file.read(BLOCK_BYTES) + file.readline():
                yield block
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path.name}: not a whole gzip file: {_brief(error)}") from None


def _sql(name: str) -> str:
    return (_SQL / f"{name}.sql").read_text(encoding="utf-8")


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


def _brief(error: Exception) -> str:
    return str(error).splitlines()[0]
