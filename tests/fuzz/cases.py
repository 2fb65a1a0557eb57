"""One fixture file of a reader, damaged, and its way through ingest: what fuzzing repeats.

Used by the hypothesis tests, by the atheris script and by the replay of its corpus.
"""

import gzip
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from backports import zstd

from pipeline.schema import TABLES, check_table
from pipeline.settings import IngestSettings, SourceSettings
from pipeline.sources import read_source
from pipeline.store import WarehouseBuilder

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
FOLDERS = ("azure_functions_2019", "llmservingsim", "serving_log")  # kinds whose source is a folder
OPTIONS: dict[str, dict[str, Any]] = {
    "azure_functions_2019": {"max_requests": 1000},
    "servegen": {"max_requests": 1000},
    "vllm_metrics": {"arrival": "received"},
}
LICENSE = "CC0-1.0"
MOST_REJECTS = 0.999999  # of the rows; a file of which nothing is left is refused


class Case(NamedTuple):
    """A file that is damaged, and the reader of it."""

    kind: str
    file: Path  # below FIXTURES

    @property
    def name(self) -> str:
        """What the case is called."""
        return self.file.as_posix()

    @property
    def content(self) -> bytes:
        """The file as it is."""
        return (FIXTURES / self.file).read_bytes()

    def source(self, suffix: str = "") -> SourceSettings:
        """The settings of the source below the folder that `lay` fills."""
        path = f"log/{self.file.name}{suffix}"
        if self.kind in FOLDERS:
            path = "log"
        elif self.kind == "servegen":  # the lengths stand beside the rates
            path = path.replace("dataset.json", "trace.csv")
        options = OPTIONS.get(self.kind, {})
        return SourceSettings(kind=self.kind, path=path, license=LICENSE, options=options)

    def lay(self, project: Path, content: bytes, suffix: str = "") -> None:
        """The files of the case are in `project`/log, this one with another content."""
        folder = project / "log"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for file in (FIXTURES / self.file).parent.iterdir():
            if file.is_file() and file.suffix != ".md":
                shutil.copyfile(file, folder / file.name)
        (folder / self.file.name).unlink()
        (folder / f"{self.file.name}{suffix}").write_bytes(content)


CASES = tuple(
    Case(file.relative_to(FIXTURES).parts[0], file.relative_to(FIXTURES))
    for file in sorted(FIXTURES.rglob("*"))
    if file.is_file() and file.suffix != ".md"
)


class Outcome(NamedTuple):
    """What became of the files of a source."""

    read: dict[str, int]  # rows by file; a file may be admitted to more than one table
    kept: dict[str, list[int]]  # lines by file
    rejected: dict[str, list[int]]


def ingested(builder: WarehouseBuilder, project: Path, source: SourceSettings) -> Outcome:
    """What ingest makes of a source; RuntimeError where a table or a count is broken."""
    counts = read_source(builder, "log", source, project, IngestSettings(MOST_REJECTS))
    tables = {
        table: pl.read_parquet(builder.tables / table / "log.parquet", glob=False)
        for table in TABLES
    }
    for table, frame in tables.items():
        try:
            check_table(table, frame)
        except ValueError as error:
            raise RuntimeError(str(error)) from None
    read, kept = {}, {}
    for place, of_file in enumerate(counts):
        rows = tables[of_file.record].filter(pl.col("file") == place)
        kept.setdefault(of_file.path, []).extend(rows["line"].to_list())
        read[of_file.path] = read.get(of_file.path, 0) + of_file.rows_read
    rejects = tables["rejects"]
    rejected = {file: rejects.filter(pl.col("file") == file)["line"].to_list() for file in read}
    check_sums(Outcome(read, kept, rejected))
    return Outcome(read, kept, rejected)


def check_sums(outcome: Outcome) -> None:
    """RuntimeError unless each row was either kept or rejected, and none twice."""
    for file, rows in outcome.read.items():
        kept, rejected = outcome.kept[file], outcome.rejected[file]
        if rows != len(kept) + len(rejected):
            raise RuntimeError(f"{file}: {rows} read, {len(kept)} kept, {len(rejected)} rejected")


def take(builder: WarehouseBuilder, project: Path, given: bytes) -> str:
    """What became of the input of a fuzzer: its first byte is the case, the rest `taken`."""
    return taken(builder, project, CASES[given[0] % len(CASES)], given[1:]) if given else "refused"


def taken(builder: WarehouseBuilder, project: Path, case: Case, given: bytes) -> str:
    """What became of a file of a case, in a word; any error but ValueError passes through.

    The first byte says how it is packed: 1 and 2 say that the rest is gzip or zstd, which it hardly
    is; with 3 and 4 it is packed here.
    """
    packing, content = (given[0], given[1:]) if given else (0, b"")
    suffix = {1: ".gz", 2: ".zst", 3: ".gz", 4: ".zst"}.get(packing, "")
    if packing in (3, 4):
        content = gzip.compress(content, 1) if packing == 3 else zstd.compress(content)
    case.lay(project, content, suffix)
    try:
        ingested(builder, project, case.source(suffix))
    except ValueError:
        return "refused"
    return "read"
