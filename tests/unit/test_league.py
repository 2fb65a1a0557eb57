"""The league: ranks, ties, shares and figures by hand, and who takes part."""

import numpy as np
import pytest

from pipeline.arena.compete import cost_per_s
from pipeline.arena.entrants import Asked, Entrant, Kind, entrants_of, refusals
from pipeline.arena.table import parameter_lines
from pipeline.validation.evaluation import play
from simulator.policies.registry import build_policy, fitting_rules
from simulator.policies.space import RuleParameters
from simulator.reward import weighted_reward
from tests.unit.league_results import EPISODES, FIGURES, SCENARIO, arena, league, result, trial


def test_the_least_cost_is_first_and_a_policy_that_is_not_surely_worse_ties() -> None:
    # On shared noise 10.01 is surely worse than 10; with luck of +-0.5 of its own it is not
    # (standard error 0.5 / sqrt(40) = 0.08), and 10.5 is.
    found = league(
        result("batch_timeout", 10.5, own=1.0),
        result("static_cap", 10.01),
        result("triton", 10.02, own=1.0),
        result("fifo", 10.0),
    )
    names = [standing.name for standing in found.standings]
    assert names == ["fifo", "static_cap", "triton", "batch_timeout"]
    assert [standing.tie for standing in found.standings] == [True, False, True, False]
    assert found.standings[0].difference == (0.0, 0.0, 0.0)
    third = found.standings[2]
    assert third.difference.mean == pytest.approx(0.02)
    assert third.difference.low == pytest.approx(0.02 - 2.02 * 0.08, abs=0.03)
    assert third.difference.high == pytest.approx(0.02 + 2.02 * 0.08, abs=0.03)
    assert third.cost_per_s.mean == pytest.approx(10.02)
    assert third.validation_reward_per_s == pytest.approx(-10.02)
    assert third.evaluations == 5


def test_costs_that_differ_by_rounding_alone_are_equal() -> None:
    first = result("fifo", 10.0)
    dust = np.resize([1e-15, -2e-15, 0.0], EPISODES)
    found = league(first, result("c_mu", 0.0)._replace(cost_per_s=first.cost_per_s + dust))
    assert [standing.difference for standing in found.standings] == [(0.0, 0.0, 0.0)] * 2
    assert all(standing.tie for standing in found.standings)


def test_those_that_cost_the_same_in_every_episode_are_named_together() -> None:
    dust = result("static_cap", 4.0 + 1e-12, Kind.BASELINE)
    told = league(result("fifo", 4.0), result("c_mu", 4.0, own=0.1), dust, result("sita", 5.0))
    assert told.alike == [["fifo", "static_cap (baseline)"]]
    assert league(result("fifo", 4.0), result("sita", 5.0)).alike == []


def test_margins_are_shares_of_the_cost_of_each_baseline() -> None:
    # Of 20 the best saves (20 - 15) / 20, of 16 one sixteenth; yardsticks are no heuristics.
    found = league(
        result("fifo", 15.0),
        result("smdp_rvi", 12.0, Kind.YARDSTICK),
        result("static_cap", 20.0, Kind.BASELINE),
        result("round_robin", 16.0, Kind.BASELINE),
    )
    assert found.best == "fifo"
    assert [margin.of for margin in found.margins] == [
        "round_robin (baseline)",
        "static_cap (baseline)",
    ]
    assert [margin.share.mean for margin in found.margins] == pytest.approx([1 / 16, 0.25])
    assert all(margin.share.low < margin.share.mean < margin.share.high for margin in found.margins)
    assert found.headroom is not None
    assert found.headroom.of == "smdp_rvi (yardstick)"
    assert found.headroom.share.mean == pytest.approx(3 / 15)
    assert found.sentences[0].startswith("Best heuristic: fifo. It costs 6.")
    assert "%) less than round_robin (baseline); 25.0% (" in found.sentences[0]
    assert found.sentences[0].endswith("%) less than static_cap (baseline).")


def test_a_share_of_costs_that_move_together_has_no_width() -> None:
    # Half the cost in every episode is half the mean cost of any episodes.
    whole = result("static_cap", 8.0, Kind.BASELINE)
    half = result("fifo", 4.0)._replace(cost_per_s=whole.cost_per_s / 2)
    assert league(whole, half).margins[0].share == pytest.approx((0.5, 0.5, 0.5))


def test_a_share_of_a_negative_cost_is_of_its_size_and_of_none_is_unknown() -> None:
    paid = league(result("fifo", -5.0), result("static_cap", -4.0, Kind.BASELINE))
    assert paid.margins[0].share.mean == pytest.approx(0.25)
    free = league(
        result("fifo", 0.0, noise=0.0), result("static_cap", 0.0, Kind.BASELINE, noise=0.0)
    )
    assert np.isnan(free.margins[0].share.mean)


