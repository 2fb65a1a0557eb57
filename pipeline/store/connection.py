"""A DuckDB connection that speaks the errors of this project."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb

from pipeline.store.tables import brief

_SQL = Path(__file__).resolve().parents[1] / "sql"


class Connection:
    """Runs SQL; OSError where the disk or memory fails, KeyboardInterrupt where interrupted."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def execute(self, query: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """The cursor of a query."""
        try:
            return self._connection.execute(query, dict(parameters or {}))
        except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
            raise OSError(f"warehouse: {brief(error)}") from None
        except (duckdb.InterruptException, RuntimeError) as error:
            if "interrupted" not in str(error).lower():
                raise
            raise KeyboardInterrupt from None  # DuckDB makes another exception of it

    def row(self, query: str, parameters: Mapping[str, Any] | None = None) -> tuple:
        """The first row of a query."""
        row: tuple = self.execute(query, parameters).fetchone()
        return row

    def count(self, query: str) -> int:
        """The number in the first row, 0 where there is none."""
        row = self.execute(query).fetchone()
        return 0 if row is None or row[0] is None else int(row[0])

    def set(self, variables: Mapping[str, Any]) -> None:
        """`getvariable(<name>)` gives these values from now on."""
        for name, value in variables.items():
            self.execute(f"SET VARIABLE {name} = $value", {"value": value})


def sql(name: str) -> str:
    """The text of `pipeline/sql/<name>.sql`, without its final semicolon."""
    return (_SQL / f"{name}.sql").read_text(encoding="utf-8").strip().rstrip(";")


def quoted(path: Path) -> str:
    """The path of a file to write as a literal of SQL."""
    return "'" + str(path).replace("'", "''") + "'"


def one_file(path: Path) -> str:
    """The path of a file to read as a literal of SQL, which DuckDB takes for a pattern else."""
    return quoted(Path(re.sub(r"([\[*?])", r"[\1]", str(path))))


def identifier(name: str) -> str:
    """The name as an identifier of SQL, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'
