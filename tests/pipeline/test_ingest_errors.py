"""When ingest stops, and that it then leaves everything as it was."""

import gzip
from pathlib import Path

import polars as pl
import pytest

LINE = 12


def test_a_damaged_compressed_file_is_named(make_log, ingest, tmp_path) -> None:
    folder = make_log().write(tmp_path / "log")
    plain = folder / "requests.jsonl"
    (folder / "requests.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes())[:-20])
    plain.unlink()
    with pytest.raises(ValueError, match=r"requests\.jsonl\.gz: not a whole gzip file"):
        ingest(tmp_path, "log")


def test_too_many_rejects_stop_with_the_three_most_frequent_reasons(
    make_log, ingest, tmp_path
) -> None:
    log = make_log()
    spoiled = [("size", -1)] * 4 + [("status", "done")] * 3 + [("request_class", "x")] * 2
    for record, (field, value) in zip(log.requests, [*spoiled, ("arrival_us", -1)], strict=False):
        record[field] = value
    log.write(tmp_path / "log")
    with pytest.raises(ValueError, match=r"10 of 40 rows rejected \(25\.00%\)") as stopped:
        ingest(tmp_path, "log", limit=0.2)
    assert str(stopped.value).endswith(
        "most frequent: 4 x size: must be finite and above 0 (first in line 1); "
        "3 x status: must be completed, shed or failed (first in line 5); "
        "2 x request_class: unknown request class (first in line 8)"
    )


def test_rejects_at_the_limit_do_not_stop(make_log, ingest, tmp_path) -> None:
    log = make_log()
    log.requests[0]["size"] = -1
    log.write(tmp_path / "log")
    assert len(ingest(tmp_path, "log", limit=1 / 40).rejects("requests")) == 1


def test_a_stop_leaves_the_old_warehouse_and_nothing_half_written(
    make_log, ingest, tmp_path
) -> None:
    log = make_log()
    log.write(tmp_path / "log")
    ingest(tmp_path, "log")
    before = contents(tmp_path / "data")
    for record in log.requests:
        record["size"] = -1
    log.write(tmp_path / "log")
    with pytest.raises(ValueError, match="rejected"):
        ingest(tmp_path, "log", limit=0.01)
    assert contents(tmp_path / "data") == before


def test_a_stop_without_an_old_warehouse_leaves_nothing(make_log, ingest, tmp_path) -> None:
    log = make_log()
    log.requests[0]["size"] = -1
    log.write(tmp_path / "log")
    with pytest.raises(ValueError, match="rejected"):
        ingest(tmp_path, "log", limit=0.0)
    assert contents(tmp_path / "data") == {}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_an_empty_log_is_one_error(text, make_log, ingest, tmp_path) -> None:
    path = make_log().write(tmp_path / "log") / "requests.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"log/requests\.jsonl: has no rows"):
        ingest(tmp_path, "log")


def test_a_missing_folder_is_one_error(ingest, tmp_path) -> None:
    with pytest.raises(ValueError, match=r"sources\.log\.path = 'log': no such file or folder"):
        ingest(tmp_path, "log")


def test_a_log_without_requests_is_one_error(make_log, ingest, tmp_path) -> None:
    (make_log().write(tmp_path / "log") / "requests.jsonl").unlink()
    missing = r"has no requests\.parquet, requests\.jsonl or requests\.csv"
    with pytest.raises(ValueError, match=missing):
        ingest(tmp_path, "log")


def test_two_forms_of_one_record_file_are_refused(make_log, ingest, tmp_path) -> None:
    folder = make_log().write(tmp_path / "log")
    pl.DataFrame({"request_id": [1]}).write_parquet(folder / "requests.parquet")
    with pytest.raises(ValueError, match="one form of a record file"):
        ingest(tmp_path, "log")


def test_a_file_that_is_no_parquet_is_named(make_log, ingest, tmp_path) -> None:
    folder = make_log().write(tmp_path / "log", "parquet")
    (folder / "batches.parquet").write_bytes(b"not parquet at all")
    with pytest.raises(ValueError, match=r"batches\.parquet: not a readable Parquet file"):
        ingest(tmp_path, "log")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("format", "other", "format = 'other': must be batchwright-serving-log"),
        ("version", 2, "version = 2: must be 1"),
        ("request_classes", [], "request_classes"),
        ("request_classes", ["a", "a"], "none twice"),
        ("request_classes", ["drop table; --"], "a name must match"),
        ("replicas", 0, "replicas = 0: must be at least 1"),
        ("replicas", "2", "must be of type int"),
        ("origin", "2026-01-01T00:00:00", "must be an ISO 8601 instant in UTC"),
        ("origin", "yesterday", "must be an ISO 8601 instant in UTC"),
        ("class_choice", "all", "must be one of any, head_of_line"),
        ("batch_sizes", None, "batch_sizes = None"),
        ("license", None, "license"),
    ],
)
def test_a_bad_system_file_is_named_with_key_and_rule(
    key, value, message, make_log, ingest, tmp_path
) -> None:
    log = make_log()
    log.system[key] = value
    log.write(tmp_path / "log")
    with pytest.raises(ValueError, match=r"log/system\.json") as refused:
        ingest(tmp_path, "log")
    assert message in str(refused.value)


def test_a_system_file_that_is_missing_or_no_json_is_named(make_log, ingest, tmp_path) -> None:
    path = make_log().write(tmp_path / "log") / "system.json"
    path.write_text("{")
    with pytest.raises(ValueError, match=r"log/system\.json: not JSON"):
        ingest(tmp_path, "log")
    path.unlink()
    with pytest.raises(ValueError, match=r"log/system\.json = None: a serving log needs this file"):
        ingest(tmp_path, "log")


def test_a_path_that_a_link_leads_out_of_the_project_is_refused(make_log, ingest, tmp_path) -> None:
    make_log().write(tmp_path / "elsewhere")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="leads out of the project"):
        ingest(tmp_path / "project", "log")
