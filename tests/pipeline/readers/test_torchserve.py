"""The access log of TorchServe, line by line."""

import pytest

from pipeline.sources.detect import fits
from tests.pipeline.readers.text_logs import (
    FIXTURES,
    by_arrival,
    expected,
    origin,
    rejects,
    rows,
    simulated_log,
    written,
)
from tests.pipeline.readers.writers import torchserve

KIND = "torchserve"
METRICS = "not a request: a metrics line, not an access line"


@pytest.fixture(scope="module")
def log(ingest, tmp_path_factory):
    out = tmp_path_factory.mktemp("torchserve")
    return ingest(FIXTURES, "torchserve/access_log.log", kind=KIND, out=out)


def test_arrival_is_the_end_less_the_duration(log):
    # Line 2 arrives first: 13:56:19.000 - 1.664 s = 13:56:17.336. Line 1: 18.976 - 0.118 = 18.858.
    assert origin(log) == "2018-10-15T13:56:17.336000+00:00"
    assert rows(log, "line", "arrival_us", "departure_us")[:2] == [
        (1, 1_522_000, 1_640_000),
        (2, 0, 1_664_000),
    ]


def test_the_model_is_told_by_the_path_of_every_prediction_api(log):
    classes = dict(rows(log, "line", "request_class"))
    assert classes == {1: "resnet-18", 2: "bert", 3: "bert", 4: "bert", 14: "cifar10", 15: None}


def test_the_thread_of_a_worker_is_the_replica(log):
    replicas = dict(rows(log, "line", "replica"))
    named = {line: name for line, name in replicas.items() if name is not None}
    assert named == {2: "W-9000-bert_1.0", 14: "W-9001-cifar10_1"}


def test_a_full_queue_sheds_and_an_error_fails(log):
    # Line 3: 13:56:20.000 - 2 ms; line 4: 13:56:21.040 - 40 ms.
    assert rows(log, "line", "arrival_us", "departure_us", "status")[2:4] == [
        (3, 2_662_000, None, "shed"),
        (4, 3_664_000, 3_704_000, "failed"),
    ]


def test_other_lines_are_rejects_with_a_reason(log):
    assert rejects(log) == [
        (5, "not a request: its path asks for no prediction"),
        (6, METRICS),
        (7, METRICS),
        (8, METRICS),
        (9, METRICS),
        (10, "not a request: not an access line"),
        (11, "duration: must be whole milliseconds"),
        (12, "status: must be a number of 3 digits"),
        (13, "time: must be a date and time"),
    ]


def test_times_are_in_the_zone_of_the_source(ingest, tmp_path):
    line = '2018-07-15 13:56:18,976 - /10.0.0.1:6 "POST /predictions/m HTTP/1.1" 200 976'
    folder = written(tmp_path, "access_log.log", line)
    found = ingest(folder, "access_log.log", kind=KIND, zone="Europe/Berlin")
    assert origin(found) == "2018-07-15T11:56:18+00:00"


def test_only_this_reader_knows_the_fixture():
    assert list(fits(FIXTURES / "torchserve/access_log.log")) == [KIND]


def test_what_is_written_is_read_again(ingest, tmp_path):
    simulated = simulated_log(resolution_us=1000)
    torchserve.write(simulated, tmp_path / "ts_log.log")
    found = ingest(tmp_path, "ts_log.log", kind=KIND)
    columns = ("arrival_us", "departure_us", "request_class", "status")
    assert by_arrival(found, *columns) == expected(simulated, *columns)
    assert by_arrival(found, "replica") == [(f"W-{name}",) for name in simulated.replica]
