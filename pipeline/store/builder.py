"""Takes the files of one source, one after another, and writes its tables."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb

from pipeline.schema import RECORDS, TABLES
from pipeline.settings.checks import check_name
from pipeline.store import records
from pipeline.store.connection import Connection, one_file, quoted, sql
from pipeline.store.contracts import projection
from pipeline.store.counts import FileCounts
from pipeline.store.request_rules import RequestRules, derived_origins, request_columns
from pipeline.store.tables import brief
from pipeline.store.text import CleanText, file_digest

RAW_LENGTH = 200  # characters of a rejected row that are kept
# Long columns of numbers are written as differences, short lists of values as a dictionary.
PARQUET = "(FORMAT parquet, PARQUET_VERSION v2, COMPRESSION snappy, DICTIONARY_SIZE_LIMIT 100)"
_INSTANTS = {
    "requests": ("arrival_us", "dispatch_us", "first_token_us", "departure_us"),
    "batches": ("dispatch_us", "departure_us"),
}


class SourceBuilder:
    """Fills the tables of one source. Made by `WarehouseBuilder.source` alone."""

    def __init__(self, connection: Connection, folder: Path, source: str, rules: RequestRules):
        check_name("source", source)
        self._connection, self._folder, self._source = connection, folder, source
        self._rules = rules
        self.counts: list[FileCounts] = []
        self._parts: dict[str, list[Path]] = {table: [] for table in RECORDS}
        self._text: CleanText | None = None  # that is loaded, unless a Parquet file is
        self._rows = 0  # of what is loaded
        self._origin_us: int | None = None  # that instants are counted from
        self._fixed = False  # it is time 0 whatever arrives first
        connection.execute(
            "CREATE OR REPLACE TEMP TABLE rejected "
            "(file VARCHAR, line BIGINT, reason VARCHAR, raw VARCHAR)"
        )
        connection.execute("DROP TYPE IF EXISTS source_name")
        connection.execute(f"CREATE TYPE source_name AS ENUM ('{source}')")
        connection.set({"origin_us": 0, "max_response_us": rules.max_response_us})

    def load_text(self, path: Path) -> str:
        """The lines of a text file become `records` (line, raw); the first line is returned."""
        self._text = records.load_text(self._connection, path, self._folder / "clean.txt")
        self._rows = self._text.rows
        return self._text.first_line

    def cut_cells(
        self, columns: Mapping[str, int | None], cells: int, delimiter: str, header: bool
    ) -> None:
        """The `records` of the loaded text get a column for each of `columns`, by its place."""
        if self._text is None:
            raise RuntimeError("cut_cells: load a text first")
        if header and self._text.first_line.strip():
            self._rows -= 1
        records.cut_cells(self._connection, self._text, columns, cells, delimiter, header)

    def spool(self, suffix: str) -> Path:
        """Where a reader may write what it makes of a file, until the next."""
        return self._folder / f"spool{suffix}"

    def load_parquet(self, path: Path) -> None:
        """The rows of a Parquet file become `records` (line, raw), each as one JSON object."""
        self._rows = records.load_parquet(self._connection, path)
        self._text = None

    def admit(
        self,
        query: str,
        file: Path,
        shown: str,
        parameters: Mapping[str, Any],
        origin_us: int | None = None,
    ) -> FileCounts:
        """`records` pass the staging query and become rows or rejects.

        `query` names the query and, by its ending, the table, such as `serving_log_requests`;
        `shown` is the path of the file as reports name it. With `origin_us` None the smallest
        arrival of the source is time 0. Raises RuntimeError where the counts do not add up.
        """
        check_name("query", query)
        table = next(name for name in RECORDS if query.endswith(f"_{name}"))
        self._connection.set(parameters)
        checked = _checked(query, table, parameters)
        too_long = self._text.too_long if self._text else ()
        read = self._rows + len(too_long)
        try:
            self._connection.row(f"{checked} SELECT count(*) FROM checked WHERE false")
        except duckdb.Error as error:
            raise ValueError(f"pipeline/sql/{query}.sql: {brief(error)}") from None
        self._find_origin(table, checked, origin_us)
        self._connection.set({"file": len(self.counts)})
        path = self._folder / f"part-{len(self.counts)}.parquet"
        kept = self._connection.count(
            f"COPY ({checked} SELECT {self._columns(table)} FROM checked WHERE reason IS NULL) "
            f"TO {quoted(path)} {PARQUET}"
        )
        rejected = self._reject(checked, shown, too_long) if kept < read else 0
        if read != kept + rejected:
            raise RuntimeError(f"{shown}: {read} rows read, but {kept} kept + {rejected} rejected")
        self.counts.append(FileCounts(shown, file_digest(file), table, read, kept, rejected))
        if table == "requests":
            path = self._reject_repeated(path, "records")
        self._parts[table].append(path)
        return self.counts[-1]

    def _find_origin(self, table: str, checked: str, origin_us: int | None) -> None:
        """The first valid arrival of the source, until all of them are known."""
        if origin_us is not None:
            self._origin_us, self._fixed = origin_us, True
        elif table == "requests" and self._origin_us is None:
            query = f"{checked} SELECT arrival_us FROM checked WHERE reason IS NULL LIMIT 1"
            first = self._connection.execute(query).fetchone()
            self._origin_us = None if first is None else first[0]
        self._connection.set({"origin_us": self._origin_us or 0})

    def _columns(self, table: str) -> str:
        """What `checked` becomes: the columns of the table, instants from the origin."""
        given = {"source": f"'{self._source}'", "file": "getvariable('file')"}
        given |= {n: f"({n} - getvariable('origin_us'))" for n in _INSTANTS.get(table, ())}
        if table == "requests":
            given |= request_columns(self._rules, self._connection.set, given)
        return projection(table, given)

    def _reject(self, checked: str, shown: str, too_long: tuple[tuple[int, str], ...]) -> int:
        self._connection.set({"shown": shown, "length": RAW_LENGTH})
        rejected = self._connection.count(
            f"INSERT INTO rejected {checked} SELECT getvariable('shown'), line, reason, "
            "left(raw, getvariable('length')) FROM checked JOIN records USING (line) "
            "WHERE reason IS NOT NULL"
        )
        for line, raw in too_long:
            self._connection.execute(
                "INSERT INTO rejected VALUES (getvariable('shown'), $line, $reason, $raw)",
                {"line": line, "reason": "line: longer than 8 MiB", "raw": raw},
            )
        return rejected + len(too_long)

    @property
    def origin_is_given(self) -> bool:
        """Whether instants count from a time 0 of the source's own."""
        return self._fixed

    def origin_us(self) -> int | None:
        """The instant of time 0 on the source's own clock; None where nothing was kept."""
        if self._origin_us is None or self._fixed:
            return self._origin_us
        parts = _relation(self._parts["requests"])
        earliest = self._connection.row(f"SELECT min(arrival_us) FROM {parts}")[0]
        return None if earliest is None else int(self._origin_us + earliest)

    def tells_service(self) -> bool:
        """Whether a kept request has a dispatch, or batches were read."""
        parts = self._parts["requests"]
        if self._parts["batches"] or not parts:
            return bool(self._parts["batches"])
        return bool(self._connection.row(f"SELECT count(dispatch_us) FROM {_relation(parts)}")[0])

    def rejects(self, file: str, beginning: str) -> int:
        """How many rejects of a file have a reason that begins so."""
        query = (
            "SELECT count(*) FROM rejected WHERE file = $file AND starts_with(reason, $beginning)"
        )
        return int(self._connection.row(query, {"file": file, "beginning": beginning})[0])

    def frequent_reasons(self, file: str, most: int = 3) -> list[str]:
        """The most frequent reasons of a file's rejects, in words, with the first line of each."""
        query = sql("frequent_reasons")
        rows = self._connection.execute(query, {"file": file, "most": most}).fetchall()
        return [f"{count} x {reason} (first in line {line})" for count, reason, line in rows]

    def settle(self) -> list[FileCounts]:
        """All files are read: an id that an earlier file has is rejected; the final counts."""
        parts = self._parts["requests"]
        if len(parts) > 1:
            whole = self._folder / "part-all.parquet"
            self._copy(f"FROM {_relation(parts)}", whole)
            self._parts["requests"] = [self._reject_repeated(whole, "files")]
        return self.counts

    def _reject_repeated(self, part: Path, texts: str) -> Path:
        """The requests without those whose id was seen before, by file and line.

        The raw text of such a reject is that of `records`, or its row where `texts` is files.
        """
        relation = _relation([part])
        repeated = f"SELECT count(request_id) > count(DISTINCT request_id) FROM {relation}"
        if not self._connection.row(repeated)[0]:
            return part
        query = sql("repeated_requests").replace("$requests", relation)
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE repeated AS {query}")
        self._connection.set({"length": RAW_LENGTH})
        raw = "repeated.raw" if texts == "files" else "records.raw"
        shown = [counts.path for counts in self.counts]
        joined = "" if texts == "files" else "JOIN records USING (line)"
        self._connection.set({"shown_files": shown})
        self._connection.execute(
            "INSERT INTO rejected SELECT getvariable('shown_files')[file + 1], line, "
            f"'request_id: seen before', left({raw}, getvariable('length')) FROM repeated {joined}"
        )
        found = self._connection.execute("SELECT file, count(*) FROM repeated GROUP BY file")
        for file, count in found.fetchall():
            before = self.counts[file]
            kept, rejected = before.rows_kept - count, before.rows_rejected + count
            self.counts[file] = before._replace(rows_kept=kept, rows_rejected=rejected)
        unique = part.with_name(f"unique-{part.name}")
        self._copy(f"FROM {relation} ANTI JOIN repeated USING (file, line)", unique)
        part.unlink()
        return unique

    def write(self, tables: Path, facts: Mapping[str, Any]) -> None:
        """The tables of the source are in the folder `tables`; `facts` are its row of `sources`.

        Columns that count rows are filled in here.
        """
        shift_us = 0
        origin_us = self.origin_us()
        if origin_us is not None and self._origin_us is not None:
            shift_us = origin_us - self._origin_us
        derived = json.loads(facts["derived"])
        for table, parts in self._parts.items():
            changes = {n: f"({n} - {shift_us})" for n in _INSTANTS.get(table, ()) if shift_us}
            if table == "requests":
                changes |= derived_origins(derived)
            self._write_records(table, parts, tables / table / f"{self._source}.parquet", changes)
        self._copy(
            f"SELECT '{self._source}' AS source, * FROM rejected ORDER BY file, line",
            tables / "rejects" / f"{self._source}.parquet",
        )
        self._write_facts(tables / "sources" / f"{self._source}.parquet", facts)

    def _write_records(
        self, table: str, parts: list[Path], target: Path, changes: Mapping[str, str]
    ) -> None:
        """One file of all parts in the order of the table; `changes` are columns computed anew."""
        if not parts:
            empty = {name: "NULL" for name in TABLES[table].columns}
            self._copy(f"SELECT {projection(table, empty)} WHERE false", target)
        elif len(parts) == 1 and not changes and self._in_order(table, parts[0]):
            parts[0].rename(target)
        else:
            order = ", ".join(TABLES[table].order)
            relation = _relation(parts)
            query = f"SELECT {projection(table, changes)} FROM {relation} ORDER BY {order}"
            self._copy(query, target)
            for part in parts:
                part.unlink()

    def _in_order(self, table: str, part: Path) -> bool:
        """Whether the rows of one file are in the order of the table as they are."""
        columns = [name for name in TABLES[table].order if name not in ("source", "file")]
        back = " OR ".join(
            " AND ".join(
                (
                    *(f"{name} = lag({name}) OVER ()" for name in columns[:place]),
                    f"{columns[place]} < lag({columns[place]}) OVER ()",
                )
            )
            for place in range(len(columns))
        )
        query = f"SELECT coalesce(bool_or(back), false) FROM (SELECT {back} AS back FROM "
        return not self._connection.row(f"{query}{_relation([part])})")[0]

    def _write_facts(self, target: Path, facts: Mapping[str, Any]) -> None:
        files = json.dumps([counts._asdict() for counts in self.counts])
        row = {**facts, "source": self._source, "files": files}
        for name in ("rows_read", "rows_kept", "rows_rejected"):
            row[name] = sum(getattr(counts, name) for counts in self.counts)
        self._connection.set({f"fact_{name}": value for name, value in row.items()})
        given = {name: f"getvariable('fact_{name}')" for name in TABLES["sources"].columns}
        self._copy(f"SELECT {projection('sources', given)}", target)

    def _copy(self, query: str, target: Path) -> None:
        self._connection.execute(f"COPY ({query}) TO {quoted(target)} {PARQUET}")


def _checked(query: str, table: str, parameters: Mapping[str, Any]) -> str:
    """`WITH staged, checked`: the staging query, and the checks that all sources share."""
    staged = sql(query)
    for name in parameters:
        staged = re.sub(rf"\${name}\b", f"getvariable('{name}')", staged)
    checks = sql("check_requests") if table == "requests" else "SELECT * FROM staged"
    return f"WITH staged AS (\n{staged}\n), checked AS (\n{checks}\n)"


def _relation(parts: list[Path]) -> str:
    return f"read_parquet([{', '.join(one_file(part) for part in parts)}])"