def test_figures_are_as_computed_by_hand() -> None:
    # A fast one alone: 10 + 10 = 20 ms. Of three slow ones two find a place and are sent together:
    # 20 + 2 * 20 = 60 ms each, within 70 ms; one is shed. Twice, in 2 s of arrivals each.
    assert FIGURES.goodput_rps == pytest.approx(6 / 4.0)
    assert FIGURES.slo_attainment == pytest.approx(6 / 8)
    assert FIGURES.shed_fraction == pytest.approx(2 / 8)
    assert FIGURES.response_p50_s == pytest.approx(0.06)
    assert FIGURES.by_class["slow"]["shed"] == 2
    assert FIGURES.reward_terms["response_s.slow"] == pytest.approx(0.12)
    # One replica is on until both episodes are drained, at 0.56 s; 36 an hour is 0.01 a second.
    assert FIGURES.total_replica_hours == pytest.approx(2 * 0.56 / 3600)
    assert FIGURES.total_bill == pytest.approx(2 * 0.56 * 0.01)
    # In 2 s of arrivals each: on for 0.28 of the time, at 36 an hour.
    assert FIGURES.replica_hours_per_hour == pytest.approx(0.28)
    assert FIGURES.bill_per_hour == pytest.approx(0.28 * 36.0)
    assert np.isnan(FIGURES.ttft_p95_s)


def test_given_policies_whose_parameters_are_long_are_numbered() -> None:
    settings: list[RuleParameters] = [
        {"max_batch_size": 4, "batch_timeout_s": seconds} for seconds in (0.001, 0.002)
    ]
    asked = [Asked("batch_timeout", each) for each in settings]
    found = entrants_of(arena(), [*asked, Asked("fifo", {"batch_size": 4})])
    told = ["batch_timeout #1", "batch_timeout #2", "fifo (batch_size=4)"]
    assert [entrant.name for entrant in found] == told
    assert [each.name for each in entrants_of(arena(), asked[:1])] == ["batch_timeout (given)"]
    given = result("batch_timeout", 4.0, Kind.GIVEN)._replace(entrant=found[1])
    line = "  batch_timeout #2: max batch size 4, batch timeout 2.00 ms"
    assert parameter_lines(league(given))[1:] == [line]
    lines = refusals(arena(), entrants_of(arena(), [asked[0], *asked]))
    assert len(lines) == 1
    assert lines[0].endswith("takes part twice")


def test_entrants_are_what_fits_then_baselines_then_yardsticks() -> None:
    found = entrants_of(arena({"static_cap": {"batch_size": 2}}, {"fifo": {"batch_size": 4}}))
    fitting = fitting_rules(SCENARIO)
    assert [entrant.name for entrant in found[:-2]] == fitting
    assert found[-2:] == [
        Entrant("static_cap (baseline)", Kind.BASELINE, "static_cap", {"batch_size": 2}),
        Entrant("fifo (yardstick)", Kind.YARDSTICK, "fifo", {"batch_size": 4}),
    ]
    assert entrants_of(arena(policies=("fifo",))) == [Entrant("fifo", Kind.TUNED, "fifo", None)]
    asked = [Asked("c_mu", {"batch_size": {"fast": 1, "slow": 2}})]
    assert [entrant.name for entrant in entrants_of(arena(), asked)] == ["c_mu (given)"]
    asked = [Asked("fifo", {"batch_size": 2})]
    assert [entrant.name for entrant in entrants_of(arena(), asked)] == ["fifo (batch_size=2)"]


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ([Asked("fifi")], "small: policy = 'fifi': did you mean fifo? it must be one of "),
        ([Asked("smdp_rvi")], "small: policy = 'smdp_rvi': "),
        ([Asked("fifo", {"batch_size": 0})], "small: fifo.batch_size = 0: "),
        ([Asked("fifo", {"size": 2})], "small: fifo.size = 2: no such parameter"),
        ([Asked("fifo"), Asked("fifo")], "small: fifo takes part twice"),
        ([], "small: no policy takes part beside baselines and yardsticks"),
    ],
)
def test_who_cannot_take_part_is_refused(asked: list[Asked], line: str) -> None:
    lines = refusals(arena(), entrants_of(arena(), asked))
    assert len(lines) == 1
    assert lines[0].startswith(line)


def test_a_credit_for_answers_leaves_the_cost_with_a_zero_of_its_own() -> None:
    # Four requests arrive and one is shed, in 2 s: with 2 for an answer, it alone costs 2 / 2 s.
    reward = weighted_reward(SCENARIO, {"completed": 2.0, "response_s": -1.0}, {})
    credited = trial(2)._replace(reward=reward)
    policy = build_policy("fifo", SCENARIO, {"batch_size": 4})
    plain, outcome = play(policy, trial(2)), play(policy, credited)
    answered = outcome.rollout.reward_terms[:, :2].sum(axis=1)
    assert answered.tolist() == [3.0, 3.0]
    expected = cost_per_s(plain, trial(2)) + 2.0 * (4 - 3) / 2.0
    np.testing.assert_allclose(cost_per_s(outcome, credited), expected, rtol=1e-12)
    np.testing.assert_array_equal(cost_per_s(plain, trial(2)), -plain.reward_per_s)
