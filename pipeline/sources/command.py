"""The command line that says of any log which reader fits, and how to configure it."""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml  # type: ignore[import-untyped]
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipeline.sources.detect import ambiguous, look
from pipeline.sources.reader import find_reader, readers

REFUSED = "aggregate"  # the kind of files that hold no request
EXPLAINED = 3  # paths at most whose YAML is shown
PROJECT = Path(__file__).resolve().parents[2]


class Answer(NamedTuple):
    """What is known of a path."""

    path: Path
    kind: str | None  # None where no reader fits, or several
    said: str  # the reason, or what is wrong

    @property
    def readable(self) -> bool:
        """Whether ingest can read it."""
        return self.kind not in (None, REFUSED)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.sources",
        description="Say of files and folders which reader fits and why, and how to configure it.",
    )
    parser.add_argument("paths", type=Path, nargs="+", metavar="PATH", help="a file or folder")
    return parser


def answer(path: Path) -> Answer:
    """Which reader fits a path; whatever is wrong with the path is part of the answer."""
    try:
        looked = look(path)
    except OSError as error:
        return Answer(path, None, error.strerror or type(error).__name__)
    except ValueError as error:
        return Answer(path, None, str(error))
    if len(looked.fits) == 1:
        return Answer(path, *next(iter(looked.fits.items())))
    return Answer(path, None, ambiguous(looked.fits) if looked.fits else looked.seen)


def suggestion(answer: Answer) -> str:
    """What the format can and cannot tell, and the YAML with which the path becomes a source."""
    if answer.kind is None:
        raise RuntimeError(f"{answer.path}: no kind to suggest")
    root, path = _place(answer.path)
    settings: dict[str, Any] = {"kind": answer.kind, "root": root, "path": path}
    settings |= {"license": None, "zone": "UTC", "request_class": None}
    options = find_reader(answer.kind).options
    if options:
        settings["options"] = {key: _plain(value) for key, value in options.items()}
    told = sys.modules[find_reader(answer.kind).read.__module__].__doc__ or ""
    text = "".join(f"# {line}".rstrip() + "\n" for line in told.strip().splitlines())
    text += f"# Put into conf/source/{_source_name(answer.path)}.yaml; "
    text += f"{answer.kind}.yaml there explains the keys.\n"
    if root == "project" and not (PROJECT / path).exists():
        text += f"# It is outside of the project: copy it to {path}\n"
    text += yaml.safe_dump(settings, sort_keys=False, allow_unicode=True, default_flow_style=False)
    return "".join(c if c == "\n" else _printable(c) for c in text)


def _place(path: Path) -> tuple[str, str]:
    """The root and the path below it; outside of both roots, where the file should go."""
    traces = os.environ.get("TRACES_DIR")
    roots = {"project": PROJECT} | ({"traces": Path(traces).resolve()} if traces else {})
    resolved = path.resolve()
    for root, folder in roots.items():
        if resolved.is_relative_to(folder) and resolved != folder:
            return root, resolved.relative_to(folder).as_posix()
    return "project", f"data/raw/{resolved.name}"


def _source_name(path: Path) -> str:
    """A name that a source may have, made of that of the file."""
    stem = path.resolve().name.lower().split(".")[0]
    name = re.sub("[^a-z0-9]+", "_", stem).strip("_")[:60]
    return name if name[:1].isalpha() else f"log_{name}".rstrip("_")


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def _table(answers: Sequence[Answer]) -> Table:
    # Text, not str: a path or a line of a log may hold what rich takes for markup.
    table = Table("path", "kind", "why")
    for path, kind, said in answers:
        style = "" if kind not in (None, REFUSED) else "red"
        cells = (str(path), kind or "-", said)
        table.add_row(*(Text(_printable(cell), style=style, overflow="fold") for cell in cells))
    return table


def _printable(text: str) -> str:
    """The text without what would move the cursor of a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def show(answers: Sequence[Answer], console: Console) -> None:
    """Prints a table, or lines where there is no terminal, and for a few paths their YAML."""
    if console.is_terminal:
        console.print(_table(answers))
    else:
        for path, kind, said in answers:
            print(_printable(str(path)), kind or "-", _printable(said), sep="\t")
    if any(kind is None for _, kind, _ in answers):
        console.print(Text(f"\nkinds: {', '.join(readers())}"), soft_wrap=True)
    readable = [one for one in answers if one.readable]
    if len(readable) > EXPLAINED:
        print("\nGive fewer paths to see how to configure them.")
        return
    for one in readable:
        print(f"\n{suggestion(one)}", end="")


def main(words: Sequence[str] | None = None) -> int:
    """The exit status: 0 all readable, 1 if one is not, 130 if interrupted."""
    arguments = _parser().parse_args(words)
    try:
        answers = [answer(path) for path in arguments.paths]
        show(answers, Console(highlight=False))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `| head`
        sys.stdout = None
        return 1
    return 0 if all(one.readable for one in answers) else 1
