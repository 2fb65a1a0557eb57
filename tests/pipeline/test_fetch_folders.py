"""Where the files of a source are fetched to, and where they never are."""

import pytest

from pipeline.fetching import fetch_source, wanted_files
from pipeline.settings import FetchSettings, SourceSettings

URL = "https://example.org/trace.csv"


def source(path="data/raw/log/trace.csv", **settings) -> SourceSettings:
    section = {"trace.csv": FetchSettings(URL)}
    return SourceSettings(**{"kind": "burstgpt", "path": path, "fetch": section, **settings})


@pytest.mark.parametrize(
    ("path", "at"),
    [
        ("data/raw/log/trace.csv", "data/raw/log/trace.csv"),
        ("data/raw/log", "data/raw/log/trace.csv"),  # a folder
        ("data/raw/log/unpacked.txt", "data/raw/log/trace.csv"),
    ],
)
def test_a_file_goes_to_the_folder_where_its_source_lies(tmp_path, path, at):
    (one,) = wanted_files("log", source(path), tmp_path)
    assert (one.path, one.shown) == (tmp_path / at, at)


@pytest.mark.parametrize(
    "path", ["data/raw/trace.csv", "data/log/trace.csv", "conf/x", "trace.csv"]
)
def test_nothing_of_the_project_but_a_folder_below_data_raw_is_written_to(tmp_path, path):
    with pytest.raises(ValueError, match=r"sources.log.path = .*: a source that is fetched"):
        wanted_files("log", source(path), tmp_path)


def test_a_link_that_leads_out_of_data_raw_is_refused(tmp_path):
    (tmp_path / "data" / "raw").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "data" / "raw" / "log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="a source that is fetched must lie"):
        wanted_files("log", source(), tmp_path)


def test_a_source_below_traces_dir_is_fetched_to_there(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACES_DIR", str(tmp_path))
    (one,) = wanted_files("log", source("burst/trace.csv", root="traces"), tmp_path / "project")
    assert one.path == tmp_path / "burst" / "trace.csv"
    assert one.shown == "$TRACES_DIR/burst/trace.csv"
    monkeypatch.delenv("TRACES_DIR")
    with pytest.raises(ValueError, match="TRACES_DIR"):
        wanted_files("log", source("burst/trace.csv", root="traces"), tmp_path)


def test_what_was_unpacked_by_hand_needs_no_archive(tmp_path):
    unpacked = tmp_path / "data/raw/log/days"
    unpacked.mkdir(parents=True)
    (unpacked / "trace.csv.partial").write_bytes(b"")  # of the archive
    assert len(wanted_files("log", source("data/raw/log/days"), tmp_path)) == 1
    (unpacked / "day.csv").write_bytes(b"")
    assert wanted_files("log", source("data/raw/log/days"), tmp_path) == []


@pytest.mark.parametrize("name", ["../x", "a/b", "/x", ".hidden", "a\\b", "C:x", ""])
def test_a_name_that_is_more_than_a_name_is_refused(name):
    with pytest.raises(ValueError, match="fetch"):
        source(fetch={name: FetchSettings(URL)})


def test_a_source_without_the_section_needs_nothing(tmp_path):
    assert list(fetch_source("log", source("anywhere", fetch={}), tmp_path)) == []
