"""The league as a table of 120 columns, or as many as a wider terminal has."""

import math
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from pipeline.arena.entrants import NAME_LETTERS
from pipeline.arena.league import League
from pipeline.arena.standing import Standing
from pipeline.reporting.text import ABSENT, MINUS, parameters_in_words, plural

WIDTH = 120
_GAP = 2
# Heads, fields of `Figures` and reward terms of what is spent, the first to be dropped last.
_SPENT = (
    ("replica-h/h", "replica_hours_per_hour", "replica_seconds"),
    ("bill/h", "bill_per_hour", "bill"),
    ("J/s", "energy_j_per_s", "energy_j"),
)


class _Column(NamedTuple):
    """One figure of each standing. What does not fit goes below, the highest `spare` first."""

    head: str
    cell: Callable[[Standing], str]
    spare: int = 0  # 0: stays


class LeagueTable(NamedTuple):
    """The columns that there is room for, and the others by policy: no heads where none is left."""

    heads: list[str]
    rows: list[list[str]]
    further_heads: list[str]
    further_rows: list[list[str]]


def page_width() -> int:
    """`WIDTH`, or what a wider terminal has; COLUMNS says so for a pipe."""
    return max(WIDTH, shutil.get_terminal_size().columns)


def print_league(league: League) -> None:
    """The table, the parameters of its policies, and what follows."""
    title = f"{league.scenario}: {plural(league.episodes, 'test episode')}, budget {league.budget}"
    table = league_table(league, page_width())
    print_table(title, table.heads, table.rows)
    if table.further_heads:
        print_table("Further figures", table.further_heads, table.further_rows)
    for line in parameter_lines(league):
        print(line)
    for names in league.alike:
        told = f"The same in every test episode: {', '.join(names)}."
        print(textwrap.fill(told, WIDTH))
    for sentence in league.sentences:
        print(textwrap.fill(sentence, WIDTH))


def league_table(league: League, width: int = WIDTH) -> LeagueTable:
    """The table in `width` columns of text; what does not fit stands in a second one."""
    columns = _columns(league)
    cells = [[column.cell(standing) for standing in league.standings] for column in columns]
    widths = [
        max(len(text) for text in (column.head, *texts))
        for column, texts in zip(columns, cells, strict=True)
    ]
    shown = list(range(len(columns)))
    while sum(widths[place] + _GAP for place in shown) - _GAP > width - 2:
        spare = max(shown, key=lambda place: columns[place].spare)
        if columns[spare].spare == 0:
            break
        shown.remove(spare)
    further = [place for place in range(len(columns)) if place not in shown]
    further = [0, *further] if further else []
    first, second = ([columns[place].head for place in part] for part in (shown, further))
    first_rows, second_rows = (
        [list(row) for row in zip(*(cells[place] for place in part), strict=True)]
        for part in (shown, further)
    )
    return LeagueTable(first, first_rows, second, second_rows)


def _columns(league: League) -> list[_Column]:
    """What the objective weighs stays; of the rest what was spent goes first."""
    several = len(league.class_names) > 1
    slo_head = f"SLO % {'/'.join(league.class_names)}" if several else "SLO %"
    if len(slo_head) > 18:
        slo_head = "SLO % by class"
    columns = [
        _Column("policy", lambda standing: _cut(standing.name)),
        _Column("cost/s", lambda standing: number(standing.cost_per_s.mean)),
        _Column("more than the first", _difference),
        _Column("goodput/s", lambda standing: number(standing.figures.goodput_rps), 5),
        _Column(slo_head, lambda standing: _slo(standing, league.class_names), 1),
        _Column("P50/P95/P99 ms", _response, 4),
        _Column("shed %", lambda standing: f"{100 * standing.figures.shed_fraction:.1f}", 3),
    ]
    figures = [standing.figures for standing in league.standings]
    if any(math.isfinite(each.ttft_p95_s) for each in figures):
        columns.append(_Column("P95 TTFT/TPOT ms", _tokens, 2))
    for place, (head, field, term) in enumerate(_SPENT):
        values = [getattr(each, field) for each in figures]
        if _differ(values):  # what is the same for all tells nothing
            spare = 0 if term in league.weighed else 6 + place
            columns.append(_Column(head, _figure(field), spare))
    return columns


def _figure(field: str) -> Callable[[Standing], str]:
    return lambda standing: number(getattr(standing.figures, field))


def _differ(values: Sequence[float]) -> bool:
    return max(values) - min(values) > 0.01 * max(abs(value) for value in values)


def parameter_lines(league: League) -> list[str]:
    """The parameters of every policy and the settings that were tried to find them."""
    lines = []
    for standing in league.standings:
        if not (standing.parameters or standing.evaluations):
            continue
        told = f"  {standing.name}: {parameters_in_words(standing.parameters)}"
        if standing.evaluations:
            told += f"; {plural(standing.evaluations, 'setting')} tried"
        lines += textwrap.wrap(told, WIDTH, subsequent_indent="    ")
    return ["Parameters", *lines] if lines else []


def print_table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table whose first column is left-aligned, with a title above it."""
    wide_enough = shutil.get_terminal_size().columns >= WIDTH
    if not (sys.stdout.isatty() and wide_enough):
        print(title)
        print("\n".join(plain_lines(heads, rows)))
        return
    table = Table(title=title, title_justify="left", box=None, padding=(0, _GAP, 0, 0))
    for place, head in enumerate(heads):
        table.add_column(head, justify="right" if place else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    Console(markup=False).print(table)


def plain_lines(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The table as lines of text, aligned, without spaces at their ends."""
    table = [list(heads), *(list(row) for row in rows)]
    widths = [max(len(row[place]) for row in table) for place in range(len(heads))]
    lines = []
    for row in table:
        cells = [row[0].ljust(widths[0])]
        cells += [text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)]
        lines.append((" " * _GAP).join(cells).rstrip())
    return lines


def number(value: float, signed: bool = False) -> str:
    """Four digits: `0.01234`, `1.234`, `1,234`, `12,346`."""
    if not math.isfinite(value):
        return ABSENT
    if value == 0:
        return "0"
    decimals = min(max(3 - math.floor(math.log10(abs(value))), 0), 6)
    sign = "+" if signed else ""
    return f"{value:{sign},.{decimals}f}".replace("-", MINUS)


def _difference(standing: Standing) -> str:
    """`+1.234 (+1.010 to +1.456)`; that of a tie is not surely above 0."""
    mean, low, high = standing.difference
    if mean == low == high == 0.0:
        return "none"
    told = f"{number(mean, True)} ({number(low, True)} to {number(high, True)})"
    return f"tie {told}" if standing.tie else told


def _slo(standing: Standing, class_names: Sequence[str]) -> str:
    by_class = standing.figures.by_class
    return "/".join(f"{100 * by_class[name]['slo_attainment']:.1f}" for name in class_names)


def _response(standing: Standing) -> str:
    figures = standing.figures
    return _ms(figures.response_p50_s, figures.response_p95_s, figures.response_p99_s)


def _tokens(standing: Standing) -> str:
    return _ms(standing.figures.ttft_p95_s, standing.figures.tpot_p95_s)


def _ms(*values_s: float) -> str:
    decimals = 0 if max(values_s) >= 0.1 else 1
    told = (f"{1e3 * value:.{decimals}f}" if math.isfinite(value) else ABSENT for value in values_s)
    return "/".join(told)


def _cut(name: str) -> str:
    return name if len(name) <= NAME_LETTERS else f"{name[: NAME_LETTERS - 1]}…"
