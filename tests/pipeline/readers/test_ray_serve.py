"""The access log of Ray Serve, line by line."""

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
from tests.pipeline.readers.writers import ray_serve

KIND = "ray_serve"
OTHER_COMPONENT = "not a request: not of the component of options.component"
NO_ACCESS = "not a request: not an access line"


@pytest.fixture(scope="module")
def log(ingest, tmp_path_factory):
    out = tmp_path_factory.mktemp("text")
    return ingest(FIXTURES, "ray_serve/replica.log", kind=KIND, out=out)


def test_every_text_layout_is_read(log):
    # Line 2 arrives first: 13:53:01.000 - 991.6 ms = 13:53:00.0084. Line 1: 00.197 - 4.1 ms.
    # Line 3: 02.519 - 62.0 ms = 02.457; line 4: 03.000 - 0.5 ms = 02.9995.
    assert origin(log) == "2024-11-20T13:53:00.008400+00:00"
    columns = ("line", "request_id", "arrival_us", "departure_us", "request_class", "replica")
    assert rows(log, *columns)[:4] == [
        (1, "3f0e-1", 184_500, 188_600, "default_A", "zosusx8c"),
        (2, "4683161e", 0, 991_600, "default_B", "f3fw2uje"),
        (3, "oQzRSNNGan", 2_448_600, 2_510_600, "default_Inference", "mtylLG"),
        (4, None, 2_991_100, 2_991_600, "SayHello", "kTBlTj"),
    ]


def test_errors_and_cancelled_requests_are_kept_as_failed(log):
    assert rows(log, "line", "status")[4:] == [(5, "failed"), (6, "failed")]


def test_a_request_id_that_comes_again_is_a_counted_reject(log):
    assert rejects(log) == [
        (7, "request_id: seen before"),
        (8, NO_ACCESS),
        (9, NO_ACCESS),
        (10, OTHER_COMPONENT),
        (11, NO_ACCESS),
        (12, OTHER_COMPONENT),
        (13, "message: must end with the latency in ms"),
        (14, "asctime: must be a date and time"),
    ]
    counts = log.tables["sources"].select("rows_read", "rows_kept", "rows_rejected").row(0)
    assert counts == (14, 6, 8)


def test_the_proxy_tells_route_and_refusals_but_no_replica(ingest, tmp_path):
    found = ingest(
        FIXTURES, "ray_serve/replica.log", kind=KIND, out=tmp_path, options={"component": "proxy"}
    )
    # 13:53:06.300 - 6.3 ms = 06.2937, time 0; 06.401 - 1.0 ms = 06.400.
    columns = ("line", "arrival_us", "departure_us", "request_class", "replica", "status")
    assert rows(found, *columns) == [
        (10, 0, 6_300, "/a", None, "completed"),
        (12, 106_300, None, "/a", None, "shed"),
    ]


def test_one_deployment_is_read_alone(ingest, tmp_path):
    options = {"deployment": "default_B"}
    found = ingest(FIXTURES, "ray_serve/replica.log", kind=KIND, out=tmp_path, options=options)
    assert rows(found, "line") == [(2,)]


def test_json_lines_are_read_by_key(ingest, tmp_path):
    found = ingest(FIXTURES, "ray_serve/replica.jsonl", kind=KIND, out=tmp_path)
    # Line 3 has nanoseconds: 02.519400600 s ends at 02.519401; less 62.0 ms is 02.457401.
    columns = ("line", "request_id", "arrival_us", "departure_us", "request_class", "replica")
    assert rows(found, *columns) == [
        (1, "3f0e-1", 184_500, 188_600, "default_A", "zosusx8c"),
        (2, "4683161e", 0, 991_600, "default_B", "f3fw2uje"),
        (3, "oQzRSNNGan", 2_449_001, 2_511_001, "default_Inference", "mtylLG"),
    ]
    assert rejects(found) == [
        (4, OTHER_COMPONENT),
        (5, "asctime: missing"),
        (6, "malformed JSON"),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"component": "router"}, r"sources\.log\.options\.component = 'router': must be replica"),
        ({"deployment": 3}, r"sources\.log\.options\.deployment = 3: must be a text or null"),
    ],
)
def test_options_of_another_kind_are_refused(ingest, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        ingest(FIXTURES, "ray_serve/replica.log", kind=KIND, out=tmp_path, options=options)


@pytest.mark.parametrize("name", ["replica.log", "replica.jsonl"])
def test_only_this_reader_knows_the_fixture(name):
    assert list(fits(FIXTURES / "ray_serve" / name)) == [KIND]


@pytest.mark.parametrize("name", ["replica.log", "replica.jsonl"])
def test_what_is_written_is_read_again(ingest, tmp_path, name):
    simulated = simulated_log(resolution_us=1000)
    ray_serve.write(simulated, tmp_path / name)
    found = ingest(tmp_path, name, kind=KIND)
    columns = ("request_id", "arrival_us", "departure_us", "request_class", "replica", "status")
    assert by_arrival(found, *columns) == expected(simulated, *columns)


def test_times_are_in_the_zone_of_the_source(ingest, tmp_path):
    line = "INFO 2024-07-20 13:53:00,100 default_A zosusx8c 3f0e-1 -- POST / 200 100.0ms"
    folder = written(tmp_path, "replica.log", line)
    found = ingest(folder, "replica.log", kind=KIND, zone="America/New_York")
    assert origin(found) == "2024-07-20T17:53:00+00:00"
