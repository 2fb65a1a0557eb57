"""The league on a page: which columns there is room for, and the chart."""

import pytest

from pipeline.arena.chart import edge_of, league_chart
from pipeline.arena.entrants import Kind
from pipeline.arena.table import (
    WIDTH,
    league_table,
    number,
    page_width,
    parameter_lines,
    plain_lines,
    print_league,
)
from tests.unit.league_results import FIGURES, league, result


def test_the_table_fits_and_what_is_least_needed_stands_in_a_second_one() -> None:
    long = result("shortest_queue", 123456.0, Kind.BASELINE)
    long = long._replace(entrant=long.entrant._replace(name="a" * 60))
    dear = FIGURES._replace(bill_per_hour=7.5, energy_j_per_s=1e6, replica_hours_per_hour=12.0)
    found = league(result("fifo", 10.0), long._replace(figures=dear), result("c_mu", 12.0))
    heads, rows, further_heads, further_rows = league_table(found)
    lines = plain_lines(heads, rows)
    assert max(len(line) for line in lines) <= WIDTH
    assert {"policy", "cost/s", "more than the first", "shed %"} <= set(heads)
    assert further_heads == ["policy", "goodput/s", "replica-h/h", "bill/h", "J/s"]
    assert [row[0] for row in further_rows] == [row[0] for row in rows]
    assert further_rows[2][3] == "7.500"
    assert league_table(found, 200).further_heads == []
    # What the objective weighs stays, and what it does not goes in its place.
    weighed = found._replace(weighed=("bill", "energy_j"))
    heads_weighed, rows_weighed, further_weighed, _ = league_table(weighed)
    assert {"bill/h", "J/s"} <= set(heads_weighed)
    assert "replica-h/h" in further_weighed
    assert max(len(line) for line in plain_lines(heads_weighed, rows_weighed)) <= WIDTH
    assert [row[0] for row in rows] == ["fifo", "c_mu", "a" * 33 + "…"]
    assert rows[0][heads.index("more than the first")] == "none"
    assert rows[0][heads.index("SLO % fast/slow")] == "100.0/66.7"
    assert parameter_lines(found)[1:3] == [
        "  fifo: batch size 4; 5 settings tried",
        "  c_mu: batch size 4; 5 settings tried",
    ]


def test_what_is_the_same_for_all_has_no_column() -> None:
    heads, _, further, _ = league_table(league(result("fifo", 10.0), result("c_mu", 12.0)))
    assert not {"replica-h/h", "bill/h", "J/s"} & {*heads, *further}
    paid = result("c_mu", 12.0)._replace(figures=FIGURES._replace(bill_per_hour=9.0))
    heads, rows, *_ = league_table(league(result("fifo", 10.0), paid))
    assert [row[heads.index("bill/h")] for row in rows] == ["10.08", "9.000"]


def test_the_terms_that_the_objective_weighs_are_told() -> None:
    assert league(result("fifo", 10.0)).weighed == ("response_s.fast", "response_s.slow")


def test_a_wider_terminal_is_used_and_a_pipe_has_120_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for columns, width in (("80", 120), ("160", 160)):
        monkeypatch.setenv("COLUMNS", columns)
        assert page_width() == width


def test_what_has_no_room_is_printed_below(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    dear = result("a" * 40, 123456.0)._replace(figures=FIGURES._replace(bill_per_hour=7.5))
    print_league(league(result("fifo", 10.0), dear))
    lines = capsys.readouterr().out.splitlines()
    below = lines.index("Further figures")
    assert "bill/h" in lines[below + 1]
    assert lines[below + 3].split()[-1] == "7.500"


def test_numbers_have_four_digits() -> None:
    values = (0.0, 0.0123456, 1.23456, 1234.56, 123456.0, -1.5, float("nan"))
    told = ["0", "0.01235", "1.235", "1,235", "123,456", "\u22121.500", "\u2013"]
    assert [number(value) for value in values] == told
    assert number(1.5, signed=True) == "+1.500"


def test_one_far_policy_does_not_press_the_others_into_a_line() -> None:
    assert edge_of([0.0, 1.0, 2.0, 3.0, 900.0]) == 4 * 3.0
    assert edge_of([0.0, 1.0, 2.0]) == 2.0
    assert edge_of([0.0, 0.0]) == 1.0
    far = league(*(result("fifo", cost) for cost in (10.0, 11.0, 12.0, 13.0, 900.0)))
    spec = str(league_chart(far))
    assert "+890.0 ▶" in spec
    assert "'told': '▶'" not in spec
    assert "▶" not in str(league_chart(league(result("fifo", 10.0), result("c_mu", 11.0))))


def test_an_interval_that_runs_out_of_the_picture_ends_in_a_mark() -> None:
    # The axis goes to 4 times 2; +-30 of its own in 40 episodes is an interval of +-9.6.
    costs = [result("fifo", cost) for cost in (10.0, 11.0, 12.0, 900.0)]
    costs[2] = result("c_mu", 12.0, own=60.0)
    spec = str(league_chart(league(*costs)))
    assert "'told': '▶'" in spec
    assert "cost/s above the first (95 % interval, paired)" in spec
