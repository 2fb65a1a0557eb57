"""Which records of a serving log ingest rejects, and the reason it gives."""

import json
import math

import polars as pl
import pytest

NOW_OR_LATER = "must be a whole number of at least 0"
OPTIONAL = "must be null or a whole number of at least 0"
LINE = 12  # the record that the tests spoil: neither the first, the last, nor shed

BAD_REQUESTS = [
    ("request_id", None, "request_id: missing"),
    ("request_id", 1.5, "request_id: must be a whole number or a text"),
    ("request_id", 10, "request_id: seen before"),
    ("arrival_us", None, "arrival_us: missing"),
    ("arrival_us", -1, f"arrival_us: {NOW_OR_LATER}"),
    ("arrival_us", math.nan, f"arrival_us: {NOW_OR_LATER}"),
    ("arrival_us", math.inf, f"arrival_us: {NOW_OR_LATER}"),
    ("arrival_us", 3.5, f"arrival_us: {NOW_OR_LATER}"),
    ("arrival_us", "7", f"arrival_us: {NOW_OR_LATER}"),
    ("arrival_us", True, f"arrival_us: {NOW_OR_LATER}"),
    ("arrival_us", 2**63, f"arrival_us: {NOW_OR_LATER}"),
    ("request_class", None, "request_class: missing"),
    ("request_class", "medium", "request_class: unknown request class"),
    ("request_class", 0, "request_class: unknown request class"),
    ("size", None, "size: missing"),
    ("size", -1.0, "size: must be finite and above 0"),
    ("size", 0, "size: must be finite and above 0"),
    ("size", math.nan, "size: must be finite and above 0"),
    ("size", math.inf, "size: must be finite and above 0"),
    ("size", "big", "size: must be finite and above 0"),
    ("status", None, "status: missing"),
    ("status", "done", "status: must be completed, shed or failed"),
    ("dispatch_us", math.nan, f"dispatch_us: {OPTIONAL}"),
    ("dispatch_us", -5, f"dispatch_us: {OPTIONAL}"),
    ("dispatch_us", 0, "dispatch_us: before arrival_us"),
    ("dispatch_us", None, "dispatch_us: missing, though the request was completed"),
    ("departure_us", -5, f"departure_us: {OPTIONAL}"),
    ("departure_us", 0, "departure_us: before arrival_us"),
    ("departure_us", None, "departure_us: missing, though the request was completed"),
    ("batch_id", "b7", "batch_id: must be null or a whole number"),
]
BAD_BATCHES = [
    ("batch_id", None, "batch_id: missing"),
    ("batch_id", 3, "batch_id: seen before"),
    ("replica", 2, "replica: must be below the number of replicas"),
    ("replica", -1, "replica: must be below the number of replicas"),
    ("request_class", "medium", "request_class: unknown request class"),
    ("batch_size", 0, "batch_size: must be a whole number of at least 1"),
    ("batch_size", 1.5, "batch_size: must be a whole number of at least 1"),
    ("dispatch_us", math.nan, f"dispatch_us: {NOW_OR_LATER}"),
    ("dispatch_us", 2**60, "departure_us: before dispatch_us"),
    ("departure_us", -1, f"departure_us: {NOW_OR_LATER}"),
]
PER_CLASS = "queue_length: must have a whole number of at least 0 for each class"
PER_REPLICA = "can_take: must have true or false for each replica"
WAITING = "batch_id: must be null for action 0 (WAIT), and for it alone"
BAD_DECISIONS = [
    ("decision_id", None, "decision_id: missing"),
    ("decision_id", 3, "decision_id: seen before"),
    ("clock_us", -1, f"clock_us: {NOW_OR_LATER}"),
    ("clock_us", 0, "clock_us: below one before it"),
    ("queue_length", None, "queue_length: missing"),
    ("queue_length", [1], PER_CLASS),
    ("queue_length", [1, -1], PER_CLASS),
    ("queue_length", [1, None], PER_CLASS),
    ("queue_length", 3, PER_CLASS),
    ("can_take", None, "can_take: missing"),
    ("can_take", [True], PER_REPLICA),
    ("can_take", [True, 1], PER_REPLICA),
    ("action", -1, "action: must be below the number of actions"),
    ("action", 13, "action: must be below the number of actions"),
    ("action", 0, WAITING),
    ("propensity", 0.0, "propensity: must be in (0, 1]"),
    ("propensity", 1.0001, "propensity: must be in (0, 1]"),
    ("propensity", math.nan, "propensity: must be in (0, 1]"),
    ("batch_id", None, WAITING),
]
BAD_FIELDS = {"requests": BAD_REQUESTS, "batches": BAD_BATCHES, "decisions": BAD_DECISIONS}
BAD_CASES = [
    (record, line, *case)
    for record, cases in BAD_FIELDS.items()
    # Every second line from 21 on; of the requests every tenth was shed, and has an even line.
    for line, case in zip(range(21, 400, 2), cases, strict=False)
]
BAD_LINES = [
    b'{"request_id": 77, "arrival_us": 5',
    b"ERROR out of memory",
    b"[1, 2]",
    b"{} {}",
    b'{"request_id": "\xff\xfe"}',  # not UTF-8
]


