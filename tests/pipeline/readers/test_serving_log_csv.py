"""The serving log with its requests and batches as CSV."""

import csv
import gzip
import io
from pathlib import Path

import pytest

from pipeline.sources.detect import fits

SQL = Path(__file__).resolve().parents[3] / "pipeline/sql"
TABLES = ("requests", "batches")


def as_csv(records) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]), lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def write_csv(log, folder, suffix=".csv", names=TABLES):
    """The log as a folder, the named record files as CSV."""
    log.write(folder)
    for name in names:
        (folder / f"{name}.jsonl").unlink()
        content = as_csv(getattr(log, name)).encode()
        packed = gzip.compress(content) if suffix.endswith(".gz") else content
        (folder / f"{name}{suffix}").write_bytes(packed)
    return folder


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_csv_and_json_lines_give_the_same_rows(ingest, make_log, tmp_path, suffix):
    log = make_log()
    log.write(tmp_path / "as_json")
    write_csv(log, tmp_path / "as_csv", suffix)
    given = ingest(tmp_path, "as_json", out=tmp_path / "a").tables
    found = ingest(tmp_path, "as_csv", out=tmp_path / "b").tables
    for name in (*TABLES, "decisions"):
        assert found[name].drop("line").equals(given[name].drop("line")), name
    assert found["requests"]["line"].to_list() == list(range(2, 2 + len(log.requests)))


# A cell, and what the record of JSON lines holds instead.
FAULTS = [
    ("arrival_us", "-1", -1),
    ("arrival_us", "12.5", 12.5),
    ("arrival_us", "", None),
    ("arrival_us", "1e400", "1e400"),
    ("arrival_us", "=1+1", "=1+1"),
    ("size", "0", 0),
    ("size", "NaN", "NaN"),
    ("request_class", "=fast", "=fast"),
    ("request_class", "7", "7"),
    ("status", "done", "done"),
    ("departure_us", "x", "x"),
    ("departure_us", "0", 0),
    ("batch_id", "9" * 30, float("9" * 30)),
    ("prompt_tokens", "-5", -5),
]


def test_every_fault_has_the_same_reason_as_in_json_lines(ingest, make_log, tmp_path):
    log, same = make_log(), make_log()
    for row, (column, cell, value) in enumerate(FAULTS):
        for record, content in ((log.requests[row], cell), (same.requests[row], value)):
            record[column] = content
    fill = dict.fromkeys(("prompt_tokens",))
    rows = [{**fill, **record} for record in log.requests]
    write_csv(log._replace(requests=rows), tmp_path / "as_csv")
    same.write(tmp_path / "as_json")
    given = ingest(tmp_path, "as_json", out=tmp_path / "a").rejects("requests")
    found = ingest(tmp_path, "as_csv", out=tmp_path / "b").rejects("requests")
    assert len(given) == len(FAULTS)
    assert found == [(line + 1, reason) for line, reason in given]


def test_a_text_cell_stays_as_it_is(ingest, make_log, tmp_path):
    log = make_log()
    ids = ["=HYPERLINK(1)", "007", "a,b", 'say "hi"', "1e3"]
    for record, name in zip(log.requests, ids, strict=False):
        record["request_id"] = name
    found = ingest(write_csv(log, tmp_path / "log").parent, "log").tables["requests"]
    assert found.sort("line")["request_id"].to_list()[: len(ids)] == ids


def test_columns_are_found_by_name_and_a_short_row_is_a_reject(ingest, make_log, tmp_path):
    log = make_log()
    turned = [{"note": "x", **dict(reversed(record.items()))} for record in log.requests]
    folder = write_csv(log._replace(requests=turned), tmp_path / "log")
    with (folder / "requests.csv").open("a") as file:
        file.write("x,completed")
    found = ingest(tmp_path, "log")
    assert len(found.tables["requests"]) == len(log.requests)
    reason = "row: has not as many cells as the header"
    assert found.rejects("requests") == [(2 + len(log.requests), reason)]


def test_a_missing_column_is_named(ingest, make_log, tmp_path):
    log = make_log()
    for record in log.requests:
        del record["size"]
    write_csv(log, tmp_path / "log")
    with pytest.raises(ValueError, match=r"log/requests\.csv: header.*must name .*size"):
        ingest(tmp_path, "log")


def test_decisions_cannot_be_csv(ingest, make_log, tmp_path):
    folder = make_log().write(tmp_path / "log")
    (folder / "decisions.jsonl").rename(folder / "decisions.csv")
    with pytest.raises(ValueError, match=r"decisions\.csv = 'decisions': holds lists"):
        ingest(tmp_path, "log")


def test_a_folder_with_csv_looks_like_a_serving_log(make_log, tmp_path):
    assert list(fits(write_csv(make_log(), tmp_path / "log"))) == ["serving_log"]


@pytest.mark.parametrize("record", TABLES)
def test_the_checks_are_those_of_json_lines_to_the_letter(record):
    def checks(name: str) -> str:
        text = (SQL / f"{name}_{record}.sql").read_text()
        return text[text.index("typed AS (") :]

    fault = "row: has not as many cells as the header"
    assert checks("serving_log_csv").replace(fault, "malformed JSON") == checks("serving_log")
