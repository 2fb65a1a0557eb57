"""The warehouse: reproducible bytes, locks, manifests, and no half-written files."""

import json
import subprocess
import sys
from pathlib import Path

import duckdb
import polars as pl
import pytest

from pipeline.schema import TABLES
from pipeline.settings import IngestSettings, SourceSettings
from pipeline.sources import read_source
from pipeline.store import open_warehouse, read_table, warehouse_builder

BUILD = """
import sys
from pathlib import Path
from pipeline.settings import IngestSettings, SourceSettings
from pipeline.sources import read_source
from pipeline.store import warehouse_builder
project, out = map(Path, sys.argv[1:])
with warehouse_builder(out) as builder:
    read_source(builder, "log", SourceSettings("serving_log", "log"), project, IngestSettings(0.5))
"""
HOLD = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def built(make_log, ingest, tmp_path_factory):
    """A folder with a log of some rejects, and its warehouse in `data`."""
    folder = tmp_path_factory.mktemp("built")
    log = make_log(60)
    log.requests[11]["size"] = -1
    log.write(folder / "log")
    ingest(folder, "log")
    return folder


@pytest.fixture
def locked(built):
    """The warehouse of `built` while another process has it open for writing."""
    path = built / "data" / "warehouse.duckdb"
    command = [sys.executable, "-c", HOLD, str(path)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"open\n"
    yield path, holder.pid
    holder.communicate()


def test_two_processes_build_the_same_bytes(built, tmp_path) -> None:
    for out in ("first", "second"):
        subprocess.run(
            [sys.executable, "-c", BUILD, str(built), str(tmp_path / out)],
            cwd=Path(__file__).parents[2],
            check=True,
        )
    first, second = contents(tmp_path / "first"), contents(tmp_path / "second")
    assert first == second
    assert set(first) == {
        "warehouse.duckdb",
        "warehouse.json",
        *(f"tables/{name}/log.parquet" for name in TABLES),
    }


def test_a_rebuild_over_an_old_warehouse_gives_the_same_bytes(built, ingest) -> None:
    before = contents(built / "data")
    (built / "data" / "warehouse.duckdb.wal").write_bytes(b"left by a killed writer")
    (built / "data" / ".warehouse-partial").mkdir()
    ingest(built, "log")
    assert contents(built / "data") == before


def test_the_warehouse_and_the_parquet_tables_hold_the_same_rows(built) -> None:
    with open_warehouse(built / "data" / "warehouse.duckdb") as connection:
        for name, table in TABLES.items():
            order = ", ".join(table.order)
            rows = connection.execute(f"SELECT * FROM {name} ORDER BY {order}").fetchall()
            assert rows == read_table(built / "data", name).rows()


def test_the_manifest_tells_rows_types_and_a_digest_of_each_table(built) -> None:
    manifest = json.loads((built / "data" / "warehouse.json").read_text())
    assert set(manifest["tables"]) == set(TABLES)
    assert manifest["tables"]["requests"]["rows"] == 59
    assert manifest["tables"]["rejects"]["rows"] == 1
    assert manifest["tables"]["requests"]["columns"]["arrival_us"] == "int64"


def digests_of_requests(project: Path, sources: list[str]) -> dict[str, str]:
    with warehouse_builder(project / "data") as builder:
        for name in sources:
            settings = SourceSettings("serving_log", name)
            read_source(builder, name, settings, project, IngestSettings(0.0))
    manifest = json.loads((project / "data" / "warehouse.json").read_text())
    return manifest["tables"]["requests"]["sha256"]


def test_a_digest_is_that_of_its_source_alone_and_sees_every_value(make_log, tmp_path) -> None:
    logs = {"first": make_log(10, seed=1), "second": make_log(10, seed=2)}
    for name, log in logs.items():
        log.write(tmp_path / name)
    digests = digests_of_requests(tmp_path, ["first", "second"])
    assert digests_of_requests(tmp_path, ["second", "first"]) == digests
    logs["first"].requests[0]["size"] = 1.5
    logs["first"].write(tmp_path / "first")
    changed = digests_of_requests(tmp_path, ["first", "second"])
    assert changed["first"] != digests["first"]
    assert changed["second"] == digests["second"]


def test_a_warehouse_that_another_process_writes_is_one_error_that_says_what_to_do(locked) -> None:
    path, process = locked
    with pytest.raises(OSError, match=f"process {process} has it open for writing; close it there"):
        open_warehouse(path)


def test_a_build_does_not_replace_a_warehouse_that_another_process_writes(
    locked, built, ingest
) -> None:
    with pytest.raises(OSError, match="open for writing"):
        ingest(built, "log")
    assert not (built / "data" / ".warehouse-partial").exists()


def test_a_build_replaces_a_file_that_is_no_warehouse(make_log, ingest, tmp_path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "warehouse.duckdb").write_bytes(b"broken" * 1000)
    make_log().write(tmp_path / "log")
    ingest(tmp_path, "log")
    with open_warehouse(tmp_path / "data" / "warehouse.duckdb") as connection:
        assert connection.execute("SELECT count(*) FROM requests").fetchone() == (40,)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_while_building_leaves_the_old_warehouse_alone(error, built) -> None:
    before = contents(built / "data")
    with pytest.raises(error), warehouse_builder(built / "data"):
        raise error
    assert contents(built / "data") == before


def test_an_open_warehouse_cannot_be_written(built) -> None:
    with (
        open_warehouse(built / "data" / "warehouse.duckdb") as connection,
        pytest.raises(duckdb.InvalidInputException, match="read-only"),
    ):
        connection.execute("CREATE TABLE more (number INTEGER)")


def test_a_missing_warehouse_or_table_names_the_stage_to_run(tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match="no warehouse; run the ingest stage"):
        open_warehouse(tmp_path / "warehouse.duckdb")
    with pytest.raises(FileNotFoundError, match="requests: no table; run the ingest stage"):
        read_table(tmp_path, "requests")


def test_a_table_that_breaks_its_contract_is_not_read(built, tmp_path) -> None:
    table = read_table(built / "data", "requests").with_columns(pl.col("size") * -1)
    (tmp_path / "tables" / "requests").mkdir(parents=True)
    table.write_parquet(tmp_path / "tables" / "requests" / "log.parquet")
    with pytest.raises(ValueError, match=r"requests\.size: -1\.0 must be at least 0"):
        read_table(tmp_path, "requests")
