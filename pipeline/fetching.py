"""Downloads of public traces: resumed, checked, and told how to do by hand.

Nothing here runs unless the fetch stage is called by its name. A file that is there is never
replaced, and nothing is unpacked.
"""

import http.client
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from pipeline.progress import progress
from pipeline.settings import SourceSettings
from pipeline.store import file_digest
from simulator.checks import check

FOLDER = Path("data", "raw")  # of the project, which git ignores; nothing is fetched elsewhere
TIMEOUT_S = 60.0  # without a byte
_BLOCK_BYTES = 1 << 20

Advance = Callable[[int], None]  # is told how many bytes have come


class Wanted(NamedTuple):
    """A file that a source needs, and how it is known to be the right one."""

    key: str  # its configuration key, for messages
    url: str
    bytes: int | None  # None: not known
    sha256: str | None  # None: not known
    path: Path
    shown: str  # the path as messages name it
    license: str | None

    @property
    def facts(self) -> str:
        """What is needed to get the file by hand."""
        size = "size not known" if self.bytes is None else f"{self.bytes:,} bytes"
        digest = "SHA-256 not known" if self.sha256 is None else f"SHA-256 {self.sha256}"
        return f"{self.url} ({size}, {digest}, license {self.license or 'not stated'})"

    def by_hand(self) -> str:
        """What a user without network does."""
        return f"download {self.facts} elsewhere and put it at {self.shown}"


class Fetched(NamedTuple):
    """What became of a file."""

    wanted: Wanted
    sha256: str
    resumed_at: int  # bytes that an earlier call had left
    was_there: bool


def fetch_source(name: str, source: SourceSettings, project: Path) -> Iterator[str]:
    """Fetches what the source needs, and says what became of each file, in words."""
    for wanted in wanted_files(name, source, project):
        if wanted.path.exists():
            fetch_file(wanted)
            yield f"{wanted.shown}: there already, checked"
            continue
        yield f"{wanted.shown}: from {wanted.facts}"
        with progress(wanted.shown, wanted.bytes or 0) as advance:
            fetched = fetch_file(wanted, advance)
        at = f", resumed after {fetched.resumed_at:,} bytes" if fetched.resumed_at else ""
        known = "as expected" if wanted.sha256 else "which could not be checked"
        yield f"{wanted.shown}: fetched{at}, SHA-256 {fetched.sha256}, {known}"
    if source.fetch and not _is_there(source, _root(name, source, project) / source.path):
        yield f"{source.path}: unpack {', '.join(source.fetch)} yourself so that it is there"


def wanted_files(name: str, source: SourceSettings, project: Path) -> list[Wanted]:
    """The files of the source's `fetch` section; [] where it has none, or what it reads is there.

    They go to the folder of the source's path. Raises ValueError where that is in the project but
    not below data/raw.
    """
    if not source.fetch:
        return []
    root = _root(name, source, project)
    path = root / source.path
    if Path(source.path).name not in source.fetch and _is_there(source, path):
        return []  # unpacked by hand
    folder = path if path.is_dir() or not path.suffix else path.parent
    top = root / FOLDER if source.root == "project" else root
    inside = folder.resolve().is_relative_to(top.resolve()) and folder.resolve() != top.resolve()
    rule = "a source that is fetched must lie in a folder below " + (
        FOLDER.as_posix() if source.root == "project" else "TRACES_DIR"
    )
    check(inside, f"sources.{name}.path", source.path, rule)
    prefix = "" if source.root == "project" else "$TRACES_DIR/"
    return [
        Wanted(
            key=f"sources.{name}.fetch.{file}",
            url=of_file.url,
            bytes=of_file.bytes,
            sha256=of_file.sha256,
            path=folder / file,
            shown=f"{prefix}{folder.relative_to(root).as_posix()}/{file}",
            license=source.license,
        )
        for file, of_file in source.fetch.items()
    ]


def _root(name: str, source: SourceSettings, project: Path) -> Path:
    if source.root == "project":
        return project
    folder = os.environ.get("TRACES_DIR", "")
    check(bool(folder), "TRACES_DIR", folder, f"must name the folder that sources.{name} lies in")
    return Path(folder)


def _is_there(source: SourceSettings, path: Path) -> bool:
    """Whether what the source reads is there: a file, or a folder with more than archives."""
    if not path.is_dir():
        return path.exists()
    fetched = {*source.fetch, *(_partial_name(file) for file in source.fetch)}
    return any(file.name not in fetched for file in path.iterdir())


def _partial_name(file: str) -> str:
    return f"{file}.partial"


