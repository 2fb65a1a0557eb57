"""The loading times of ServerlessLLM."""

import pytest

from pipeline.sources.detect import fits
from tests.pipeline.readers.csv_traces import FIXTURES, needs_traces, rejects, values

KIND = "cold_start_log"
PATH = "cold_start_log/made_up_random.json"
SECONDS = "loading_time: must be seconds of at least 0"


def test_loads_of_the_copies_of_a_model_are_of_one_class(ingest, tmp_path):
    # 2.1944453716278076 s is 2,194,445 us to the nearest.
    ingested = ingest(FIXTURES, PATH, kind=KIND, out=tmp_path)
    columns = ("line", "request_class", "cold_start_us")
    assert values(ingested.tables["cold_starts"], *columns) == [
        (1, "made/up-32B", 2_194_445),
        (2, "made/up-32B", 23_250_000),
    ]
    assert rejects(ingested) == [
        (3, SECONDS),  # -1
        (4, SECONDS),  # "2.5"
        (5, "model_name: missing"),
        (6, "model_name: missing"),  # 7
    ]


def test_a_number_that_json_does_not_have_is_a_reject(ingest, tmp_path):
    text = '[{"model_name": "m_1", "loading_time": NaN}, {"model_name": "m_1", "loading_time": 1}]'
    (tmp_path / "log.json").write_text(text)
    ingested = ingest(tmp_path, "log.json", kind=KIND)
    assert [line for line, _ in rejects(ingested)] == [1]


def test_a_document_that_is_no_list_is_refused(ingest, tmp_path):
    (tmp_path / "log.json").write_text('{"model_name": "m_1", "loading_time": 1}')
    with pytest.raises(ValueError, match=r"log\.json = 'dict': must be a list of objects"):
        ingest(tmp_path, "log.json", kind=KIND)


def test_its_look_fits_this_format_alone():
    assert list(fits(FIXTURES / PATH)) == [KIND]


@needs_traces
def test_the_real_random_loads_of_the_h100_are_read_whole(ingest, tmp_path):
    # Six files of 30 loads; the mean of Qwen3-32B is 3.2 s with its own loader, 20.6 s with the
    # other: 11.9 s together.
    path = "serverlessllm-coldstart/h100_2025/random"
    loads = ingest(tmp_path, path, limit=0.0, kind=KIND, root="traces").tables["cold_starts"]
    assert len(loads) == 180
    qwen = loads.filter(loads["request_class"] == "Qwen/Qwen3-32B")["cold_start_us"]
    assert len(qwen) == 60
    assert float(qwen.mean()) / 1e6 == pytest.approx((3.2 + 20.6) / 2, abs=0.1)
