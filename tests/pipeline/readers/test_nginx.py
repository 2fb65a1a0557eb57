"""The access log of nginx, line by line."""

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
from tests.pipeline.readers.writers import nginx

KIND = "nginx"
INFER = "/v1/infer"


@pytest.fixture(scope="module")
def log(ingest, tmp_path_factory):
    out = tmp_path_factory.mktemp("text")
    return ingest(FIXTURES, "nginx/timed.log", kind=KIND, out=out)


def test_arrival_is_the_end_less_the_request_time(log):
    # Line 2 arrives first: 13:55:37.000 - 0.900 = 13:55:36.100. Line 1: 36.500 - 0.250 = 36.250.
    assert origin(log) == "2023-10-10T13:55:36.100000+00:00"
    columns = ("line", "request_id", "arrival_us", "departure_us", "request_class")
    assert rows(log, *columns)[:2] == [
        (1, "9f2c", 150_000, 400_000, INFER),
        (2, "9f2d", 0, 900_000, INFER),
    ]


def test_the_last_of_several_tries_is_the_replica(log):
    assert dict(rows(log, "line", "replica")) == {
        1: "10.0.0.1:8000",
        2: "10.0.0.3:8000",
        3: None,
        4: "10.0.0.1:8000",
        5: None,
        8: None,
    }


def test_the_times_of_several_tries_are_summed(ingest, tmp_path):
    options = {"response": "upstream_response_time"}
    found = ingest(FIXTURES, "nginx/timed.log", kind=KIND, out=tmp_path, options=options)
    # Line 2: 37.000 - (0.100 + 0.700) = 36.200, time 0; line 1: 36.500 - 0.249 = 36.251;
    # line 3 was refused before any upstream took it: 38.000 - request_time 0.000.
    assert origin(found) == "2023-10-10T13:55:36.200000+00:00"
    arrivals = rows(found, "line", "arrival_us")[:3]
    assert arrivals == [(1, 51_000), (2, 0), (3, 1_800_000)]


def test_shed_and_failed_requests_are_kept(log):
    assert rows(log, "line", "status", "departure_us")[2:] == [
        (3, "shed", None),  # 503
        (4, "failed", 2_900_000),  # 499: the client was gone
        (5, "completed", 3_900_000),
        (8, "failed", 6_900_000),  # 400
    ]


def test_fields_that_cannot_be_read_are_rejects(log):
    assert rejects(log) == [
        (6, "request_time: missing"),
        (7, "upstream_response_time: must be seconds, of each try"),
        (9, "line: not as the format says"),
    ]


def test_other_paths_are_no_requests(ingest, tmp_path):
    options = {"paths": ["/v1/"]}
    found = ingest(FIXTURES, "nginx/timed.log", kind=KIND, out=tmp_path, options=options)
    other = "not a request: its path is not one of options.paths"
    assert [entry for entry in rejects(found) if entry[1] == other] == [(5, other), (8, other)]


def test_json_lines_are_read_by_the_names_of_variables(ingest, tmp_path):
    found = ingest(FIXTURES, "nginx/keys.jsonl", kind=KIND, out=tmp_path)
    # 13:55:36 - 0.250; 15:55:38 +0200 is 13:55:38, less 0.5.
    assert origin(found) == "2023-10-10T13:55:35.750000+00:00"
    columns = ("arrival_us", "departure_us", "replica", "status")
    assert rows(found, *columns) == [
        (0, 250_000, "10.0.0.1:8000", "completed"),
        (1_750_000, 2_250_000, None, "failed"),
    ]
    assert rejects(found) == [(3, "msec: missing")]


def test_a_log_format_of_the_user_takes_the_lines_apart(ingest, tmp_path):
    line = '{"t":1696946136.500,"q":"POST /a\\"b HTTP/1.1","s":200,"d":0.250,"u":,"m":"llama"}'
    options = {
        "format": '{"t":$msec,"q":"$request","s":$status,"d":${request_time},'
        '"u":$upstream_response_time,"m":"$http_x_model"}',
        "fields": {"request_class": "$http_x_model"},
    }
    folder = written(tmp_path, "a.jsonl", line)
    found = ingest(folder, "a.jsonl", kind=KIND, options=options)
    assert origin(found) == "2023-10-10T13:55:36.250000+00:00"
    assert rows(found, "departure_us", "request_class") == [(250_000, "llama")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "combined"}, r"options\.format = 'combined': has no \$request_time"),
        ({"format": "$request_time $status"}, r"has none of \$msec, \$time_iso8601, \$time_local"),
        ({"format": "$msec$status $request_time"}, "nothing stands between two variables"),
        ({"response": "upstream_time"}, "must be request_time or upstream_response_time"),
    ],
)
def test_options_that_give_no_requests_are_refused(ingest, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        ingest(FIXTURES, "nginx/timed.log", kind=KIND, out=tmp_path, options=options)


@pytest.mark.parametrize("name", ["timed.log", "keys.jsonl"])
def test_only_this_reader_knows_the_fixture(name):
    assert list(fits(FIXTURES / "nginx" / name)) == [KIND]


def test_what_is_written_is_read_again(ingest, tmp_path):
    simulated = simulated_log(resolution_us=1000)
    nginx.write(simulated, tmp_path / "access.log")
    found = ingest(tmp_path, "access.log", kind=KIND)
    columns = ("request_id", "arrival_us", "departure_us", "replica", "status")
    assert by_arrival(found, *columns) == expected(simulated, *columns)
    classes = [(f"/{name}",) for name in simulated.request_class]
    assert by_arrival(found, "request_class") == classes