@pytest.fixture(scope="module")
def spoiled(make_log, ingest, tmp_path_factory):
    """A log with every bad value, each in a line of its own, and its tables."""
    log = make_log(100)
    for record, line, field, value, _ in BAD_CASES:
        getattr(log, record)[line - 1][field] = value
    folder = tmp_path_factory.mktemp("spoiled")
    log.write(folder / "log")
    return log, ingest(folder, "log")


@pytest.mark.parametrize(("record", "line", "field", "value", "reason"), BAD_CASES)
def test_a_bad_value_makes_one_reject_with_its_line_reason_and_text(
    record, line, field, value, reason, spoiled
) -> None:
    log, ingested = spoiled
    reject = ingested.tables["rejects"].filter(
        (pl.col("file") == f"log/{record}.jsonl") & (pl.col("line") == line)
    )
    assert reject["reason"].to_list() == [reason]
    assert reject["raw"].item() == json.dumps(getattr(log, record)[line - 1])[:200]
    assert line not in ingested.tables[record]["line"]


@pytest.mark.parametrize("record", BAD_FIELDS)
def test_the_rows_around_bad_values_are_kept(record, spoiled) -> None:
    log, ingested = spoiled
    bad = {line for of, line, *_ in BAD_CASES if of == record}
    kept = [line for line in range(1, len(getattr(log, record)) + 1) if line not in bad]
    assert ingested.tables[record]["line"].to_list() == kept


def test_a_field_that_is_not_there_is_missing(make_log, ingest, tmp_path) -> None:
    log = make_log()
    fields = ["request_id", "arrival_us", "request_class", "size", "status"]
    for line, field in enumerate(fields, start=LINE):
        del log.requests[line - 1][field]
    log.write(tmp_path / "log")
    rejects = ingest(tmp_path, "log").rejects("requests")
    assert rejects == [(line, f"{field}: missing") for line, field in enumerate(fields, start=LINE)]


def test_malformed_lines_are_rejected_and_the_lines_around_them_kept(
    make_log, ingest, tmp_path
) -> None:
    path = make_log().write(tmp_path / "log") / "requests.jsonl"
    lines = path.read_bytes().splitlines()
    for number, line in enumerate(BAD_LINES):
        lines.insert(LINE - 1 + 2 * number, line)
    path.write_bytes(b"\n".join(lines))
    tables = ingest(tmp_path, "log")
    bad = [LINE + 2 * number for number in range(len(BAD_LINES))]
    assert tables.rejects("requests") == [(line, "malformed JSON") for line in bad]
    kept = [line for line in range(1, len(lines) + 1) if line not in bad]
    assert tables.tables["requests"]["line"].to_list() == kept


def test_a_shed_request_must_not_have_been_dispatched(make_log, ingest, tmp_path) -> None:
    log = make_log()
    log.requests[LINE - 1]["status"] = "shed"
    log.write(tmp_path / "log")
    reason = "status: a shed request has no dispatch_us, departure_us or batch_id"
    assert ingest(tmp_path, "log").rejects("requests") == [(LINE, reason)]


def test_a_rejected_row_does_not_judge_the_rows_after_it(make_log, ingest, tmp_path) -> None:
    log = make_log()
    late = log.requests[LINE - 1]
    late.update(size=-1.0, arrival_us=10**12, dispatch_us=None, departure_us=None)
    log.write(tmp_path / "log")
    rejects = ingest(tmp_path, "log").rejects("requests")
    assert rejects == [(LINE, "size: must be finite and above 0")]


def test_the_id_of_a_rejected_request_may_be_used_again(make_log, ingest, tmp_path) -> None:
    log = make_log()
    log.requests[LINE - 1]["size"] = -1.0
    log.requests[LINE]["request_id"] = log.requests[LINE - 1]["request_id"]
    log.write(tmp_path / "log")
    rejects = ingest(tmp_path, "log").rejects("requests")
    assert rejects == [(LINE, "size: must be finite and above 0")]


def test_equal_arrival_times_are_in_order(make_log, ingest, tmp_path) -> None:
    log = make_log()
    log.requests[LINE]["arrival_us"] = log.requests[LINE - 1]["arrival_us"]
    log.write(tmp_path / "log")
    assert ingest(tmp_path, "log").rejects("requests") == []
