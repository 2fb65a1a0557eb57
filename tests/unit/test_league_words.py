"""What a league says: of baselines, and of the room for a learner."""

import re
from collections.abc import Sequence

import pytest

from pipeline.arena.entrants import Kind
from pipeline.arena.league import Result
from tests.unit.league_results import (
    league,
    result,
)


def test_a_baseline_that_beats_every_policy_is_named_before_the_best_of_them() -> None:
    # Costs in proportion have no width: 10 is 25 % more than 8 and 20 % less than 12.5.
    fifo = result("fifo", 10.0)
    cheap, dear = result("static_cap", 8.0, Kind.BASELINE), result("sita", 12.5, Kind.LOGGED)
    found = league(
        fifo,
        cheap._replace(cost_per_s=fifo.cost_per_s * 0.8),
        dear._replace(cost_per_s=fifo.cost_per_s * 1.25),
    )
    assert found.sentences[0] == (
        "No policy beats the baseline static_cap. Best heuristic: fifo. "
        "It costs 25.0% (25.0% to 25.0%) more than static_cap (baseline); "
        "20.0% (20.0% to 20.0%) less than sita (logged)."
    )


def test_a_dearer_policy_has_the_smaller_bound_first() -> None:
    said = league(result("fifo", 10.0, own=1.0), result("static_cap", 8.0, Kind.BASELINE))
    low, high = (float(part) for part in re.findall(r"([\d.]+)% to ([\d.]+)%", str(said))[0])
    assert low < 25.0 < high


def test_baselines_that_cost_the_same_or_nothing_are_said_to() -> None:
    same = league(result("fifo", 10.0), result("static_cap", 10.0, Kind.BASELINE))
    told = "Best heuristic: fifo. It costs as much as static_cap (baseline)."
    assert same.sentences[0] == told
    free = league(
        result("fifo", 1.0), result("static_cap", 0.0, Kind.BASELINE, noise=0.0)
    ).sentences[0]
    assert free.endswith(
        "With static_cap (baseline) there is nothing to compare: the baseline costs nothing."
    )


@pytest.mark.parametrize(
    ("rivals", "sentence"),
    [
        (
            [result("smdp_rvi", 9.8, Kind.YARDSTICK)],
            "smdp_rvi (yardstick) is the optimum: a learner can save 2.0% (",
        ),
        (
            [result("smdp_rvi", 10.4, Kind.YARDSTICK)],
            "smdp_rvi (yardstick) costs more than triton: it is not the optimum of this scenario.",
        ),
        (
            [result("c_mu", 10.2), result("batch_timeout", 10.1)],
            "c_mu is within 3% of triton: a learner has less than 3% left, as far as these",
        ),
        (
            [result("fifo", 9.0), result("c_mu", 9.1, Kind.BASELINE)],
            "c_mu (baseline) is within 3% of fifo: a learner has less than 3% left, as far as",
        ),
        ([result("c_mu", 9.0)], "c_mu is the best itself; of 1 other heuristic none gains on it."),
        (
            [result("c_mu", 9.0, Kind.BASELINE), result("sita", 9.5)],
            "c_mu (baseline) is the best itself; of 2 other heuristics none gains on it.",
        ),
        (
            [result("c_mu", 9.9, Kind.BASELINE), result("static_cap", 9.8, Kind.BASELINE)],
            "c_mu (baseline) is within 3% of static_cap (baseline): a learner has less than 3%",
        ),
        ([], "triton met no other heuristic, so this says nothing of what is left for a learner."),
        (
            [result("sita", 10.4)],
            "No optimum is known here and no simple rule took part: a learner may have room.",
        ),
        (
            [result("c_mu", 10.4)],
            "No optimum is known here and no simple rule is near triton: a learner may have room.",
        ),
    ],
)
def test_what_is_left_for_a_learner_is_said(rivals: Sequence[Result], sentence: str) -> None:
    assert league(result("triton", 10.0), *rivals).sentences[1].startswith(sentence)


def test_an_optimum_that_leaves_less_than_three_percent_says_so() -> None:
    said = league(result("triton", 10.0), result("smdp_rvi", 9.9, Kind.YARDSTICK)).sentences[1]
    assert said.endswith("of triton's cost, less than 3%.")
