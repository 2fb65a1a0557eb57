"""Kind `auto`: which reader fits a file or folder, and what is said where none or several do."""

import gzip
import json
import os
import pickle
import sqlite3
import tarfile
import zipfile

import polars as pl
import pytest
import yaml
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from pipeline.settings import SourceSettings
from pipeline.sources.command import Answer, main, show
from pipeline.sources.detect import detect, fits
from pipeline.sources.reader import readers

BURSTGPT = (
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,472,18,490,Conversation log\n"
)
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2026-01-01 00:00:00.0000000,10,5\n"
KEY = "sources.log.path"


def refusal(path) -> str:
    with pytest.raises(ValueError, match=r"^sources\.log\.path = ") as refused:
        detect(path, KEY)
    return str(refused.value)


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [("", bytes), (".gz", gzip.compress), (".zst", zstd.compress)],
    ids=["plain", "gz", "zst"],
)
def test_a_packed_file_is_known_as_the_plain_one(tmp_path, ingest, suffix, pack):
    (tmp_path / f"log.csv{suffix}").write_bytes(pack(BURSTGPT.encode()))
    log = ingest(tmp_path, f"log.csv{suffix}", kind="auto")
    assert log.tables["sources"]["kind"].item() == "burstgpt"
    assert log.tables["requests"].height == 1


@pytest.mark.parametrize(
    "text",
    ["\ufeff" + BURSTGPT, BURSTGPT.replace("\n", "\r\n"), BURSTGPT.rstrip(), "\n\n" + BURSTGPT],
    ids=["bom", "crlf", "no last newline", "blank lines first"],
)
def test_the_look_sees_through_the_marks_of_an_editor(tmp_path, text):
    (tmp_path / "log.csv").write_text(text, encoding="utf-8", newline="")
    assert list(fits(tmp_path / "log.csv")) == ["burstgpt"]


def test_a_folder_that_is_a_log_as_a_whole_is_not_looked_into(tmp_path, make_log):
    folder = make_log().write(tmp_path / "log")
    (folder / "a.csv").write_text(BURSTGPT)
    assert fits(folder) == {"serving_log": "a folder with system.json and requests"}


def test_a_folder_of_files_is_what_its_files_are(tmp_path, ingest):
    (tmp_path / "log").mkdir()
    for name in ("a.csv", "b.csv"):
        (tmp_path / "log" / name).write_text(BURSTGPT)
    (tmp_path / "log" / ".hidden").write_text(AZURE)
    assert list(fits(tmp_path / "log")) == ["burstgpt"]
    assert fits(tmp_path / "log")["burstgpt"].startswith("a.csv: its header names Timestamp")
    log = ingest(tmp_path, "log", kind="auto")
    assert log.tables["requests"].height == 2


def test_of_a_folder_with_two_kinds_of_files_one_must_be_chosen(tmp_path):
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "a.csv").write_text(BURSTGPT)
    (tmp_path / "log" / "b.csv").write_text(AZURE)
    said = refusal(tmp_path / "log")
    assert "several readers fit, set the kind: burstgpt (a.csv: its header names" in said
    assert "; azure_llm (b.csv: its header names" in said


def test_an_unknown_text_is_shown_and_the_kinds_are_named(tmp_path):
    (tmp_path / "log.tsv").write_text("\x1b[31mwhen\tmodel\n1\tx\n")
    said = refusal(tmp_path / "log.tsv")
    assert "text (.tsv) whose first line is '\\x1b[31mwhen\\tmodel'" in said
    assert said.endswith(f"kinds are {', '.join(readers())}")


def test_only_the_beginning_of_a_long_line_is_shown(tmp_path):
    (tmp_path / "log").write_text("x" * 200_000)
    said = refusal(tmp_path / "log")
    assert f"text (no suffix) whose first line is '{'x' * 80}' .." in said
    assert "x" * 81 not in said


def _zip(path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("log.csv", BURSTGPT)


def _tar(path) -> None:
    with tarfile.open(path, "w") as archive:
        archive.add(__file__, "log.py")


def _sqlite(path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE log (a)")
    connection.close()


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda path: path.write_bytes(b""), "an empty file"),
        (lambda path: path.write_bytes(b"\n \n\r\n"), "blank lines only"),
        (lambda path: path.write_bytes(b"\x00\x01\x02log"), "it begins with 00 01 02 6c 6f 67"),
        (lambda path: pl.DataFrame({"a": [1]}).write_parquet(path), "a Parquet file"),
        (lambda path: path.write_bytes(gzip.compress(BURSTGPT.encode())), "does not end in .gz"),
        (lambda path: path.write_bytes(zstd.compress(BURSTGPT.encode())), "does not end in .zst"),
        (lambda path: path.write_bytes(pickle.dumps({"a": 1})), "a Python pickle perhaps"),
        (lambda path: path.write_text(BURSTGPT, encoding="utf-16"), "UTF-16 text"),
        (_zip, "a zip archive; unpack it first"),
        (_tar, "a tar archive; unpack it first"),
        (_sqlite, "an SQLite database"),
    ],
    ids=["empty", "blank", "bytes", "parquet", "gz", "zst", "pickle", "utf16", "zip", "tar", "db"],
)
def test_what_is_no_text_is_named(tmp_path, write, said):
    write(tmp_path / "log.bin")
    assert said in refusal(tmp_path / "log.bin")


