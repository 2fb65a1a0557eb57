"""LiteLLM's payloads and SpendLogs, record by record."""

import pytest

from pipeline.sources.detect import fits
from tests.pipeline.readers.json_logs import close, expected, in_order, simulated
from tests.pipeline.readers.text_logs import FIXTURES, origin, rejects, rows, written
from tests.pipeline.readers.writers import litellm

KIND = "litellm"
PAYLOADS, SPEND = "litellm/payloads.jsonl", "litellm/spend_logs.json"
COLUMNS = ("arrival_us", "first_token_us", "departure_us", "replica", "status")
CLOCK = "must be Unix seconds after the year 2000, or a date and time"


@pytest.fixture(scope="module")
def payloads(ingest, tmp_path_factory):
    return ingest(FIXTURES, PAYLOADS, kind=KIND, out=tmp_path_factory.mktemp("payloads"))


def test_a_first_token_is_told_by_streams_alone(payloads):
    assert rows(payloads, *COLUMNS)[:2] == [
        (0, 500_000, 2_000_000, "10.0.0.1", "completed"),
        (750_000, None, 1_250_000, "http://b", "completed"),
    ]
    columns = ("request_id", "request_class", "prompt_tokens", "output_tokens")
    assert rows(payloads, *columns)[0] == ("chatcmpl-1", "gpt-4o", 10, 20)


def test_an_answer_from_the_cache_is_no_work_of_a_deployment(payloads):
    assert rows(payloads, *COLUMNS)[2] == (1_750_000, None, 1_752_000, "cache", "completed")


def test_a_failure_of_no_duration_has_no_departure(payloads):
    assert rows(payloads, *COLUMNS, "prompt_tokens", "output_tokens")[3:] == [
        (2_750_000, None, None, "http://b", "failed", None, 0),
        (3_750_000, None, 3_875_000, "dep-5", "shed", None, 0),
    ]


def test_other_clocks_words_and_orders_are_rejects(payloads):
    assert rejects(payloads) == [
        (6, f"startTime: {CLOCK}"),
        (7, "status: must be success or failure"),
        (8, "cache_hit: must be true, false or null"),
        (9, "endTime: before startTime"),
        (10, "request_id: seen before"),
        (11, f"startTime: {CLOCK}"),
        (12, f"startTime: {CLOCK}"),
        (13, "malformed JSON"),
    ]


def test_spend_logs_are_naive_utc_with_texts_for_truth(ingest, tmp_path):
    log = ingest(FIXTURES, SPEND, kind=KIND, out=tmp_path)
    assert rows(log, "request_id", *COLUMNS) == [
        ("req-1", 0, 500_000, 2_000_000, "http://a", "completed"),
        ("req-2", 750_000, None, 1_250_000, "http://a", "completed"),
        ("req-3", 1_750_000, None, 1_751_000, "cache", "completed"),
        ("req-4", 2_750_000, None, None, "http://a", "shed"),
    ]
    assert rows(log, "request_class")[0] == ("gpt-4o",)
    assert origin(log) == "2026-05-28T20:26:40.250000+00:00"
    assert rejects(log) == [(5, "status: missing")]


def test_naive_times_are_in_the_zone_of_the_configuration(ingest, tmp_path):
    log = ingest(FIXTURES, SPEND, kind=KIND, out=tmp_path, zone="Asia/Shanghai")
    # 8 hours earlier; the record with an offset of its own is then out of reach of the others
    assert origin(log) == "2026-05-28T12:26:40.250000+00:00"
    assert rows(log, "arrival_us")[2] == (8 * 3_600_000_000 + 1_750_000,)


def test_a_rotated_file_may_begin_and_end_within_a_record(ingest, tmp_path):
    whole = (FIXTURES / PAYLOADS).read_text().splitlines()[0]
    log = ingest(
        written(tmp_path, "log.jsonl", whole[40:], whole, whole[:40]), "log.jsonl", kind=KIND
    )
    assert rows(log, "line") == [(2,)]
    assert rejects(log) == [(1, "malformed JSON"), (3, "malformed JSON")]


def test_what_a_replica_is_can_be_chosen(ingest, tmp_path):
    log = ingest(FIXTURES, PAYLOADS, kind=KIND, out=tmp_path, options={"replica": "model_id"})
    replicas = [value for (value,) in rows(log, "replica")]
    assert replicas == ["dep-1", "dep-2", "cache", "dep-4", "dep-5"]


def test_an_unknown_choice_or_document_is_refused(ingest, tmp_path):
    with pytest.raises(ValueError, match=r"options\.replica = 'gpu': must be one of auto, pod_ip"):
        ingest(FIXTURES, PAYLOADS, kind=KIND, out=tmp_path, options={"replica": "gpu"})
    folder = written(tmp_path, "log.json", "{", '"a": 1}')
    with pytest.raises(ValueError, match="must be JSON lines or an array of records"):
        ingest(folder, "log.json", kind=KIND)


@pytest.mark.parametrize("name", [PAYLOADS, SPEND])
def test_only_this_reader_knows_the_fixture(name):
    assert list(fits(FIXTURES / name)) == [KIND]


def test_what_is_written_is_read_again_to_the_microsecond(ingest, tmp_path):
    made = simulated()
    litellm.write(made, tmp_path / "log.jsonl")
    columns = ("request_id", "arrival_us", "first_token_us", "departure_us", "request_class")
    columns += ("replica", "prompt_tokens", "output_tokens", "status")
    found = in_order(ingest(tmp_path, "log.jsonl", kind=KIND), columns)
    every = list(range(len(made.request_id)))
    close(found, expected(made, columns, every), columns, within_us=1)
