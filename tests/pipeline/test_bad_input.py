"""The catalogue of quirks of logs, and where each is tested: a typed column, a reject, a refusal.

What the readers share is tested here, on the format of BurstGPT, and times on that of Azure.
"""

import gzip
import re
from pathlib import Path

import polars as pl
import pytest
from backports import zstd

from pipeline.settings import IngestSettings, SourceSettings
from pipeline.sources import read_source
from pipeline.store import warehouse_builder

ROOT = Path(__file__).resolve().parents[2]
HEADER = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
CELLS = "row: has not as many cells as the header"
SECONDS = "Timestamp: must be seconds of at least 0"
PROMPT = "Request tokens: must be a whole number of at least 0"
SQL_NAME = '"; DROP TABLE requests; --'

# Each quirk of the catalogue (issue 5; reference/traces.md, 1e and 3): the tests that meet it.
CATALOGUE = {
    "mixed clocks": (
        "readers/test_llmservingsim.py::test_mixed_clocks_and_stages_out_of_order_are_rejects",
        "readers/test_litellm.py::test_other_clocks_words_and_orders_are_rejects",
    ),
    "missing milestones": (
        "readers/test_llmservingsim.py::test_mixed_clocks_and_stages_out_of_order_are_rejects",
        "test_ingest.py::test_a_log_without_batches_decisions_and_service_times_says_absent",
    ),
    "negative durations, and of host-uptime size": (
        "readers/test_vllm_metrics.py::test_uptimes_negative_times_and_milliseconds_are_rejects",
        "test_ingest_rejects.py::test_a_bad_value_makes_one_reject_with_its_line_reason_and_text",
        "test_bad_input.py::test_a_response_of_more_than_a_day_is_a_reject",
    ),
    "lists inside a cell": (
        "test_bad_input.py::test_a_text_is_read_or_its_rows_are_rejected",
        "readers/test_nginx.py::test_the_times_of_several_tries_are_summed",
    ),
    "CRLF, byte order mark, no last newline, blank lines, truncated last line": (
        "test_bad_input.py::test_a_text_is_read_or_its_rows_are_rejected",
        "test_ingest.py::test_lines_are_counted_through_blanks_byte_order_mark_crlf_and_a_missing"
        "_last_newline",
    ),
    "truncated gzip and zstd": ("test_bad_input.py::test_a_packed_file_that_is_cut_is_refused",),
    "a line of 2 GB": (
        "test_long_lines.py::test_a_line_that_is_too_long_is_one_reject",
        "test_long_lines.py::test_a_line_of_2_gib_is_one_reject_in_less_than_a_gib_of_memory",
    ),
    "wrong encoding": (
        "test_bad_input.py::test_a_text_is_read_or_its_rows_are_rejected",
        "test_bad_input.py::test_utf_16_is_refused",
        "readers/test_tgi.py::test_a_line_that_is_no_utf8_keeps_its_bytes_in_the_reject",
    ),
    "fractions of 7 digits and none; naive and zoned times": (
        "test_bad_input.py::test_an_hour_that_the_zone_leaves_out_is_a_reject",
        "test_bad_input.py::test_an_instant_is_read_to_the_microsecond_or_rejected",
        "readers/test_azure_llm.py::test_seven_digits_are_rounded_to_microseconds_from_the"
        "_earliest_arrival",
    ),
    "header variants, other column order, extra columns": (
        "test_bad_input.py::test_a_text_is_read_or_its_rows_are_rejected",
        "test_bad_input.py::test_a_header_without_a_needed_column_is_refused",
        "readers/test_burstgpt.py::test_columns_may_come_in_another_order",
    ),
    "zero tokens as failure and as success": (
        "readers/test_burstgpt.py::test_zero_response_tokens_are_a_failure_that_is_kept",
        "test_bad_input.py::test_zero_tokens_are_a_success_where_the_format_has_no_failures",
    ),
    "duplicate ids": (
        "test_ingest_rejects.py::test_the_id_of_a_rejected_request_may_be_used_again",
        "readers/test_triton_trace.py::test_unfinished_double_and_nameless_records_are_rejects",
    ),
    "unfinished rows": (
        "readers/test_triton_trace.py::test_unfinished_double_and_nameless_records_are_rejects",
        "test_ingest_rejects.py::test_a_bad_value_makes_one_reject_with_its_line_reason_and_text",
    ),
    "a cell that starts with =": (
        "test_bad_input.py::test_a_text_is_read_or_its_rows_are_rejected",
        "readers/test_serving_log_csv.py::test_a_text_cell_stays_as_it_is",
    ),
    "a path that leaves the data folder": (
        "test_bad_input.py::test_a_path_that_leaves_the_root_is_refused",
        "test_ingest_errors.py::test_a_path_that_a_link_leads_out_of_the_project_is_refused",
    ),
    "columns, files and sources named like SQL": (
        "test_bad_input.py::test_a_text_is_read_or_its_rows_are_rejected",
        "test_bad_input.py::test_a_file_may_be_named_like_sql",
        "test_bad_input.py::test_a_source_named_like_sql_is_refused",
    ),
    "numbers as only a database writes them": (
        "test_bad_input.py::test_a_text_is_read_or_its_rows_are_rejected",
    ),
}


