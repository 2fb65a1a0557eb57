"""conf/source: every file of it is a source, and what can be fetched is described well enough."""

import pytest
import yaml

from pipeline.fetching import wanted_files
from pipeline.settings import FetchSettings, SourceSettings
from pipeline.sources.reader import find_reader
from pipeline.stage import CONF

SOURCES = sorted(path.stem for path in (CONF / "source").glob("*.yaml"))


def settings_of_file(name: str) -> SourceSettings:
    raw = yaml.safe_load((CONF / "source" / f"{name}.yaml").read_text(encoding="utf-8"))
    files = {file: FetchSettings(**facts) for file, facts in raw.pop("fetch", {}).items()}
    return SourceSettings(**raw, fetch=files)


FETCHED = [name for name in SOURCES if settings_of_file(name).fetch]
# Whose size or digest no one whom we can quote has stated.
UNKNOWN = {"azure_functions_2019", "azure_llm_2024_code", "azure_llm_2025", "mooncake_toolagent"}


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_has_only_options_that_its_reader_knows(name):
    source = settings_of_file(name)
    assert set(source.options) <= set(find_reader(source.kind).options)


@pytest.mark.parametrize("name", FETCHED)
def test_what_is_fetched_goes_to_a_folder_of_its_own_and_has_a_license(name, tmp_path, monkeypatch):
    monkeypatch.setenv("TRACES_DIR", str(tmp_path))
    source = settings_of_file(name)
    wanted = wanted_files(name, source, tmp_path)
    assert [one.path.name for one in wanted] == list(source.fetch)
    assert source.license is not None
    for one in wanted:
        assert one.url.endswith(f"/{one.path.name}")


@pytest.mark.parametrize("name", FETCHED)
def test_size_and_digest_are_stated_where_they_are_known(name):
    stated = [
        of.bytes is not None and of.sha256 is not None
        for of in settings_of_file(name).fetch.values()
    ]
    assert all(stated) == (name not in UNKNOWN)


def test_no_two_sources_fetch_different_files_to_one_place(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACES_DIR", str(tmp_path / "traces"))
    urls: dict[str, str] = {}
    for name in FETCHED:
        for one in wanted_files(name, settings_of_file(name), tmp_path):
            assert urls.setdefault(one.shown, one.url) == one.url
