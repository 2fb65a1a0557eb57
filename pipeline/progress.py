"""Progress of long work: a bar on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_SECONDS_BETWEEN_LINES = 10.0


class Advance(Protocol):
    """Is told how much more has been done, with a word about it."""

    def __call__(self, amount: int, note: str = "") -> None: ...


@contextmanager
def progress(title: str, total: int) -> Iterator[Advance]:
    """What long work tells of its progress: `advance(amount, note)`.

    Elsewhere than on a terminal a line is printed every ten seconds, and one at the end.
    """
    with _bar(title, total) if sys.stdout.isatty() else _lines(title, total) as advance:
        yield advance


@contextmanager
def _bar(title: str, total: int) -> Iterator[Advance]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console()) as bar:
        task = bar.add_task(title, total=total, note="")

        def advance(amount: int, note: str = "") -> None:
            bar.update(task, advance=amount, note=note)

        yield advance


@contextmanager
def _lines(title: str, total: int) -> Iterator[Advance]:
    done, started_at = 0, time.monotonic()
    spoken_at = started_at

    def advance(amount: int, note: str = "") -> None:
        nonlocal done, spoken_at
        done += amount
        if time.monotonic() - spoken_at >= _SECONDS_BETWEEN_LINES:
            spoken_at = time.monotonic()
            print(f"{title}: {done:,} of {total:,} {note}".rstrip(), flush=True)

    yield advance
    print(f"{title}: {done:,} done in {time.monotonic() - started_at:.1f} s", flush=True)