def row(second: object = 1, model: str = "GPT-4", prompt: object = 10, output: object = 5) -> str:
    return f"{second},{model},{prompt},{output},15,API log\n"


GOOD = row(2)
# name: (content, [(line, class, prompt tokens) of each row kept], [(line, reason) of each reject])
TEXTS: dict[str, tuple[str | bytes, list[tuple], list[tuple]]] = {
    "crlf": (
        (HEADER + row() + GOOD).replace("\n", "\r\n"),
        [(2, "GPT-4", 10), (3, "GPT-4", 10)],
        [],
    ),
    "mixed line ends": (
        HEADER + "1,a,1,1,2,API log\r\n" + GOOD,
        [(2, "a", 1), (3, "GPT-4", 10)],
        [],
    ),
    "byte order mark": ("\ufeff" + HEADER + GOOD, [(2, "GPT-4", 10)], []),
    "no last newline": (HEADER + GOOD[:-1], [(2, "GPT-4", 10)], []),
    "blank lines": (HEADER + "\n \t\n" + GOOD + "\n\n", [(4, "GPT-4", 10)], []),
    "truncated last line": (HEADER + GOOD + "3,GPT-4,1", [(2, "GPT-4", 10)], [(3, CELLS)]),
    "a cell too many": (HEADER + GOOD + row(model="a,b"), [(2, "GPT-4", 10)], [(3, CELLS)]),
    "quoted comma": (HEADER + row(model='"a,""b"""'), [(2, 'a,"b"', 10)], []),
    "padded cells": (HEADER + row("\t1 ", " a\t", "\t10"), [(2, "a", 10)], []),
    "quoted between tabs": (HEADER + row(model='\t"a"\t'), [(2, "a", 10)], []),
    "stray quote": (HEADER + GOOD + row(model='a"b'), [(2, "GPT-4", 10)], [(3, CELLS)]),
    "lone quote": (HEADER + GOOD + row(model='"'), [(2, "GPT-4", 10)], [(3, CELLS)]),
    "text after a quote": (HEADER + GOOD + row(model='"a"b'), [(2, "GPT-4", 10)], [(3, CELLS)]),
    "list in a cell": (HEADER + GOOD + row(prompt='"[1, 2]"'), [(2, "GPT-4", 10)], [(3, PROMPT)]),
    "underscore": (HEADER + GOOD + row(prompt="1_000"), [(2, "GPT-4", 10)], [(3, PROMPT)]),
    "exponent of a count": (HEADER + GOOD + row(prompt="1e3"), [(2, "GPT-4", 10)], [(3, PROMPT)]),
    "whole number as a float": (HEADER + row(prompt="21073.0"), [(2, "GPT-4", 21073)], []),
    "fraction of a token": (HEADER + GOOD + row(prompt="1.5"), [(2, "GPT-4", 10)], [(3, PROMPT)]),
    "negative count": (HEADER + GOOD + row(prompt=-1), [(2, "GPT-4", 10)], [(3, PROMPT)]),
    "too large a count": (HEADER + GOOD + row(prompt="9" * 20), [(2, "GPT-4", 10)], [(3, PROMPT)]),
    "infinity": (HEADER + GOOD + row("inf"), [(2, "GPT-4", 10)], [(3, SECONDS)]),
    "not a number": (HEADER + GOOD + row("NaN"), [(2, "GPT-4", 10)], [(3, SECONDS)]),
    "negative time": (HEADER + GOOD + row(-1), [(2, "GPT-4", 10)], [(3, SECONDS)]),
    "formula as a time": (HEADER + GOOD + row("=1+1"), [(2, "GPT-4", 10)], [(3, SECONDS)]),
    "formula as a text": (HEADER + row(model="=cmd|' /C x'!A1"), [(2, "=cmd|' /C x'!A1", 10)], []),
    "latin-1": ((HEADER + row(model="caf\xe9")).encode("latin-1"), [(2, "caf\\xe9", 10)], []),
    "control bytes": (HEADER + row(model="a\x00b\x1a"), [(2, "a\\x00b\\x1a", 10)], []),
    "columns like SQL": (
        '"""; DROP TABLE requests; --",select,' + HEADER + "0,1," + GOOD,
        [(2, "GPT-4", 10)],
        [],
    ),
    "other order": (
        "Response tokens,Model,Timestamp,line,raw,Request tokens\n5,GPT-4,2,x,y,10\n",
        [(2, "GPT-4", 10)],
        [],
    ),
}


