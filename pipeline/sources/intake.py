"""What a reader is given: the files of one source, and ways to take them into the warehouse."""

import csv
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from pipeline.schema import FACTS
from pipeline.settings import SourceSettings
from pipeline.store import TABLES_FOLDER, FileCounts, SourceBuilder
from pipeline.store.text import plain_name, read_whole
from simulator.checks import check

DOCUMENT_BYTES = 1 << 28  # of the largest JSON document that is read whole


class Found(NamedTuple):
    """What a source says of itself, beside its rows."""

    license: str | None
    clock: str  # monotonic or wall
    zone: str
    # ISO 8601 instant of time 0; of a monotonic clock, its reading in seconds. None: that of the
    # smallest arrival, once all files are read.
    origin: str | None
    system: str | None  # JSON
    derived: tuple[str, ...]  # of schema.FACTS: computed, not measured
    notes: tuple[str, ...]  # sentences on what the log cannot tell


class Intake:
    """One source on its way into the warehouse."""

    def __init__(
        self,
        name: str,
        settings: SourceSettings,
        path: Path,
        builder: SourceBuilder,
        defaults: Mapping[str, Any],
        seed: int,
    ) -> None:
        self.name, self.settings, self.path, self.seed = name, settings, path, seed
        self.shown = settings.path
        self._builder, self._defaults = builder, defaults
        for key in settings.options:
            rule = f"may be {', '.join(defaults)}" if defaults else "this kind takes no options"
            check(key in defaults, self.key("options"), key, rule)

    def key(self, name: str) -> str:
        """The full configuration key of a setting of this source, for messages."""
        return f"sources.{self.name}.{name}"

    def option(self, name: str) -> Any:
        """The value of an option of the reader, or its default."""
        return self.settings.options.get(name, self._defaults[name])

    @property
    def tables(self) -> Path:
        """The folder that has the tables of the sources before this one."""
        return self._builder.spool("").parent / TABLES_FOLDER

    def files(self, *suffixes: str) -> list[Path]:
        """The file, or the files of the folder in the order of their names.

        With `suffixes`, those whose name ends so, .gz and .zst apart. ValueError where none is.
        """
        if self.path.is_file():
            return [self.path]
        found = sorted(
            file
            for file in self.path.iterdir()
            if file.is_file()
            and not file.name.startswith(".")
            and (not suffixes or plain_name(file).endswith(suffixes))
        )
        for file in found:
            rule = f"{file.name} leads out of the folder"
            inside = file.resolve().is_relative_to(self.path.resolve())
            check(inside, self.key("path"), self.shown, rule)
        wanted = f"no file with a name ending in {', '.join(suffixes)}" if suffixes else "no file"
        check(bool(found), self.key("path"), self.shown, f"has {wanted}")
        return found

    def shown_file(self, file: Path) -> str:
        """The path of a file as reports name it."""
        if file == self.path:
            return self.shown
        if file.is_relative_to(self.tables):
            return f"{TABLES_FOLDER}/{file.relative_to(self.tables).as_posix()}"
        if self.path.is_dir():
            return f"{self.shown.rstrip('/')}/{file.relative_to(self.path).as_posix()}"
        folder, slash, _ = self.shown.rpartition("/")  # a file that stands beside the source's
        return f"{folder}{slash}{file.relative_to(self.path.parent).as_posix()}"

    def lines(self, file: Path) -> str:
        """The lines of a text become `records` (line, raw); returns the first line."""
        return self._builder.load_text(file)

    def csv(
        self,
        file: Path,
        required: Iterable[str],
        optional: Iterable[str] = (),
        names: tuple[str, ...] | None = None,
        delimiter: str = ",",
    ) -> list[str]:
        """The rows become `records` (line, raw, malformed, and each column as text), by name.

        `names` are the columns of a file without header. Returns the names. Raises ValueError where
        a required column is missing or a wanted one is there twice.
        """
        first_line = self._builder.load_text(file)
        header = list(names) if names else _cells(first_line, delimiter)
        wanted = [*required, *optional]
        for column in wanted:
            times = header.count(column)
            rule = f"must name {', '.join(required)} once each, and no column twice"
            holds = times == 1 or (times == 0 and column not in required)
            check(holds, f"{self.shown_file(file)}: header", first_line[:200], rule)
        places = {name: header.index(name) if name in header else None for name in wanted}
        self._builder.cut_cells(places, len(header), delimiter, header=names is None)
        return header

    def documents(self, file: Path, rows: Iterable[tuple[int, Any]]) -> None:
        """Objects (line, object) become `records` (line, raw), raw being their JSON.

        The lines must ascend from 1 or more.
        """
        spool = self._builder.spool(".jsonl")
        with spool.open("w", encoding="utf-8") as target:
            at = 1
            for line, value in rows:
                target.write("\n" * (line - at))
                target.write(json.dumps(value, ensure_ascii=True) + "\n")
                at = line + 1
        self._builder.load_text(spool)

    def json(self, file: Path) -> Any:
        """The JSON document that the file is; ValueError where it is none, or too large."""
        shown = self.shown_file(file)
        content = read_whole(file, DOCUMENT_BYTES + 1)
        rule = f"a JSON document of more than {DOCUMENT_BYTES >> 20} MiB; give it as JSON lines"
        check(len(content) <= DOCUMENT_BYTES, shown, "too long", rule)
        try:
            return json.loads(content.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            raise ValueError(f"{shown}: not UTF-8 text: {error.reason}") from None
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{shown}: not a JSON document: {error}") from None

    def parquet(self, file: Path) -> None:
        """The rows of a Parquet file become `records` (line, raw), raw being their JSON."""
        self._builder.load_parquet(file)

    def frame(self, rows: pl.DataFrame) -> None:
        """The rows of a frame become `records` (line, raw), raw being their JSON."""
        spool = self._builder.spool(".parquet")
        rows.write_parquet(spool)
        self._builder.load_parquet(spool)

    def admit(
        self, query: str, file: Path, origin_us: int | None = None, **parameters: Any
    ) -> FileCounts:
        """`records` pass the staging query `pipeline/sql/<query>.sql` into the table it ends in."""
        return self._builder.admit(query, file, self.shown_file(file), parameters, origin_us)

    def found(
        self,
        clock: str,
        zone: str | None = None,
        origin: str | None = None,
        derived: tuple[str, ...] = (),
        notes: tuple[str, ...] = (),
        system: str | None = None,
        license: str | None = None,
    ) -> Found:
        """What the source says of itself; `origin` None is the instant of its smallest arrival."""
        unknown = set(derived) - set(FACTS)
        if unknown:
            raise RuntimeError(f"derived: {sorted(unknown)} must be of {', '.join(FACTS)}")
        return Found(
            license=self.settings.license or license,
            clock=clock,
            zone=zone or self.settings.zone,
            origin=origin,
            system=system,
            derived=derived,
            notes=notes,
        )

    def origin(self, clock: str) -> str:
        """The instant of the smallest arrival that was kept, as reports tell it."""
        if self._builder.origin_is_given:
            return "the start of the trace"
        instant_us = self._builder.origin_us() or 0
        if clock == "wall":
            return (
                datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=instant_us)
            ).isoformat()
        return f"{instant_us / 1e6:.6f}"


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        cells = next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error as error:
        raise ValueError(f"header: {line[:60]!r}..: no row of columns: {error}") from None
    return [cell.strip() for cell in cells]
