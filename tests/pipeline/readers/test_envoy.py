"""The access log of Envoy, line by line."""

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
from tests.pipeline.readers.writers import envoy

KIND = "envoy"
INFER = "/v1/infer"


@pytest.fixture(scope="module")
def log(ingest, tmp_path_factory):
    out = tmp_path_factory.mktemp("text")
    return ingest(FIXTURES, "envoy/access.log", kind=KIND, out=out)


def test_start_time_is_the_arrival_and_duration_the_response_time(log):
    # The request of line 3 arrived first, at 20:17:00.100, and is logged third.
    assert origin(log) == "2016-04-15T20:17:00.100000+00:00"
    columns = ("line", "request_id", "arrival_us", "departure_us", "request_class", "replica")
    kept = rows(log, *columns)
    assert kept[0] == (1, "cc21d9b0", 210_000, 436_000, "/api/v1/locations", "10.0.2.1:80")
    assert kept[2] == (3, "cc21d9b2", 0, 1_000_000, INFER, "10.0.2.2:80")


def test_flags_and_codes_tell_shed_from_failed(log):
    assert rows(log, "line", "status", "departure_us") == [
        (1, "completed", 436_000),
        (2, "shed", None),  # UO: overflow
        (3, "failed", 1_000_000),  # UT: upstream timeout
        (4, "failed", 540_000),  # 0 DC: the client was gone
        (5, "failed", 603_000),  # URX,UF: no more retries
        (6, "shed", None),  # 503 of the upstream itself
        (7, "completed", 807_000),
    ]


def test_istios_longer_lines_are_read_too(log):
    assert rows(log, "line", "request_id", "replica")[6] == (7, "cc21d9b6", "10.0.2.3:80")


def test_a_dash_is_nothing(log):
    assert rows(log, "line", "request_id")[5] == (6, None)
    assert rows(log, "line", "replica")[1] == (2, None)


def test_fields_that_cannot_be_read_are_rejects(log):
    assert rejects(log) == [
        (8, "duration: missing, though the request was completed"),
        (9, "duration: must be milliseconds"),
        (10, "start_time: must be a date and time or Unix seconds"),
        (11, "response_code: missing"),
        (12, "line: not as the format says"),
    ]


def test_json_numbers_may_be_texts(ingest, tmp_path):
    found = ingest(FIXTURES, "envoy/access.jsonl", kind=KIND, out=tmp_path)
    columns = ("request_id", "arrival_us", "departure_us", "status", "replica")
    assert rows(found, *columns) == [
        ("a0", 0, 226_000, "completed", "10.0.2.1:80"),
        ("a1", 190_000, None, "shed", None),
    ]
    assert rejects(found) == [(3, "duration: must be milliseconds"), (4, "start_time: missing")]


def test_the_user_names_the_keys_of_json_lines(ingest, tmp_path):
    line = (
        '{"ts":"1460751420.310","took":12.5,"resp":{"code":"200"},"x/model":"llama","path":"/a",'
        '"a.b":"10.0.0.7:1"}'
    )
    fields = {
        "start_time": "ts",
        "duration": "took",
        "response_code": "/resp/code",
        "request_class": "x/model",
        "upstream_host": "a.b",
    }
    folder = written(tmp_path, "a.jsonl", line)
    found = ingest(folder, "a.jsonl", kind=KIND, options={"fields": fields})
    assert origin(found) == "2016-04-15T20:17:00.310000+00:00"
    columns = ("departure_us", "request_class", "replica")
    assert rows(found, *columns) == [(12_500, "llama", "10.0.0.7:1")]


def test_the_user_gives_the_format_of_text_lines(ingest, tmp_path):
    line = "GET /a?b=1 200 at once, 7ms via 10.0.0.7:1 | 1460751420.310 llama"
    written(tmp_path, "a.log", line)
    options = {
        "format": "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH):256% %RESPONSE_CODE% "
        "at once, %DURATION%ms via %UPSTREAM_HOST% | %START_TIME(%s.%3f)% %REQ(X-MODEL)%",
        "fields": {"request_class": "REQ(X-MODEL)"},
    }
    found = ingest(tmp_path, "a.log", kind=KIND, options=options)
    assert origin(found) == "2016-04-15T20:17:00.310000+00:00"
    columns = ("departure_us", "request_class", "replica", "status")
    assert rows(found, *columns) == [(7_000, "llama", "10.0.0.7:1", "completed")]


def test_other_paths_are_no_requests(ingest, tmp_path):
    options = {"paths": ["/v1/", "/v2/"]}
    found = ingest(FIXTURES, "envoy/access.log", kind=KIND, out=tmp_path, options=options)
    assert rejects(found)[0] == (1, "not a request: its path is not one of options.paths")
    assert {row[0] for row in rows(found, "request_class")} == {INFER}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "%START_TIME%%DURATION%"}, "nothing stands between two variables"),
        ({"format": "%START_TIME% %RESPONSE_CODE%"}, "has no %DURATION%"),
        ({"format": "no variables"}, "names no variable"),
        ({"fields": {"begin": "ts"}}, r"options\.fields\.begin = 'ts': must be one of start_time"),
        ({"fields": {"duration": 3}}, r"options\.fields\.duration = 3: must be a text"),
        ({"fields": ["ts"]}, "must be a section"),
        ({"paths": "/v1"}, "must be a list of texts"),
        ({"path": "/v1"}, "may be format, fields, paths"),
    ],
)
def test_options_of_another_kind_are_refused(ingest, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        ingest(FIXTURES, "envoy/access.log", kind=KIND, out=tmp_path, options=options)


@pytest.mark.parametrize("name", ["access.log", "access.jsonl"])
def test_only_this_reader_knows_the_fixture(name):
    assert list(fits(FIXTURES / "envoy" / name)) == [KIND]


def test_what_is_written_is_read_again(ingest, tmp_path):
    simulated = simulated_log(resolution_us=1000)
    envoy.write(simulated, tmp_path / "access.log")
    found = ingest(tmp_path, "access.log", kind=KIND)
    columns = ("request_id", "arrival_us", "departure_us", "replica", "status")
    assert by_arrival(found, *columns) == expected(simulated, *columns)
    classes = [(f"/{name}",) for name in simulated.request_class]
    assert by_arrival(found, "request_class") == classes
