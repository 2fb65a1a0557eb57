"""Downloads from a server on this machine: resumed, checked, never trusted."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from pipeline import fetching
from pipeline.fetching import Wanted, fetch_file
from pipeline.settings import FetchSettings, SourceSettings
from pipeline.stage import Folders
from pipeline.stages import fetch

CONTENT = bytes(range(256)) * 40  # 10,240 bytes
SHA256 = hashlib.sha256(CONTENT).hexdigest()
URL = "https://example.org/trace.csv"


class Server(BaseHTTPRequestHandler):
    """Sends CONTENT, or what the test tells it to do."""

    ranges, cut_at, status, length, shift = True, None, 200, True, 0
    body = CONTENT
    asked: list[str | None]  # the Range of each request

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.asked.append(asked)
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.ranges else 0
        if start >= len(self.body) and start:
            self.send_error(416)
            return
        self.send_response(206 if start else self.status)
        if start:
            total = len(self.body)
            self.send_header("Content-Range", f"bytes {start + self.shift}-{total - 1}/{total}")
        if self.length:
            self.send_header("Content-Length", str(len(self.body) - start))
        self.end_headers()
        self.wfile.write(self.body[start : self.cut_at])

    def log_message(self, *words) -> None:
        pass


@pytest.fixture
def server(monkeypatch):
    """The handler's class, whose attributes a test may change, with the server's `url`."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    handler = type("Handler", (Server,), {"asked": []})
    running = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=running.serve_forever, args=(0.01,))
    thread.start()
    handler.url = f"http://127.0.0.1:{running.server_port}/trace.csv"
    yield handler
    running.shutdown()
    running.server_close()
    thread.join()


def wanted(server, tmp_path, **facts) -> Wanted:
    given = {"url": server.url, "bytes": len(CONTENT), "sha256": SHA256, **facts}
    return Wanted(
        key="sources.log.fetch.trace.csv",
        path=tmp_path / "raw" / "trace.csv",
        shown="data/raw/log/trace.csv",
        license="CC-BY-4.0",
        **given,
    )


def leave_partial(one: Wanted, content: bytes):
    one.path.parent.mkdir()
    partial = one.path.with_name("trace.csv.partial")
    partial.write_bytes(content)
    return partial


def test_a_file_is_fetched_and_nothing_is_left_beside_it(server, tmp_path):
    one = wanted(server, tmp_path)
    came = []
    fetched = fetch_file(one, came.append)
    assert (fetched.sha256, fetched.resumed_at, fetched.was_there) == (SHA256, 0, False)
    assert one.path.read_bytes() == CONTENT
    assert [file.name for file in one.path.parent.iterdir()] == ["trace.csv"]
    assert sum(came) == len(CONTENT)
    assert server.asked == [None]


def test_a_download_that_broke_off_goes_on_where_it_ended(server, tmp_path):
    one = wanted(server, tmp_path)
    server.cut_at = 4_000
    with pytest.raises(ValueError, match=r"ended after 4,000 of 10,240 bytes.*call again to go on"):
        fetch_file(one)
    server.cut_at = None
    came = []
    assert fetch_file(one, came.append).resumed_at == 4_000
    assert one.path.read_bytes() == CONTENT
    assert server.asked == [None, "bytes=4000-"]
    assert sum(came) == len(CONTENT)


def test_a_server_that_knows_no_ranges_sends_it_all_again(server, tmp_path):
    one = wanted(server, tmp_path)
    leave_partial(one, CONTENT[:100])
    server.ranges = False
    assert fetch_file(one).resumed_at == 0
    assert one.path.read_bytes() == CONTENT


def test_what_was_left_whole_is_not_asked_for_again(server, tmp_path):
    one = wanted(server, tmp_path)
    leave_partial(one, CONTENT)
    fetch_file(one)
    assert one.path.read_bytes() == CONTENT
    assert server.asked == []


def test_what_was_left_too_long_is_fetched_anew(server, tmp_path):
    one = wanted(server, tmp_path)
    leave_partial(one, CONTENT + b"x")
    assert fetch_file(one).resumed_at == 0
    assert one.path.read_bytes() == CONTENT


def test_a_range_behind_the_end_of_the_servers_file_is_fetched_anew(server, tmp_path):
    one = wanted(server, tmp_path, bytes=None)
    leave_partial(one, CONTENT + b"x")
    fetch_file(one)
    assert one.path.read_bytes() == CONTENT
    assert server.asked == ["bytes=10241-", None]


def test_another_part_than_the_one_that_was_asked_for_is_refused(server, tmp_path):
    one = wanted(server, tmp_path)
    partial = leave_partial(one, CONTENT[:100])
    server.shift = 1
    with pytest.raises(ValueError, match="neither the file nor the part"):
        fetch_file(one)
    assert partial.read_bytes() == CONTENT[:100]


