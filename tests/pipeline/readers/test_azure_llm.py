"""The Azure LLM traces of 2023, 2024 and 2025."""

import csv
import gzip
from pathlib import Path

import pytest

from pipeline.sources.detect import fits
from tests.pipeline.readers.csv_traces import (
    FIXTURES,
    TRACES,
    check_round_trip,
    needs_traces,
    rejects,
    simulated_trace,
    source,
    values,
)
from tests.pipeline.readers.writers import azure_llm

KIND = "azure_llm"
HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"


@pytest.fixture(scope="module")
def of_2023(ingest, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    return ingest(FIXTURES, "azure_llm/form_of_2023.csv", kind=KIND, out=out)


@pytest.fixture
def read_trace(ingest, tmp_path):
    """Takes a trace with these rows through ingest."""

    def read(*rows: str, header: str = HEADER, **settings):
        (tmp_path / "trace.csv").write_text("\n".join([header, *rows]) + "\n")
        return ingest(tmp_path, "trace.csv", kind=KIND, **settings)

    return read


def test_seven_digits_are_rounded_to_microseconds_from_the_earliest_arrival(of_2023):
    # Line 6 is earliest, at 03.979959. Line 2 is at 03.979960, line 3 at 03.9799605, halves up,
    # line 5 at 04.0319604 -> 04.031960 and line 12 at 06.
    columns = ("line", "arrival_us", "prompt_tokens", "output_tokens", "status")
    assert values(of_2023.tables["requests"], *columns) == [
        (2, 1, 4808, 10, "completed"),
        (3, 2, 110, 27, "completed"),
        (5, 52_001, 3180, 8, "completed"),
        (6, 0, 7, 0, "completed"),
        (12, 2_020_041, 5, 6, "completed"),
    ]
    assert source(of_2023)["origin"] == "2023-11-16T18:17:03.979959+00:00"


def test_rows_that_cannot_be_read_are_rejects_with_the_field(of_2023):
    assert rejects(of_2023) == [
        (7, "TIMESTAMP: not a date and time"),  # 30 February
        (8, "row: has not as many cells as the header"),
        (9, "ContextTokens: must be a whole number of at least 0"),
        (10, "GeneratedTokens: must be a whole number of at least 0"),
        (11, "TIMESTAMP: not a date and time"),  # =1+1
    ]


def test_the_form_of_2024_with_offsets_and_optional_fractions_is_read(ingest, tmp_path):
    tables = ingest(FIXTURES, "azure_llm/form_of_2024.csv", kind=KIND, out=tmp_path).tables
    assert tables["requests"]["arrival_us"].to_list() == [0, 990_070, 1_990_070]
    assert tables["sources"]["origin"].item() == "2024-05-10T00:00:00.009930+00:00"


def test_the_form_of_2025_is_read_and_its_images_are_noted_as_unread(ingest, tmp_path):
    ingested = ingest(FIXTURES, "azure_llm/form_of_2025.csv", kind=KIND, out=tmp_path)
    columns = ("arrival_us", "prompt_tokens", "output_tokens", "size")
    assert values(ingested.tables["requests"], *columns) == [
        (0, 1200, 44, None),
        (31_000, 210, 12, None),
    ]
    assert "NumImages is not read" in source(ingested)["notes"]


def test_instants_in_utc_are_rounded_as_others_are(read_trace):
    # 0.499 us down, 0.5 us up; the third is the second in another zone.
    ingested = read_trace(
        "2024-05-10T00:00:00.000000499Z,1,1",
        "2024-05-10 00:00:00.000001500Z,1,1",
        "2024-05-10 01:00:00.000001500+01:00,1,1",
        "2024-05-10 00:00:59.9999995+00:00,1,1",
        "2024-05-10 00:00:60.5Z,1,1",
    )
    arrivals_us = ingested.tables["requests"]["arrival_us"].to_list()
    assert arrivals_us == [0, 2, 2, 60_000_000]
    assert rejects(ingested) == [(6, "TIMESTAMP: not a date and time")]


def test_a_time_without_an_offset_is_in_the_zone_of_the_source(read_trace):
    ingested = read_trace("2023-11-16 08:00:00,1,1", zone="Asia/Shanghai")
    assert source(ingested)["origin"] == "2023-11-16T00:00:00+00:00"


def test_columns_are_found_by_name_in_any_order_among_others(read_trace):
    ingested = read_trace(
        '"7","=SUM(A1)",x,"2023-11-16 18:17:03","11"',
        header='GeneratedTokens,Model,"drop table requests",TIMESTAMP,ContextTokens',
    )
    columns = ("prompt_tokens", "output_tokens")
    assert values(ingested.tables["requests"], *columns) == [(11, 7)]


def test_a_header_without_a_column_is_one_error(read_trace):
    with pytest.raises(ValueError, match=r"trace\.csv: header = 'TIMESTAMP,Tokens'"):
        read_trace("2023-11-16 18:17:03,1", header="TIMESTAMP,Tokens")


@pytest.mark.parametrize(("text", "message"), [("", "header = ''"), (HEADER, "rows = 0")])
def test_a_file_without_rows_is_one_error(text, message, ingest, tmp_path):
    (tmp_path / "trace.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        ingest(tmp_path, "trace.csv", kind=KIND)


def test_a_file_with_another_digest_is_refused(read_trace):
    with pytest.raises(ValueError, match=r"sources\.log\.sha256 says 0000"):
        read_trace("2023-11-16 18:17:03,1,1", sha256="0" * 64)


def test_the_files_of_a_folder_are_one_trace_whose_lines_do_not_clash(ingest, tmp_path):
    (tmp_path / "trace").mkdir()
    for name, second in (("part_1.csv", 3), ("part_2.csv", 5)):
        rows = f"{HEADER}\n2023-11-16 18:17:0{second},1,1\n"
        (tmp_path / "trace" / name).write_text(rows)
    (tmp_path / "trace" / "LICENSE.md").write_text("not a trace")
    ingested = ingest(tmp_path, "trace", kind=KIND)
    columns = ("file", "line", "arrival_us")
    assert values(ingested.tables["requests"], *columns) == [(0, 2, 0), (1, 2, 2_000_000)]


def test_simulated_requests_come_back_from_this_format(ingest, tmp_path):
    log = simulated_trace(resolution_us=1)
    azure_llm.write(log, tmp_path / "trace.csv")
    ingested = ingest(tmp_path, "trace.csv", limit=0.0, kind=KIND)
    columns = ("arrival_us", "prompt_tokens", "output_tokens")
    origin_us = int(log.arrival_us[0])
    check_round_trip(ingested.tables["requests"], log, columns, origin_us)


def test_its_look_fits_this_format_alone():
    for name in ("form_of_2023.csv", "form_of_2024.csv", "form_of_2025.csv"):
        assert list(fits(FIXTURES / "azure_llm" / name)) == [KIND]


@needs_traces
@pytest.mark.parametrize(("name", "rows"), [("code", 8_819), ("conv", 19_366)])
def test_every_row_of_a_real_trace_is_kept_and_equals_the_copy_that_vidur_ships(
    name, rows, ingest, tmp_path
):
    # Vidur's copy has seconds from the first request: an independent reading of the same rows.
    path = f"azure-llm-2023/AzureLLMInferenceTrace_{name}.csv"
    ingested = ingest(tmp_path, path, limit=0.0, kind=KIND, root="traces", request_class=name)
    with gzip.open(Path(str(TRACES)) / "vidur" / f"splitwise_{name}.csv.gz", "rt") as file:
        copy = list(csv.DictReader(file))
    requests = ingested.tables["requests"].sort("line")
    assert requests["line"].to_list() == list(range(2, rows + 2))
    assert requests["arrival_us"].to_list() == [round(float(r["arrived_at"]) * 1e6) for r in copy]
    assert requests["prompt_tokens"].to_list() == [int(r["num_prefill_tokens"]) for r in copy]
    assert requests["output_tokens"].to_list() == [int(r["num_decode_tokens"]) for r in copy]
    assert set(requests["request_class"]) == {name}
    assert set(requests["service_origin"]) == {"absent"}
    read = ingest(
        tmp_path, f"vidur/splitwise_{name}.csv.gz", limit=0.0, kind="vidur_trace", root="traces"
    ).tables["requests"]
    for column in ("line", "arrival_us", "prompt_tokens", "output_tokens"):
        assert read[column].to_list() == requests[column].to_list(), column
