"""The quality report of logs that went through ingest, as numbers, words and a picture."""

import json

import pytest

from pipeline.files import plain
from pipeline.quality import quality_in_words, source_quality
from pipeline.reporting.quality_chart import drawn_quality, quality_chart
from tests.pipeline.readers.json_logs import TRACES, needs_traces
from tests.pipeline.readers.text_logs import FIXTURES

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"


@pytest.fixture
def coarse(ingest, tmp_path):
    """Takes rows (second of the arrival, tokens) through ingest as an Azure LLM trace."""

    def take(rows, **source):
        lines = [f"2026-01-01 00:{at // 60:02d}:{at % 60:02d},{tokens},2" for at, tokens in rows]
        (tmp_path / "trace.csv").write_text("\n".join([HEADER, *lines]) + "\n")
        source = {"kind": "azure_llm", "license": "CC-BY-4.0", **source}
        ingest(tmp_path, "trace.csv", out=tmp_path / "data", **source)
        return source_quality(tmp_path / "data", "log")

    return take


def test_the_report_counts_what_the_file_has(coarse) -> None:
    rows = [(0, 1), (2, 1), (1, 1), (2, 1), (2, -1), (3, "x"), *((10 + k, k) for k in range(20))]
    quality = coarse(rows)
    assert (quality.rows_read, quality.rows_kept, quality.rows_rejected) == (26, 24, 2)
    reason = "ContextTokens: must be a whole number of at least 0"
    assert [tuple(reject) for reject in quality.rejects] == [("trace.csv", reason, 2, 6)]
    order = quality.order
    assert (order.inversions, order.ties, order.duplicates) == (1, 1, 1)
    assert order.step_us == 1_000_000
    assert order.gaps.longest[0] == (2_000_000, 8_000_000)
    assert quality.survivors == (
        "failures are absent (none in 24 requests, as far as the format tells): response times and "
        "counts are of survivors"
    )


def test_what_de_quantization_did_is_told_before_and_after(coarse) -> None:
    rows = [(k // 4, k) for k in range(80)]  # 20 instants of four requests each
    quality = coarse(rows, dequantize_s=1.0)
    assert quality.spread == (1.0, 20, 60)
    assert quality.order.ties < 3
    assert any("60 ties before" in line for line in quality_in_words(quality))
    assert coarse(rows).spread is None
    assert coarse(rows).order.ties == 60


def test_a_serving_log_calibrates_what_it_states(make_log, ingest, tmp_path) -> None:
    make_log().write(tmp_path / "log")
    ingest(tmp_path, "log", out=tmp_path / "data")
    quality = source_quality(tmp_path / "data", "log")
    assert quality.content.status == {"completed": 36, "shed": 4}
    assert quality.survivors == "failures are in the log: 4 shed (10.00%)"
    assert quality.content.facts["replica"].coverage == 1.0  # named by its batches
    assert quality.content.replicas == 2
    possible = {name for name, use in quality.uses.items() if use.possible}
    assert possible == {
        *("arrivals", "class_mix", "sizes", "service_of_one", "routing_policy", "fidelity_check")
    }
    assert quality.uses["service_by_batch"].reason == "all 36 batches are of 1"


def test_the_report_is_plain_json_and_words_name_what_cannot_be_calibrated(coarse) -> None:
    quality = coarse([(k, 1) for k in range(30)])
    assert json.loads(json.dumps(plain(quality), allow_nan=False))["order"]["rows"] == 30
    lines = quality_in_words(quality)
    assert lines[0] == "log (azure_llm, license CC-BY-4.0)"
    assert "  cannot calibrate fidelity check: no response time is stated to compare with" in lines


def test_the_picture_shows_rate_gaps_and_rejects(coarse) -> None:
    rows = [*((k, 1) for k in range(50)), *((400 + k, 1) for k in range(50)), (460, -1)]
    quality = coarse(rows)
    drawn = json.dumps(quality_chart([quality]))
    assert "arrivals (requests/s)" in drawn
    assert "rejected rows" in drawn
    assert '"mark": {"type": "rect"' in drawn  # the gap from 49 s to 400 s
    assert drawn_quality([quality]).startswith(b"\x89PNG")


def test_a_source_without_requests_has_a_report_too(ingest, tmp_path) -> None:
    ingest(FIXTURES, "nexus_profile/made_up_net.txt", kind="nexus_profile", out=tmp_path / "data")
    quality = source_quality(tmp_path / "data", "log")
    assert quality.order is None
    assert quality.uses["service_by_batch"].possible
    assert not quality.uses["arrivals"].possible
    assert drawn_quality([quality]).startswith(b"\x89PNG")


@needs_traces
def test_the_azure_trace_of_2023_is_in_order_and_tells_no_service_time(
    ingest, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("TRACES_DIR", TRACES)
    path = "azure-llm-2023/AzureLLMInferenceTrace_code.csv"
    ingest(tmp_path, path, kind="azure_llm", root="traces", out=tmp_path / "data")
    quality = source_quality(tmp_path / "data", "log")
    assert quality.rows_kept == 8819
    assert quality.order.step_us == 1
    assert quality.order.inversions == 0
    assert not quality.uses["service_of_one"].possible
