"""Trace files of Triton Inference Server, request by request."""

import json

import pytest

from pipeline.sources.detect import fits
from tests.pipeline.readers.json_logs import (
    completed,
    expected,
    in_order,
    notes,
    simulated,
)
from tests.pipeline.readers.text_logs import FIXTURES, origin, rejects, rows, written
from tests.pipeline.readers.writers import triton_trace

KIND, FILE = "triton_trace", "triton_trace/trace.json"
INSTANTS = ("arrival_us", "dispatch_us", "departure_us")


@pytest.fixture(scope="module")
def trace(ingest, tmp_path_factory):
    return ingest(FIXTURES, FILE, kind=KIND, out=tmp_path_factory.mktemp("trace"))


def test_events_in_any_order_over_several_records_make_one_request(trace):
    # Id 1 starts at 5000 s + 1 us, which is time 0; 11499 ns is 11 us and 111500 ns is 112 us
    # (to the nearest, halves up). Ids 1 and 2 ran in one batch.
    columns = ("line", "request_id", *INSTANTS, "request_class", "status")
    assert rows(trace, *columns)[:2] == [
        (1, "req-a", 0, 10, 111, "resnet50", "completed"),
        (3, "trace 2", 1, 11, 111, "resnet50", "completed"),
    ]
    assert origin(trace) == "5000.000001"


def test_the_steps_of_an_ensemble_are_requests_of_their_models(trace):
    columns = ("line", "request_id", *INSTANTS, "request_class")
    assert rows(trace, *columns)[2:4] == [
        (10, "trace 4", 200, 201, 299, "preprocess"),
        (12, "trace 5", 300, 302, 498, "resnet50"),
    ]
    assert "1 requests are ensembles" in notes(trace)


def test_an_ensemble_can_be_read_as_one_request_instead(ingest, tmp_path):
    log = ingest(FIXTURES, FILE, kind=KIND, out=tmp_path, options={"ensembles": "whole"})
    columns = ("line", "request_id", *INSTANTS, "request_class")
    assert rows(log, *columns)[2:] == [
        (8, "req-b", 199, None, 499, "pipeline"),
        (20, "hit", 999, None, 1001, "resnet50"),
    ]


def test_unfinished_double_and_nameless_records_are_rejects(trace):
    assert rejects(trace) == [
        (14, "REQUEST_END: missing"),
        (16, "COMPUTE_START: more than once"),
        (18, "model_name: missing"),
        (19, "id: missing"),
    ]


def test_strange_parents_and_instants_are_no_crash(ingest, tmp_path):
    def record(key, parent, start_ns):
        stamps = {"REQUEST_START": start_ns, "REQUEST_END": 3000}
        events = [{"name": name, "ns": ns} for name, ns in stamps.items()]
        return {"id": key, "parent_id": parent, "model_name": "m", "timestamps": events}

    records = [record(1, [2], 2000), record(2, {}, 2**63 - 1), record(True, 0, 2000), 5]
    folder = written(tmp_path, "t.json", json.dumps(records))
    log = ingest(folder, "t.json", kind=KIND)
    assert rows(log, "line", "departure_us") == [(1, 1)]
    assert rejects(log) == [
        (2, "REQUEST_START: must be ns above 0"),
        (3, "id: missing"),
        (4, "id: missing"),
    ]


def test_a_trace_that_tensors_broke_is_refused_with_the_reason(ingest, tmp_path):
    name = "triton_trace/bytes_tensor.json"
    with pytest.raises(ValueError, match=r"not a JSON document: .*BYTES.*level=TIMESTAMPS"):
        ingest(FIXTURES, name, kind=KIND, out=tmp_path)


def test_an_object_and_an_unknown_option_are_refused(ingest, tmp_path):
    with pytest.raises(ValueError, match="must be an array"):
        ingest(written(tmp_path, "t.json", "{}"), "t.json", kind=KIND)
    with pytest.raises(ValueError, match=r"options\.ensembles = 'both': must be steps"):
        ingest(FIXTURES, FILE, kind=KIND, out=tmp_path, options={"ensembles": "both"})


def test_only_this_reader_knows_the_fixture():
    assert list(fits(FIXTURES / FILE)) == [KIND]


def test_what_is_written_is_read_again_to_the_microsecond(ingest, tmp_path):
    made = simulated()
    triton_trace.write(made, tmp_path / "t.json")
    columns = ("request_id", *INSTANTS, "request_class", "status")
    found = in_order(ingest(tmp_path, "t.json", kind=KIND), columns)
    assert found == expected(made, columns, completed(made))
