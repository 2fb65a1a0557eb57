"""The league: ranks, ties and shares by hand, and what it says of the room for a learner."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from pipeline.arena.chart import edge_of, league_chart
from pipeline.arena.compete import contest_of, cost_per_s
from pipeline.arena.entrants import Asked, Entrant, Kind, entrants_of, refusals
from pipeline.arena.figures import figures_of
from pipeline.arena.league import League, Result, build_league
from pipeline.arena.suite import ArenaScenario
from pipeline.arena.table import WIDTH, league_table, number, parameter_lines, plain_lines
from pipeline.validation.evaluation import Trial, play
from pipeline.validation.tuning import TunedRule
from simulator.policies.registry import build_policy, fitting_rules
from simulator.policies.space import RuleParameters
from simulator.replica import Replica
from simulator.reward import weighted_reward
from simulator.scenario import RequestClass, Scenario
from simulator.workload import Arrivals, RecordedWorkload

EPISODES = 40
SCENARIO = Scenario(
    (RequestClass("fast", 0.05), RequestClass("slow", 0.07)),
    (Replica((0.01, 0.02), (0.01, 0.02), (0.0, 0.0), 4, price_per_hour=36.0),),
    batch_sizes=(1, 2, 4),
    queue_capacity=2,
    tick_s=0.001,
)
# Fast at 0; at 0.5 s a slow one and three fast ones, for which two places are left.
RECORDED = RecordedWorkload(
    Arrivals(np.array([0.0, 0.5, 0.5, 0.5]), np.array([0, 1, 1, 1]), np.ones(4))
)


def arena(
    baselines: Mapping[str, RuleParameters] | None = None,
    yardsticks: Mapping[str, RuleParameters] | None = None,
    policies: tuple[str, ...] | None = None,
) -> ArenaScenario:
    """A small arena whose cost is the sum of response times."""
    return ArenaScenario(
        name="small",
        why="Two classes share a replica.",
        scenario=SCENARIO,
        reward=weighted_reward(SCENARIO, {"response_s": -1.0}, {}),
        workloads=dict.fromkeys(("train", "validation", "test"), RECORDED),
        horizon_s=2.0,
        drain_s=1.0,
        episodes=EPISODES,
        tuning_episodes=2,
        baselines=baselines or {},
        yardsticks=yardsticks or {},
        policies=policies,
    )


def trial(episodes: int = EPISODES) -> Trial:
    reward = weighted_reward(SCENARIO, {"response_s": -1.0}, {})
    return Trial(SCENARIO, reward, [RECORDED] * episodes, np.arange(episodes), 2.0, 1, 1.0)


FIGURES = figures_of(play(build_policy("fifo", SCENARIO, {"batch_size": 4}), trial(2)), trial(2))
NOISE = np.random.default_rng(5).normal(0.0, 1.0, EPISODES)
NOISE -= NOISE.mean()
OWN = np.resize([0.5, -0.5], EPISODES)  # what is not shared with the others


def result(
    rule: str, cost: float, kind: Kind = Kind.TUNED, own: float = 0.0, noise: float = 1.0
) -> Result:
    """A cost with the mean `cost`: noise that all share, and luck of its own."""
    tuned = TunedRule(rule, {}, -cost, -cost, 5, 4) if kind == Kind.TUNED else None
    name = rule if kind == Kind.TUNED else f"{rule} ({kind})"
    costs = cost + noise * NOISE + own * OWN
    return Result(Entrant(name, kind, rule, {"batch_size": 4}), tuned, costs, FIGURES)


def league(*results: Result) -> League:
    return build_league(contest_of(arena(), 7), results, budget=24, seed=7)


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
    dust = result("static_cap", 4.0 + 1e-12, Kind.PAPER)
    told = league(result("fifo", 4.0), result("c_mu", 4.0, own=0.1), dust, result("sita", 5.0))
    assert told.alike == [["fifo", "static_cap (paper)"]]
    assert league(result("fifo", 4.0), result("sita", 5.0)).alike == []


def test_margins_are_shares_of_the_cost_of_each_baseline() -> None:
    # Of 20 the best saves (20 - 15) / 20, of 16 one sixteenth; yardsticks are no heuristics.
    found = league(
        result("fifo", 15.0),
        result("smdp_rvi", 12.0, Kind.YARDSTICK),
        result("static_cap", 20.0, Kind.PAPER),
        result("round_robin", 16.0, Kind.PAPER),
    )
    assert found.best == "fifo"
    assert [margin.of for margin in found.margins] == ["round_robin (paper)", "static_cap (paper)"]
    assert [margin.share.mean for margin in found.margins] == pytest.approx([1 / 16, 0.25])
    assert all(margin.share.low < margin.share.mean < margin.share.high for margin in found.margins)
    assert found.headroom is not None
    assert found.headroom.of == "smdp_rvi (yardstick)"
    assert found.headroom.share.mean == pytest.approx(3 / 15)
    assert found.sentences[0].startswith("Best heuristic: fifo. It saves of the cost of the")
    assert "+25.0% (" in found.sentences[0]


def test_a_share_of_costs_that_move_together_has_no_width() -> None:
    # Half the cost in every episode is half the mean cost of any episodes.
    whole = result("static_cap", 8.0, Kind.PAPER)
    half = result("fifo", 4.0)._replace(cost_per_s=whole.cost_per_s / 2)
    assert league(whole, half).margins[0].share == pytest.approx((0.5, 0.5, 0.5))


def test_a_share_of_a_negative_cost_is_of_its_size_and_of_none_is_unknown() -> None:
    paid = league(result("fifo", -5.0), result("static_cap", -4.0, Kind.PAPER))
    assert paid.margins[0].share.mean == pytest.approx(0.25)
    free = league(result("fifo", 0.0, noise=0.0), result("static_cap", 0.0, Kind.PAPER, noise=0.0))
    assert np.isnan(free.margins[0].share.mean)


@pytest.mark.parametrize(
    ("rivals", "sentence"),
    [
        (
            [result("smdp_rvi", 9.8, Kind.YARDSTICK)],
            "smdp_rvi (yardstick) is the optimum: a learner can save +2.0% (+",
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
            [result("fifo", 9.0), result("c_mu", 9.1, Kind.PAPER)],
            "c_mu (paper) is within 3% of fifo: a learner has less than 3% left, as far as these",
        ),
        ([result("c_mu", 9.0)], "c_mu is the best itself; of 1 other heuristic none gains on it."),
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
    assert FIGURES.replica_hours == pytest.approx(2 * 0.56 / 3600)
    assert FIGURES.bill == pytest.approx(2 * 0.56 * 0.01)
    assert np.isnan(FIGURES.ttft_p95_s)


def test_the_table_fits_and_leaves_out_what_is_least_needed() -> None:
    long = result("shortest_queue", 123456.0, Kind.PAPER)
    long = long._replace(entrant=long.entrant._replace(name="a" * 60))
    dear = FIGURES._replace(bill=7.5, energy_j=1e6, replica_hours=12.0)
    found = league(result("fifo", 10.0), long._replace(figures=dear), result("c_mu", 12.0))
    heads, rows = league_table(found)
    lines = plain_lines(heads, rows)
    assert max(len(line) for line in lines) <= WIDTH
    assert {"policy", "cost/s", "more than the first", "shed %"} <= set(heads)
    assert "J" not in heads
    assert [row[0] for row in rows] == ["fifo", "c_mu", "a" * 33 + "…"]
    assert rows[0][heads.index("more than the first")] == "none"
    assert rows[0][heads.index("SLO % fast/slow")] == "100.0/66.7"
    assert parameter_lines(found)[1:3] == [
        "  fifo: batch size 4; 5 settings tried",
        "  c_mu: batch size 4; 5 settings tried",
    ]


def test_what_is_the_same_for_all_has_no_column() -> None:
    heads, _ = league_table(league(result("fifo", 10.0), result("c_mu", 12.0)))
    assert not {"replica-h", "bill", "J"} & set(heads)
    paid = result("c_mu", 12.0)._replace(figures=FIGURES._replace(bill=9.0))
    heads, rows = league_table(league(result("fifo", 10.0), paid))
    assert [row[heads.index("bill")] for row in rows] == ["0.01120", "9.000"]


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
    assert "▶" not in str(league_chart(league(result("fifo", 10.0), result("c_mu", 11.0))))


def test_entrants_are_what_fits_then_baselines_then_yardsticks() -> None:
    found = entrants_of(arena({"static_cap": {"batch_size": 2}}, {"fifo": {"batch_size": 4}}))
    fitting = fitting_rules(SCENARIO)
    assert [entrant.name for entrant in found[:-2]] == fitting
    assert found[-2:] == [
        Entrant("static_cap (paper)", Kind.PAPER, "static_cap", {"batch_size": 2}),
        Entrant("fifo (yardstick)", Kind.YARDSTICK, "fifo", {"batch_size": 4}),
    ]
    assert entrants_of(arena(policies=("fifo",))) == [Entrant("fifo", Kind.TUNED, "fifo", None)]
    asked = [Asked("c_mu", {"batch_size": {"fast": 1, "slow": 2}})]
    name = 'c_mu (batch_size={"fast": 1, "slow": 2})'
    assert [entrant.name for entrant in entrants_of(arena(), asked)] == [name]


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