def test_a_truncated_packed_file_is_known_as_far_as_it_goes_or_named(tmp_path):
    packed = gzip.compress(BURSTGPT.encode())
    (tmp_path / "log.csv.gz").write_bytes(packed[: len(packed) // 2])
    assert "not whole" in refusal(tmp_path / "log.csv.gz")


def test_an_empty_folder_is_named(tmp_path):
    assert "a folder without files" in refusal(tmp_path)


def test_a_pipe_is_refused_without_waiting_for_it(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="neither a file nor a folder"):
        fits(tmp_path / "pipe")


@settings(deadline=None, max_examples=60)
@given(
    st.one_of(
        st.binary(max_size=300),
        st.text(max_size=200).map(lambda text: text.encode()),
        st.text(alphabet='[]{}",:0ant\n', max_size=200).map(str.encode),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner),
        ).map(lambda value: json.dumps(value).encode()),
    )
)
def test_no_file_makes_a_reader_stumble(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("fuzz") / "log"
    path.write_bytes(content)
    assert set(fits(path)) <= set(readers())


@pytest.mark.parametrize("content", ["[" * 60_000, '{"a":' * 10_000, '"' * 60_000, "," * 60_000])
def test_a_file_that_is_deep_or_wide_is_unknown(tmp_path, content):
    (tmp_path / "log.json").write_text(content)
    assert fits(tmp_path / "log.json") == {}


def test_the_command_says_what_fits_and_how_to_configure_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TRACES_DIR", str(tmp_path))
    (tmp_path / "My Log-2.csv").write_text(BURSTGPT)
    assert main([str(tmp_path / "My Log-2.csv")]) == 0
    found, _, *told = capsys.readouterr().out.splitlines()
    assert found.split("\t")[1:] == [
        "burstgpt",
        "its header names Timestamp, Model, Request tokens, Response tokens",
    ]
    at = next(line for line in told if "conf/source/" in line)
    assert at.startswith("# Put into conf/source/my_log_2.yaml; burstgpt.yaml there")
    assert told[0].startswith("# BurstGPT")  # what the format is and cannot tell
    read = yaml.safe_load("\n".join(told))
    assert read["kind"] == "burstgpt"
    assert (read["root"], read["path"]) == ("traces", "My Log-2.csv")
    SourceSettings(**read)


def test_the_command_says_where_a_file_from_elsewhere_must_go(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("TRACES_DIR", raising=False)
    (tmp_path / "2026.csv").write_text(AZURE)
    assert main([str(tmp_path / "2026.csv")]) == 0
    said = capsys.readouterr().out
    assert "conf/source/log_2026.yaml" in said
    assert "path: data/raw/2026.csv" in said
    assert "# It is outside of the project: copy it to data/raw/2026.csv" in said


def test_of_many_paths_the_command_says_the_kinds_alone(tmp_path, capsys):
    for name in "abcd":
        (tmp_path / name).write_text(AZURE)
    assert main([str(tmp_path / name) for name in "abc"]) == 0
    assert capsys.readouterr().out.count("kind: azure_llm") == 3
    assert main([str(tmp_path / name) for name in "abcd"]) == 0
    assert "kind: " not in capsys.readouterr().out


def test_the_command_goes_on_after_a_bad_path_and_fails_at_the_end(tmp_path, capsys):
    (tmp_path / "log.csv").write_text(BURSTGPT)
    (tmp_path / "stats.csv").write_text("Type,Name,Request Count,Median Response Time\n")
    (tmp_path / "bad.csv").write_text("a,b\n")
    names = ["missing.csv", "bad.csv", "log.csv"]
    assert main([str(tmp_path / name) for name in names]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[1] for line in lines[:3]] == ["-", "-", "burstgpt"]
    assert "No such file or directory" in lines[0]
    assert any(line.startswith("kinds: aggregate, ") for line in lines)
    assert main([str(tmp_path / "stats.csv")]) == 1
    assert "statistics of Locust" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["[red]log[bold].csv", "log\x1b[2J.csv", "=cmd.csv"])
def test_a_name_is_printed_and_never_interpreted(tmp_path, capsys, name):
    (tmp_path / name).write_text(BURSTGPT)
    assert main([str(tmp_path / name)]) == 0
    said = capsys.readouterr().out
    assert name.replace("\x1b", "\\x1b") in said
    assert "\x1b" not in said


def test_on_a_terminal_a_table_is_drawn_with_the_text_as_it_is(tmp_path, capsys):
    show(
        [Answer(tmp_path / "[red]a", None, "text whose first line is '[bold]'")],
        Console(force_terminal=True, width=300, color_system=None),
    )
    said = capsys.readouterr().out
    assert "[red]a" in said
    assert "'[bold]'" in said