@pytest.fixture
def read(ingest, tmp_path):
    """Takes one file with this content through ingest."""

    def ingested(content: str | bytes, name: str = "log.csv", kind: str = "burstgpt", **source):
        content = content.encode() if isinstance(content, str) else content
        (tmp_path / name).write_bytes(content)
        return ingest(tmp_path, name, kind=kind, **source)

    return ingested


def rejects(ingested) -> list[tuple[int, str]]:
    return ingested.tables["rejects"].select("line", "reason").rows()


def test_the_catalogue_names_tests_that_exist() -> None:
    for tests in CATALOGUE.values():
        for test in tests:
            file, name = test.split("::")
            source = (ROOT / "tests/pipeline" / file).read_text()
            assert re.search(rf"^def {name}\(", source, re.MULTILINE), test


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_read_or_its_rows_are_rejected(name, read) -> None:
    content, kept, rejected = TEXTS[name]
    ingested = read(content)
    columns = ("line", "request_class", "prompt_tokens")
    assert ingested.tables["requests"].sort("line").select(columns).rows() == kept
    assert rejects(ingested) == rejected


@pytest.mark.parametrize(
    ("stamp", "arrival_us"),
    [
        ("2024-05-10 00:00:01", 1_000_000),
        ("2024-05-10T00:00:01.1234565", 1_123_457),  # to the nearest, halves up
        ("2024-05-10 00:00:01,5Z", 1_500_000),
        ("2024-05-10 05:30:01+05:30", 1_000_000),
        ("2024-05-09 17:00:01-0700", 1_000_000),
        ("2024-05-10 23:59:01+23:59", 60_000_000 - 59_000_000),
        ("2024-05-10 00:00:01+24:00", None),
        ("2024-05-10 00:00:01+99:99", None),
        ("2024-05-10 00:00:01+05:60", None),
        ("2024-05-10 00:00:60", None),
        ("2024-02-30 00:00:01", None),
        ("2024-05-10", None),
        ("1715299201", None),
    ],
)
def test_an_instant_is_read_to_the_microsecond_or_rejected(stamp, arrival_us, read) -> None:
    first = "2024-05-10 00:00:00+00:00,1,1\n"
    cell = f'"{stamp}"' if "," in stamp else stamp
    found = read(f"TIMESTAMP,ContextTokens,GeneratedTokens\n{first}{cell},1,1\n", kind="azure_llm")
    arrivals = found.tables["requests"].filter(pl.col("line") == 3)["arrival_us"].to_list()
    assert arrivals == ([] if arrival_us is None else [arrival_us])
    assert rejects(found) == ([(3, "TIMESTAMP: not a date and time")] if not arrivals else [])


