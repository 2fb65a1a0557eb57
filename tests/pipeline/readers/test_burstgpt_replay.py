"""Detail logs of BurstGPT's replay client, entry by entry."""

import pytest

from pipeline.sources.detect import fits
from tests.pipeline.readers.json_logs import (
    close,
    completed,
    expected,
    in_order,
    needs_traces,
    notes,
    simulated,
)
from tests.pipeline.readers.text_logs import FIXTURES, origin, rejects, rows, written
from tests.pipeline.readers.writers import burstgpt_replay

KIND, FILE = "burstgpt_replay", "burstgpt_replay/detail_log.json"


@pytest.fixture(scope="module")
def log(ingest, tmp_path_factory):
    return ingest(FIXTURES, FILE, kind=KIND, out=tmp_path_factory.mktemp("replay"))


def test_arrival_is_the_record_less_the_whole_time(log):
    # Entry 0: 1000.5 - 0.5 = 1000.0; entry 4: 1000.75 - 1.0 = 999.75, which is time 0.
    columns = ("line", "request_id", "arrival_us", "first_token_us", "departure_us")
    assert rows(log, *columns) == [
        (1, "0", 250_000, 500_000, 750_000),
        (2, "4", 0, 125_000, 1_000_000),
    ]
    assert origin(log) == "999.750000"


def test_characters_are_never_tokens(log):
    assert rows(log, "prompt_tokens", "output_tokens") == [(470, None), (474, None)]
    assert "characters" in notes(log)


def test_broken_entries_are_rejects_with_the_field(log):
    assert rejects(log) == [
        (3, "first_chunk_time: above total_chunk_time"),
        (4, "event_id: must be the key of the entry"),
        (5, "malformed entry"),
        (6, "total_chunk_time: must be seconds from 0 to 86400"),
    ]


def test_a_log_that_is_no_object_is_refused(ingest, tmp_path):
    with pytest.raises(ValueError, match="must be an object of entries by event id"):
        ingest(written(tmp_path, "log.json", "[1, 2]"), "log.json", kind=KIND)


def test_only_this_reader_knows_the_fixture():
    assert list(fits(FIXTURES / FILE)) == [KIND]


def test_what_is_written_is_read_again_to_the_microsecond(ingest, tmp_path):
    made = simulated()
    burstgpt_replay.write(made, tmp_path / "log.json")
    columns = ("arrival_us", "dispatch_us", "first_token_us", "departure_us", "prompt_tokens")
    found = in_order(ingest(tmp_path, "log.json", kind=KIND), columns)
    wanted = [(a, None, f, d, p) for a, _, f, d, p in expected(made, columns, completed(made))]
    close(found, wanted, columns, within_us=1)  # a difference of two floats of size 1e7


@needs_traces
@pytest.mark.parametrize("scale", [100, 2000])
def test_the_public_logs_are_read_whole(ingest, tmp_path, scale):
    path = f"burstgpt-replay-vllm/detail_log_scale{scale}_prompt500.json.gz"
    log = ingest(tmp_path, path, kind="auto", root="traces", out=tmp_path)
    assert log.tables["requests"].height == 500
    assert rejects(log) == []