def fetch_file(wanted: Wanted, advance: Advance = lambda amount: None) -> Fetched:
    """The file is at its path, whole and right; a download that broke off before goes on.

    Raises ValueError where the file at its path or the one that came is not the one that is wanted,
    and, with what to do by hand, where the server cannot be reached or breaks off.
    """
    if wanted.path.exists():
        digest = _checked(wanted, wanted.path, "it is left as it is; move it away to fetch it")
        return Fetched(wanted, digest, 0, True)
    wanted.path.parent.mkdir(parents=True, exist_ok=True)
    partial = wanted.path.with_name(_partial_name(wanted.path.name))
    resumed_at = _resume_at(wanted, partial)
    _check_space(wanted, resumed_at)
    if wanted.bytes is None or resumed_at < wanted.bytes:
        try:
            resumed_at = _download(wanted, partial, resumed_at, advance)
        except HTTPError as error:
            said = f"the server says {error.code} {error.reason}"
            raise ValueError(f"{wanted.key}: {said}; {wanted.by_hand()}") from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise ValueError(
                f"{wanted.key}: not fetched ({reason}); call again to go on, or {wanted.by_hand()}"
            ) from None
    try:
        digest = _checked(wanted, partial, "what came was thrown away")
    except ValueError:
        partial.unlink()
        raise
    os.replace(partial, wanted.path)
    return Fetched(wanted, digest, resumed_at, False)


def _resume_at(wanted: Wanted, partial: Path) -> int:
    """The bytes of an earlier call that count; none where it could not be told that they fit."""
    size = partial.stat().st_size if partial.is_file() else 0
    if wanted.sha256 is None or (wanted.bytes is not None and size > wanted.bytes):
        return 0
    return size


def _check_space(wanted: Wanted, resumed_at: int) -> None:
    needed = (wanted.bytes or 0) - resumed_at
    free = shutil.disk_usage(wanted.path.parent).free
    check(needed <= free, wanted.key, f"{needed:,} bytes", f"only {free:,} are free on the disk")


def _download(wanted: Wanted, partial: Path, resumed_at: int, advance: Advance) -> int:
    """Appends what the server sends to `partial`; returns where that began.

    Raises OSError where the connection ends early, ValueError where the server has another size.
    """
    headers = {"User-Agent": "batchwright", "Accept-Encoding": "identity"}
    if resumed_at:
        headers["Range"] = f"bytes={resumed_at}-"
    try:
        response = urlopen(Request(wanted.url, headers=headers), timeout=TIMEOUT_S)
    except HTTPError as error:
        if error.code != 416 or not resumed_at:  # the range: the server's file ends before it
            raise
        return _download(wanted, partial, 0, advance)
    with response:
        secure = response.url.startswith("https://") or not wanted.url.startswith("https://")
        check(secure, wanted.key, response.url, "the server led away from https")
        if response.status != 206 or not _begins_at(response, resumed_at):
            resumed_at = 0
            rule = "the server sends neither the file nor the part of it that was asked for"
            check(response.status == 200, wanted.key, response.status, rule)
        length = response.headers.get("Content-Length") or ""
        total = resumed_at + int(length) if length.isdecimal() else None
        _check_size(wanted, total)
        with partial.open("ab" if resumed_at else "wb") as target:
            advance(resumed_at)
            _copy(wanted, response, target, resumed_at, advance)
        size = partial.stat().st_size
    if total is not None and size < total:
        raise OSError(f"the connection ended after {size:,} of {total:,} bytes")
    return resumed_at


def _begins_at(response: http.client.HTTPResponse, at: int) -> bool:
    return (response.headers.get("Content-Range") or "").startswith(f"bytes {at}-")


def _check_size(wanted: Wanted, total: int | None) -> None:
    if total is not None and wanted.bytes is not None:
        rule = f"the server's file has {total:,} bytes: it is another one"
        check(total == wanted.bytes, f"{wanted.key}.bytes", wanted.bytes, rule)


def _copy(
    wanted: Wanted, source: IO[bytes], target: IO[bytes], done: int, advance: Advance
) -> None:
    while block := source.read(_BLOCK_BYTES):
        done += len(block)
        rule = f"the server sends more than that: {wanted.url} is another file"
        check(wanted.bytes is None or done <= wanted.bytes, wanted.key, wanted.bytes, rule)
        target.write(block)
        advance(len(block))


def _checked(wanted: Wanted, path: Path, end: str) -> str:
    """The SHA-256 of a file; ValueError where it or the size is not what is wanted."""
    size = path.stat().st_size
    right = wanted.bytes is None or size == wanted.bytes
    rule = f"{wanted.shown} has {size:,} bytes; {end}"
    check(right, f"{wanted.key}.bytes", wanted.bytes, rule)
    digest = file_digest(path)
    rule = f"{wanted.shown} has {digest}; {end}"
    check(wanted.sha256 in (None, digest), f"{wanted.key}.sha256", wanted.sha256, rule)
    return digest