def test_an_hour_that_the_zone_leaves_out_is_a_reject(read) -> None:
    lines = "".join(f"2024-03-10 0{clock},1,1\n" for clock in ("1:59:59", "2:30:00", "3:00:00"))
    found = read(
        f"TIMESTAMP,ContextTokens,GeneratedTokens\n{lines}",
        kind="azure_llm",
        zone="America/New_York",
    )
    assert found.tables["requests"]["arrival_us"].to_list() == [0, 1_000_000]
    assert rejects(found) == [(3, "TIMESTAMP: not a date and time")]


def test_zero_tokens_are_a_success_where_the_format_has_no_failures(read) -> None:
    found = read(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00,7,0\n", kind="azure_llm"
    )
    assert found.tables["requests"].select("status", "output_tokens").rows() == [("completed", 0)]


def test_a_response_of_more_than_a_day_is_a_reject(make_log, ingest, tmp_path) -> None:
    log = make_log(20)
    log.requests[4]["departure_us"] = log.requests[4]["arrival_us"] + 86_400_000_001
    log.write(tmp_path / "log")
    reason = "departure_us: longer after arrival_us than ingest.max_response_s"
    assert ingest(tmp_path, "log").rejects("requests") == [(5, reason)]


def test_a_header_without_a_needed_column_is_refused(read) -> None:
    with pytest.raises(ValueError, match=r"header = .*must name Timestamp"):
        read(HEADER.replace("Timestamp", "timestamp") + GOOD)
    with pytest.raises(ValueError, match="no column twice"):
        read(HEADER.replace("Total tokens", "Model") + GOOD)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_refused(encoding, read) -> None:
    with pytest.raises(ValueError, match=r"UTF-16 text|must name Timestamp"):
        read((HEADER + GOOD).encode(encoding))


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".zst", zstd.compress)])
def test_a_packed_file_that_is_cut_is_refused(suffix, pack, read) -> None:
    lines = "".join(row(second, prompt=second * 7919 % 4001) for second in range(2000))
    packed = pack((HEADER + lines).encode())
    assert len(read(packed, f"log.csv{suffix}").tables["requests"]) == 2000
    for share in (0.0005, 0.5, 0.999):
        with pytest.raises(ValueError, match=r"log\.csv.*not a whole"):
            read(packed[: int(share * len(packed))], f"log.csv{suffix}")


@pytest.mark.parametrize("path", ["../log.csv", "logs/../../log.csv", "/etc/passwd", "C:/log.csv"])
def test_a_path_that_leaves_the_root_is_refused(path) -> None:
    with pytest.raises(ValueError, match=r"path = .*must (be relative|stay inside)"):
        SourceSettings("burstgpt", path)


def test_a_file_may_be_named_like_sql(read) -> None:
    name = "a'); DROP TABLE rejected; --.csv"
    found = read(HEADER + GOOD + row(-1), name)
    assert found.tables["requests"]["line"].to_list() == [2]
    assert found.tables["rejects"].select("file", "line").rows() == [(name, 3)]


@pytest.mark.parametrize("name", [SQL_NAME, "a'b", "select *", "", "../log"])
def test_a_source_named_like_sql_is_refused(name, tmp_path) -> None:
    (tmp_path / "log.csv").write_text(HEADER + GOOD)
    settings = SourceSettings("burstgpt", "log.csv")
    with (
        pytest.raises(ValueError, match="source = "),
        warehouse_builder(tmp_path / "data") as builder,
    ):
        read_source(builder, name, settings, tmp_path, IngestSettings())
