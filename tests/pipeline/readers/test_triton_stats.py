"""Statistics of Triton Inference Server: batch latency by batch size."""

import json

import numpy as np
import pytest

from pipeline.sources.detect import fits
from tests.pipeline.readers.json_logs import notes, simulated
from tests.pipeline.readers.text_logs import FIXTURES, written
from tests.pipeline.readers.writers import triton_stats

KIND = "triton_stats"
ONCE, SNAPSHOTS = "triton_stats/once.json", "triton_stats/snapshots.jsonl"
COLUMNS = ("request_class", "replica", "batch_size", "batches", "latency_us", "queue_us")


def profiles(ingested, *columns):
    return ingested.tables["profiles"].select(columns or COLUMNS).rows()


def test_one_snapshot_counts_from_the_start_of_the_server(ingest, tmp_path):
    # Batch size 1: (1 + 10 + 1) ms in 10 runs; 4: (1 + 18 + 1) ms in 5; 6 ms of 30 waits.
    log = ingest(FIXTURES, ONCE, kind=KIND, out=tmp_path)
    assert profiles(log) == [
        ("resnet50", None, 1, 10, 1200.0, 200.0),
        ("resnet50", None, 4, 5, 4000.0, 200.0),
    ]


def test_of_several_snapshots_the_differences_count_also_over_a_restart(ingest, tmp_path):
    # Size 1: 10 -> 30 runs, 12 -> 32 ms, then 5 runs of 5 ms anew: 25 runs, 25 ms.
    # Size 8 is new in the second: 2 runs, 8 ms. Size 4 did not run.
    # Queue: 50 -> 90 waits, 5 -> 13 ms, then 10 waits of 1 ms anew: 50 waits, 9 ms.
    log = ingest(FIXTURES, SNAPSHOTS, kind=KIND, out=tmp_path)
    assert profiles(log) == [
        ("resnet50", None, 1, 25, 1000.0, 180.0),
        ("resnet50", None, 8, 2, 4000.0, 180.0),
    ]
    assert "1 batch sizes did not run" in notes(log)


def test_the_files_of_a_folder_are_servers(ingest, tmp_path):
    folder = tmp_path / "stats"
    folder.mkdir()
    for name in ("gpu0", "gpu1"):
        (folder / f"{name}.json").write_text((FIXTURES / ONCE).read_text())
    log = ingest(tmp_path, "stats", kind=KIND)
    assert profiles(log, "replica", "batch_size") == [
        ("gpu0", 1),
        ("gpu0", 4),
        ("gpu1", 1),
        ("gpu1", 4),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_stats": 3}, r"model_stats = 3: must be a list of objects"),
        ({"model_stats": [{"name": 1}]}, r"name = 1: must be a text"),
        ({"model_stats": [{"name": "m"}]}, r"m: inference_stats: queue = None"),
    ],
)
def test_what_is_no_snapshot_is_refused(ingest, tmp_path, change, message):
    folder = written(tmp_path, "s.json", json.dumps(change))
    with pytest.raises(ValueError, match=message):
        ingest(folder, "s.json", kind=KIND)


def test_a_counter_that_is_no_whole_number_is_refused(ingest, tmp_path):
    text = (FIXTURES / ONCE).read_text().replace('"ns": 10000000', '"ns": -1')
    with pytest.raises(ValueError, match=r"compute_infer\.ns = -1: must be a whole number"):
        ingest(written(tmp_path, "s.json", text), "s.json", kind=KIND)


@pytest.mark.parametrize("name", [ONCE, SNAPSHOTS])
def test_only_this_reader_knows_the_fixture(name):
    assert list(fits(FIXTURES / name)) == [KIND]


def test_what_is_written_is_read_again(ingest, tmp_path):
    # Batches of 1 and 3: L = 1000 + 500 b us by construction, each request waits 70 us.
    count, sizes = 8, [1, 3, 1, 3]
    batch_id = np.repeat(np.arange(4), sizes)
    made = simulated(count)
    dispatch_us = 10_000 * batch_id
    log = made._replace(
        batch_id=batch_id,
        request_class=["fast"] * count,
        status=["completed"] * count,
        arrival_us=dispatch_us - 70,
        dispatch_us=dispatch_us,
        departure_us=dispatch_us + 1000 + 500 * np.array(sizes)[batch_id],
    )
    triton_stats.write(log, tmp_path / "s.json")
    assert profiles(ingest(tmp_path, "s.json", kind=KIND)) == [
        ("fast", None, 1, 2, 1500.0, 70.0),
        ("fast", None, 3, 2, 2500.0, 70.0),
    ]
