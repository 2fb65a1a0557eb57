"""The reader of the Azure LLM inference traces."""

import csv
import gzip
import os
from pathlib import Path

import pytest

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
TRACES = os.environ.get("TRACES_DIR")
needs_traces = pytest.mark.skipif(
    not TRACES, reason="TRACES_DIR is not set: it must name the folder of the public traces"
)


@pytest.fixture
def read_trace(ingest, tmp_path):
    """Takes a trace with these rows through ingest."""

    def read(*rows: str, header: str = HEADER, newline: str = "\r\n", **source):
        (tmp_path / "trace.csv").write_bytes(newline.join([header, *rows]).encode())
        settings = {"kind": "azure_llm", "license": "CC-BY-4.0", **source}
        return ingest(tmp_path, "trace.csv", **settings)

    return read


@pytest.fixture(scope="module")
def real_traces(ingest, tmp_path_factory):
    """The tables of the two real traces of 2023."""
    return {
        name: ingest(
            tmp_path_factory.mktemp(name),
            f"azure-llm-2023/AzureLLMInferenceTrace_{name}.csv",
            limit=0.0,
            kind="azure_llm",
            root="traces",
            license="CC-BY-4.0",
            request_class=name,
        ).tables
        for name in ("code", "conv")
    }


@needs_traces
@pytest.mark.parametrize(("name", "rows"), [("code", 8_819), ("conv", 19_366)])
def test_every_row_of_a_real_trace_is_kept_and_equals_the_copy_that_vidur_ships(
    name, rows, real_traces
) -> None:
    # Vidur's copy has seconds from the first request: an independent reading of the same rows.
    requests = real_traces[name]["requests"]
    with gzip.open(Path(str(TRACES)) / "vidur" / f"splitwise_{name}.csv.gz", "rt") as file:
        copy = list(csv.DictReader(file))
    assert len(requests) == rows
    assert requests["line"].to_list() == list(range(2, rows + 2))
    assert requests["arrival_us"].to_list() == [round(float(r["arrived_at"]) * 1e6) for r in copy]
    assert requests["prompt_tokens"].to_list() == [int(r["num_prefill_tokens"]) for r in copy]
    assert requests["output_tokens"].to_list() == [int(r["num_decode_tokens"]) for r in copy]


@needs_traces
def test_a_real_trace_keeps_its_origin_class_and_lack_of_service_times(real_traces) -> None:
    source = real_traces["code"]["sources"].row(0, named=True)
    assert source["origin"] == "2023-11-16T18:17:03.979960+00:00"
    assert (source["rows_read"], source["rows_kept"], source["rows_rejected"]) == (8_819, 8_819, 0)
    assert set(real_traces["code"]["requests"]["request_class"]) == {"code"}
    assert set(real_traces["code"]["requests"]["service_origin"]) == {"absent"}


def test_fractions_of_seven_digits_are_rounded_to_the_nearest_microsecond_halves_up(
    read_trace,
) -> None:
    requests = read_trace(
        "2023-11-16 18:17:03.0000000,1,1",
        "2023-11-16 18:17:03.0000014,1,1",
        "2023-11-16 18:17:03.0000015,1,1",
        "2023-11-16 18:17:03.9999999,1,1",
        "2023-11-16 18:17:04.000000499,1,1",
    ).tables["requests"]
    assert requests["arrival_us"].to_list() == [0, 1, 2, 1_000_000, 1_000_000]


def test_the_form_of_2024_with_offsets_and_optional_fractions_is_read(read_trace) -> None:
    tables = read_trace(
        "2024-05-10 00:00:00.009930+00:00,2162,5",
        "2024-05-10 00:00:01+00:00,2399,6",
        "2024-05-10 02:00:02+02:00,76,15",
        "2024-05-09T19:30:03.5-0430,76,15",
        "2024-05-10T00:00:04Z,76,15",
        newline="\n",
    ).tables
    assert tables["requests"]["arrival_us"].to_list() == [
        0,
        990_070,
        1_990_070,
        3_490_070,
        3_990_070,
    ]
    assert tables["sources"]["origin"].item() == "2024-05-10T00:00:00.009930+00:00"


def test_a_time_without_an_offset_is_in_the_zone_of_the_source(read_trace) -> None:
    tables = read_trace("2023-11-16 08:00:00,1,1", zone="Asia/Shanghai").tables
    assert tables["sources"]["origin"].item() == "2023-11-16T00:00:00+00:00"
    assert tables["sources"]["zone"].item() == "Asia/Shanghai"


def test_columns_are_found_by_name_among_others(read_trace) -> None:
    requests = read_trace(
        '"7","x","2023-11-16 18:17:03","11"',
        header="\ufeffGeneratedTokens,Model,TIMESTAMP,ContextTokens",
    ).tables["requests"]
    assert requests["prompt_tokens"].item() == 11
    assert requests["output_tokens"].item() == 7


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("2023-11-16 18:17:05,1", "row: has not as many cells as the header"),
        ("2023-11-16 18:17:05,1,2,3", "row: has not as many cells as the header"),
        ("2023-02-30 18:17:05,1,2", "TIMESTAMP: not a date and time"),
        ("yesterday,1,2", "TIMESTAMP: not a date and time"),
        ("2023-11-16 18:17:03,1,2", "TIMESTAMP: below one before it"),
        ("2023-11-16 18:17:05,-1,2", "ContextTokens: must be a whole number of at least 0"),
        ("2023-11-16 18:17:05,1.5,2", "ContextTokens: must be a whole number of at least 0"),
        ("2023-11-16 18:17:05,1,NaN", "GeneratedTokens: must be a whole number of at least 0"),
        ("2023-11-16 18:17:05,1,", "GeneratedTokens: must be a whole number of at least 0"),
    ],
)
def test_a_bad_row_is_rejected_with_its_line_and_reason(row, reason, read_trace) -> None:
    good = "2023-11-16 18:17:0{},1,2"
    ingested = read_trace(good.format(4), "", row, good.format(6))
    assert ingested.tables["rejects"].select("line", "reason", "raw").rows() == [(4, reason, row)]
    assert ingested.tables["requests"]["line"].to_list() == [2, 5]
    assert ingested.tables["requests"]["arrival_us"].to_list() == [0, 2_000_000]


def test_a_header_without_a_column_is_one_error(read_trace) -> None:
    with pytest.raises(ValueError, match=r"trace\.csv: header = 'TIMESTAMP,Tokens'"):
        read_trace("2023-11-16 18:17:03,1", header="TIMESTAMP,Tokens")


def test_a_header_alone_is_one_error(read_trace) -> None:
    with pytest.raises(ValueError, match="has a header only"):
        read_trace()


def test_an_empty_file_is_one_error(ingest, tmp_path) -> None:
    (tmp_path / "trace.csv").write_bytes(b"")
    with pytest.raises(ValueError, match="the header must name"):
        ingest(tmp_path, "trace.csv", kind="azure_llm", license="CC-BY-4.0")


def test_a_file_with_another_digest_is_refused(read_trace) -> None:
    with pytest.raises(ValueError, match=r"sources\.log\.sha256 says 0000"):
        read_trace("2023-11-16 18:17:03,1,1", sha256="0" * 64)


def test_an_unknown_zone_is_refused(read_trace) -> None:
    with pytest.raises(ValueError, match=r"sources\.log\.zone = 'Mars': must be an IANA time zone"):
        read_trace("2023-11-16 18:17:03,1,1", zone="Mars")
