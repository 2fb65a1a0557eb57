"""What ingest reads of a serving log, whatever its form."""

import gzip
import json
import math
from collections import Counter

import pytest

LINE = 12  # the record that a test spoils: neither the first, the last, nor shed


def test_parquet_and_json_lines_make_the_same_tables(make_log, ingest, tmp_path) -> None:
    log = make_log()
    log.requests[LINE - 1]["size"] = math.nan
    log.batches[5]["batch_size"] = 0
    tables = [
        ingest(tmp_path, form, out=tmp_path / f"out_{form}").tables
        for form in ("jsonl", "parquet")
        if log.write(tmp_path / form, form)
    ]
    assert len(tables[0]["rejects"]) == 2
    for name in ("requests", "batches", "decisions"):
        assert tables[0][name].equals(tables[1][name])
    where = ["line", "reason"]
    assert tables[0]["rejects"].select(where).equals(tables[1]["rejects"].select(where))


def test_lines_are_counted_through_blanks_byte_order_mark_crlf_and_a_missing_last_newline(
    make_log, ingest, tmp_path
) -> None:
    path = make_log().write(tmp_path / "log") / "requests.jsonl"
    lines = path.read_text().splitlines()
    lines[2:2] = ["", "  "]
    lines[-1] = lines[-1].replace("completed", "done").replace("shed", "done")
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    tables = ingest(tmp_path, "log")
    assert tables.rejects("requests") == [(42, "status: must be completed, shed or failed")]
    assert tables.tables["requests"]["line"].to_list() == [1, 2, *range(5, 42)]
    assert tables.tables["sources"]["rows_read"].item() == 40 + 36 + 40


def test_line_numbers_go_on_over_the_blocks_that_a_file_is_read_in(
    make_log, ingest, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("pipeline.store.text.LINE_BYTES", 500)  # some three lines
    log = make_log()
    path = log.write(tmp_path / "log") / "requests.jsonl"
    assert ingest(tmp_path, "log").tables["requests"]["line"].to_list() == list(range(1, 41))
    path.write_bytes(path.read_bytes().replace(b"\n", b"\n\n"))  # it is copied then
    tables = ingest(tmp_path, "log").tables
    assert tables["requests"]["line"].to_list() == list(range(1, 80, 2))


def test_requests_out_of_order_are_kept_and_sorted_by_their_arrival(
    make_log, ingest, tmp_path
) -> None:
    log = make_log()
    log.requests[3], log.requests[7] = log.requests[7], log.requests[3]
    log.write(tmp_path / "log")
    requests = ingest(tmp_path, "log").tables["requests"]
    assert requests["arrival_us"].is_sorted()
    assert requests["line"].to_list()[3] == 8
    assert requests["line"].to_list()[7] == 4


def test_json_lines_may_be_compressed(make_log, ingest, tmp_path) -> None:
    folder = make_log().write(tmp_path / "log")
    plain = folder / "requests.jsonl"
    (folder / "requests.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    assert len(ingest(tmp_path, "log").tables["requests"]) == 40


def test_whole_numbers_written_as_floats_are_read(make_log, ingest, tmp_path) -> None:
    log = make_log()
    log.requests[LINE - 1]["arrival_us"] = float(log.requests[LINE - 1]["arrival_us"])
    log.write(tmp_path / "log")
    arrivals = ingest(tmp_path, "log").tables["requests"]["arrival_us"]
    assert arrivals.to_list() == [record["arrival_us"] for record in log.requests]


def test_a_log_without_batches_decisions_and_service_times_says_absent(
    make_log, ingest, tmp_path
) -> None:
    log = make_log()
    for record in log.requests:
        for field in ("dispatch_us", "departure_us", "batch_id"):
            del record[field]
    folder = log.write(tmp_path / "log")
    (folder / "batches.jsonl").unlink()
    (folder / "decisions.jsonl").unlink()
    requests = ingest(tmp_path, "log").tables["requests"]
    assert len(requests) == 40
    assert requests["dispatch_us"].null_count() == 40
    assert set(requests["queue_origin"]) == set(requests["service_origin"]) == {"absent"}


def test_sources_tells_the_file_its_digest_and_what_became_of_its_rows(
    make_log, ingest, tmp_path
) -> None:
    log = make_log()
    log.requests[LINE - 1]["size"] = -1
    log.write(tmp_path / "log")
    source = ingest(tmp_path, "log").tables["sources"].row(0, named=True)
    files = json.loads(source["files"])
    assert [file["path"] for file in files] == [
        "log/requests.jsonl",
        "log/batches.jsonl",
        "log/decisions.jsonl",
    ]
    assert files[0]["rows_read"] == files[0]["rows_kept"] + files[0]["rows_rejected"] == 40
    assert files[0]["rows_rejected"] == source["rows_rejected"] == 1
    assert all(len(file["sha256"]) == 64 for file in files)
    assert source["license"] == "CC0-1.0"
    assert json.loads(source["system"])["queue_capacity"] == 100


def test_a_source_below_traces_needs_traces_dir(make_log, ingest, tmp_path, monkeypatch) -> None:
    make_log().write(tmp_path / "traces" / "log")
    monkeypatch.delenv("TRACES_DIR", raising=False)
    with pytest.raises(ValueError, match="TRACES_DIR: not set"):
        ingest(tmp_path, "log", root="traces")
    monkeypatch.setenv("TRACES_DIR", str(tmp_path / "traces"))
    tables = ingest(tmp_path, "log", root="traces")
    assert Counter(tables.tables["requests"]["status"]) == {"completed": 36, "shed": 4}


def test_a_path_is_the_name_of_one_file_and_no_pattern(make_log, ingest, tmp_path) -> None:
    # To DuckDB [1] is a set of characters: it would read log1 in the place of log[1].
    make_log(30, seed=1).write(tmp_path / "log1")
    asked = make_log(20, seed=2)
    asked.write(tmp_path / "log[1]")
    tables = ingest(tmp_path, "log[1]").tables
    assert tables["requests"]["arrival_us"].to_list() == [r["arrival_us"] for r in asked.requests]


def test_a_serving_log_names_its_classes_itself(make_log, ingest, tmp_path) -> None:
    make_log().write(tmp_path / "log")
    with pytest.raises(ValueError, match=r"sources\.log\.classes = .*: a serving log names"):
        ingest(tmp_path, "log", classes={"fast": "slow"})


def test_arrivals_of_a_log_that_tells_service_are_not_spread(make_log, ingest, tmp_path) -> None:
    make_log().write(tmp_path / "log")
    with pytest.raises(ValueError, match=r"sources\.log\.dequantize_s = 1\.0: is for arrivals"):
        ingest(tmp_path, "log", dequantize_s=1.0)


def test_a_link_that_leads_out_of_the_folder_is_refused(ingest, tmp_path) -> None:
    (tmp_path / "elsewhere.jsonl").write_text("{}")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    with pytest.raises(ValueError, match=r"a\.jsonl leads out of the folder"):
        ingest(tmp_path, "logs", kind="mooncake")
