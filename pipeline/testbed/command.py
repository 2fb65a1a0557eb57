"""The command line of the testbed."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from pipeline.testbed.description import card_text, system_record
from pipeline.testbed.models import cache_folder
from pipeline.testbed.recorder import check_target, write_serving_log
from pipeline.testbed.session import Settings, record_session

PLAIN_INTERVAL_S = 30.0  # between progress lines where there is no terminal


def _parameter(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r}: must be NAME=VALUE")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value  # a word, such as on_busy=skip


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.testbed",
        description="Serve real models under a bursty load and record a serving log.",
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the log")
    parser.add_argument("--replace", action="store_true", help="replace the log in --out")
    parser.add_argument("--duration-s", type=float, default=600.0, help="length of the load")
    parser.add_argument("--policy", required=True, help="a rule's name, such as batch_timeout")
    parser.add_argument(
        "--parameter",
        type=_parameter,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the rule; may be repeated",
    )
    parser.add_argument("--epsilon", type=float, default=0.1, help="share of random actions")
    parser.add_argument("--load", type=float, default=0.65, help="mean offered load")
    parser.add_argument("--burst", type=float, default=0.6, help="swing of the load, 0 to 1")
    parser.add_argument("--fast-share", type=float, default=0.7, help="share of fast requests")
    parser.add_argument("--seed", type=int, default=7)
    return parser


def _plain_progress(duration_s: float, console: Console) -> Callable[[float], None]:
    due_s = 0.0

    def show(clock_s: float) -> None:
        nonlocal due_s
        if clock_s >= due_s:
            console.print(f"{clock_s:.0f} of {duration_s:g} s")
            due_s = clock_s + PLAIN_INTERVAL_S

    return show


def _settings(arguments: argparse.Namespace) -> Settings:
    return Settings(
        policy=arguments.policy,
        parameters=dict(arguments.parameter),
        epsilon=arguments.epsilon,
        duration_s=arguments.duration_s,
        load=arguments.load,
        burst=arguments.burst,
        fast_share=arguments.fast_share,
        seed=arguments.seed,
    )


def _record(arguments: argparse.Namespace, console: Console) -> None:
    settings = _settings(arguments)
    check_target(arguments.out, arguments.replace)
    models, duration_s = cache_folder(settings.seed), settings.duration_s
    if console.is_terminal:
        # Without its refresh thread, which would take the interpreter lock from the gateway.
        columns = TextColumn("serving"), BarColumn(), TimeRemainingColumn()
        with Progress(*columns, console=console, auto_refresh=False) as progress:
            task = progress.add_task("serving", total=duration_s)

            def show(clock_s: float) -> None:
                progress.update(task, completed=min(clock_s, duration_s), refresh=True)

            session = record_session(settings, models, console.print, show)
    else:
        show_plain = _plain_progress(duration_s, console)
        session = record_session(settings, models, console.print, show_plain)
    system = system_record(settings, session)
    card = card_text(system, settings)
    write_serving_log(arguments.out, session.recording, system, card, arguments.replace)
    console.print(f"recorded {arguments.out}: {json.dumps(system['measured'])}", soft_wrap=True)


def main(words: Sequence[str] | None = None) -> int:
    """The exit status: 0 recorded, 1 for an error told in one line, 130 if interrupted."""
    arguments = _parser().parse_args(words)
    console = Console(highlight=False)
    try:
        _record(arguments, console)
    except KeyboardInterrupt:
        print("interrupted: nothing was written", file=sys.stderr)
        return 130
    except (ValueError, RuntimeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0