def test_without_a_digest_nothing_is_resumed(server, tmp_path):
    # What was left may be of another version of the file, and nothing could tell.
    one = wanted(server, tmp_path, sha256=None)
    leave_partial(one, b"old" * 10)
    assert fetch_file(one).sha256 == SHA256
    assert one.path.read_bytes() == CONTENT


def test_another_file_is_refused_with_both_digests_and_thrown_away(server, tmp_path):
    one = wanted(server, tmp_path, sha256="0" * 64)
    with pytest.raises(
        ValueError, match=f"sha256 = '0{{64}}': data/raw/log/trace.csv has {SHA256}"
    ):
        fetch_file(one)
    assert list(one.path.parent.iterdir()) == []


def test_a_damaged_beginning_is_found_and_the_next_call_starts_anew(server, tmp_path):
    one = wanted(server, tmp_path)
    leave_partial(one, b"x" * 5_000)
    with pytest.raises(ValueError, match="thrown away"):
        fetch_file(one)
    assert fetch_file(one).resumed_at == 0
    assert one.path.read_bytes() == CONTENT


def test_a_file_of_another_size_is_refused_before_it_is_fetched(server, tmp_path):
    one = wanted(server, tmp_path, bytes=10_241)
    with pytest.raises(ValueError, match=r"bytes = 10241: the server's file has 10,240 bytes"):
        fetch_file(one)
    assert list(one.path.parent.iterdir()) == []


@pytest.mark.parametrize(("size", "rule"), [(10_000, "sends more"), (10_300, "has 10,240 bytes")])
def test_a_server_that_does_not_say_the_size_cannot_send_another(server, tmp_path, size, rule):
    server.length = False
    with pytest.raises(ValueError, match=rule):
        fetch_file(wanted(server, tmp_path, bytes=size))


def test_a_file_that_is_there_is_checked_and_never_replaced(server, tmp_path):
    one = wanted(server, tmp_path)
    one.path.parent.mkdir()
    one.path.write_bytes(CONTENT)
    assert fetch_file(one).was_there
    one.path.write_bytes(b"mine")
    with pytest.raises(ValueError, match="has 4 bytes; it is left as it is"):
        fetch_file(one)
    assert one.path.read_bytes() == b"mine"
    assert server.asked == []


def test_without_network_the_message_says_what_to_put_where(server, tmp_path):
    one = wanted(server, tmp_path, url="http://127.0.0.1:9/trace.csv")
    with pytest.raises(ValueError, match="not fetched") as refused:
        fetch_file(one)
    said = str(refused.value)
    for fact in (one.url, "10,240 bytes", SHA256, "CC-BY-4.0", "put it at data/raw/log/trace.csv"):
        assert fact in said


def test_a_dead_link_is_told_with_its_status(server, tmp_path):
    server.status = 404
    with pytest.raises(ValueError, match="the server says 404 Not Found; download http"):
        fetch_file(wanted(server, tmp_path))


def test_a_full_disk_is_found_before_the_download(server, tmp_path):
    with pytest.raises(ValueError, match="are free on the disk"):
        fetch_file(wanted(server, tmp_path, bytes=1 << 60))
    assert server.asked == []


def test_a_server_that_leads_away_from_https_is_refused(server, tmp_path, monkeypatch):
    real = fetching.urlopen
    monkeypatch.setattr(fetching, "urlopen", lambda asked, timeout: real(server.url))
    with pytest.raises(ValueError, match="led away from https"):
        fetch_file(wanted(server, tmp_path, url=URL))


def source(path="data/raw/log/trace.csv", **settings) -> SourceSettings:
    section = {"trace.csv": FetchSettings(URL, len(CONTENT), SHA256)}
    return SourceSettings(**{"kind": "burstgpt", "path": path, "fetch": section, **settings})


def test_the_stage_fetches_the_sources_of_the_run_and_no_other(
    server, tmp_path, monkeypatch, capsys
):
    real = fetching.urlopen
    monkeypatch.setattr(fetching, "urlopen", lambda asked, timeout: real(server.url))
    monkeypatch.setattr(Wanted, "url", server.url)  # the local server has no https
    sources = {
        "log": source(),
        "mine": source("data/raw/mine/log.csv", fetch={}),
        "other": source("data/raw/other/trace.csv"),
        "packed": source("data/raw/packed/trace.txt"),
    }
    run = SimpleNamespace(sources=("log", "mine", "packed"))
    settings = SimpleNamespace(run=run, sources=sources)
    folders = Folders(tmp_path, tmp_path / "data", tmp_path / "out", tmp_path / "reports")
    for _ in range(2):
        fetch.main.__wrapped__(settings, folders)
    assert (tmp_path / "data/raw/log/trace.csv").read_bytes() == CONTENT
    assert not (tmp_path / "data/raw/other").exists()
    said = capsys.readouterr().out
    assert f"data/raw/log/trace.csv: fetched, SHA-256 {SHA256}, as expected" in said
    assert "data/raw/log/trace.csv: there already, checked" in said
    assert "data/raw/packed/trace.txt: unpack trace.csv yourself" in said
    assert len(server.asked) == 2
