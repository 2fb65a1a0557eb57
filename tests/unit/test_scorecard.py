"""The comparison: paired, ranked on the test split, won on the validation split."""

import json
from typing import Any

import numpy as np
import pytest

from pipeline.files import plain
from pipeline.validation.evaluation import Trial, evaluate
from pipeline.validation.gate import Margins, shared_level
from pipeline.validation.intervals import mean_interval
from pipeline.validation.scorecard import TEST, Candidate, Comparison, Scorecard, Standing, score
from pipeline.validation.summary import metrics_of
from simulator.policies.registry import build_policy
from simulator.replica import Replica
from simulator.reward import weighted_reward
from simulator.scenario import RequestClass, Scenario
from simulator.workload import Arrivals, RecordedWorkload

# A batch takes 50 ms whatever its size: whoever sends one by one falls behind.
SCENARIO = Scenario(
    (RequestClass("only", 1.0),),
    (Replica((0.05,), (0.0,), (0.0,), 4),),
    batch_sizes=(1, 2, 4),
)
REWARD = weighted_reward(SCENARIO, {"response_s": -1.0}, {})
WINDOWS = 12
ONE_BY_ONE = ("static_cap", {"batch_size": 1})
IN_PAIRS = ("static_cap", {"batch_size": 2})
AT_ONCE = ("static_cap", {"batch_size": 4})
IN_COMPANY = ("batch_timeout", {"max_batch_size": 4, "batch_timeout_s": 0.02})
LOOSE = Margins(response_p99_s=10.0, shed_fraction=1.0, slo_attainment=1.0)
COMPARISON = Comparison(confidence=0.95, gate_confidence=0.95, resamples=400, margins=LOOSE, seed=3)


def trial(instants_s: list[list[float]]) -> Trial:
    """Each window shows these instants, one window after the other, over a second."""
    workloads = [
        RecordedWorkload(Arrivals(np.array(at), np.zeros(len(at), int), np.ones(len(at))))
        for at in instants_s
    ]
    return Trial(SCENARIO, REWARD, workloads, np.arange(len(workloads)), 1.0, seed=5)


# Groups of four that arrive within 3 ms: to wait for company is best. The windows differ in how
# many groups they have. On validation all requests are alone: waiting for company is lost time.
GROUPS = trial(
    [
        [0.25 * group + 0.001 * place for group in range(1 + window % 3) for place in range(4)]
        for window in range(WINDOWS)
    ]
)
ALONE = trial([[0.1, 0.4, 0.7]] * WINDOWS)


def candidates(**agents: tuple[str, dict[str, Any]]) -> dict[str, Candidate]:
    """One rule, which sends one by one, and agents that act as a rule does."""
    return {
        "rule": Candidate("rule", build_policy(ONE_BY_ONE[0], SCENARIO, ONE_BY_ONE[1]), {}),
        **{
            name: Candidate("online", build_policy(rule, SCENARIO, parameters), {})
            for name, (rule, parameters) in agents.items()
        },
    }


def standing_of(card: Scorecard, name: str) -> Standing:
    return next(standing for standing in card.standings if standing.name == name)


def test_policies_are_ranked_by_their_reward_on_the_test_split() -> None:
    entries = candidates(at_once=AT_ONCE, in_company=IN_COMPANY, in_pairs=IN_PAIRS)
    card = score(entries, {TEST: GROUPS}, ALONE, COMPARISON)
    order = [standing.name for standing in card.standings]
    assert order == ["in_company", "at_once", "in_pairs", "rule"]
    rewards = [standing.reward_per_s.mean for standing in card.standings]
    assert rewards == sorted(rewards, reverse=True)
    assert (card.best_rule, card.windows, card.episodes) == ("rule", WINDOWS, WINDOWS)


def test_the_winner_of_those_that_pass_is_picked_by_the_validation_split() -> None:
    card = score(
        candidates(at_once=AT_ONCE, in_company=IN_COMPANY), {TEST: GROUPS}, ALONE, COMPARISON
    )
    assert card.standings[0].name == "in_company"  # the best on the test split
    assert all(not standing.reasons for standing in card.standings)
    # Three requests, each 20 ms late: (3 * 50 ms + 3 * 20 ms) against 3 * 50 ms.
    company = standing_of(card, "in_company").validation_reward_per_s
    assert company == pytest.approx(standing_of(card, "at_once").validation_reward_per_s - 0.06)
    assert card.winner == "at_once"


def test_an_agent_that_acts_as_the_rule_differs_by_nothing_and_does_not_pass() -> None:
    card = score(candidates(twin=ONE_BY_ONE), {TEST: GROUPS}, ALONE, COMPARISON)
    twin = standing_of(card, "twin")
    assert twin.difference == (0.0, 0.0, 0.0)
    assert twin.gate_low == 0.0
    assert len(twin.reasons) == 1
    assert card.winner is None


def test_the_best_rule_is_what_agents_are_held_against() -> None:
    entries = candidates(in_pairs=IN_PAIRS)
    entries["better_rule"] = Candidate(
        "rule", build_policy(IN_COMPANY[0], SCENARIO, IN_COMPANY[1]), IN_COMPANY[1]
    )
    card = score(entries, {TEST: GROUPS}, ALONE, COMPARISON)
    assert card.best_rule == "better_rule"
    assert standing_of(card, "in_pairs").difference.high < 0
    assert card.winner is None


def test_differences_are_paired_and_the_bound_of_the_gate_is_at_the_shared_level() -> None:
    entries = candidates(at_once=AT_ONCE, in_pairs=IN_PAIRS, in_company=IN_COMPANY)
    card = score(entries, {TEST: GROUPS}, ALONE, COMPARISON)
    gain = (
        evaluate(entries["at_once"].policy, GROUPS).reward_per_s
        - evaluate(entries["rule"].policy, GROUPS).reward_per_s
    )
    found = standing_of(card, "at_once")

    def expected(level: float, alternative: str) -> Any:
        generator = np.random.default_rng(COMPARISON.seed)
        return mean_interval(gain, GROUPS.window, level, 400, generator, alternative)

    assert found.difference == expected(0.95, "two-sided")
    assert found.gate_low == expected(shared_level(0.95, 3), "greater").low
    alone = score(candidates(at_once=AT_ONCE), {TEST: GROUPS}, ALONE, COMPARISON)
    assert standing_of(alone, "at_once").gate_low == expected(0.95, "greater").low
    assert found.gate_low < standing_of(alone, "at_once").gate_low


def test_agents_are_guarded_in_the_test_split_and_under_stress_and_rules_nowhere() -> None:
    trials = {TEST: GROUPS, "alone": ALONE}
    card = score(candidates(at_once=AT_ONCE), trials, ALONE, COMPARISON)
    guards = standing_of(card, "at_once").guards
    assert [guard.scenario for guard in guards] == [TEST] * 3 + ["alone"] * 3
    assert standing_of(card, "rule").guards == []
    assert standing_of(card, "rule").gate_low is None


def test_a_guard_that_fails_under_stress_alone_shuts_the_gate() -> None:
    # Alone, a response takes 70 ms instead of 50 ms: 40 % more, where 10 % are allowed.
    strict = COMPARISON._replace(margins=Margins(0.1, 1.0, 1.0))
    entries = candidates(in_company=IN_COMPANY)
    assert score(entries, {TEST: GROUPS}, ALONE, strict).winner == "in_company"
    card = score(entries, {TEST: GROUPS, "alone": ALONE}, ALONE, strict)
    assert card.winner is None
    (reason,) = standing_of(card, "in_company").reasons
    assert "response_p99_s of only in scenario alone is 0.07, not within the limit 0.055" in reason


def test_advance_is_told_of_every_candidate() -> None:
    told: list[None] = []
    entries = candidates(at_once=AT_ONCE)
    score(entries, {TEST: GROUPS}, ALONE, COMPARISON, lambda: told.append(None))
    assert len(told) == len(entries)


def test_agents_without_any_rule_are_refused() -> None:
    entries = candidates(at_once=AT_ONCE)
    del entries["rule"]
    with pytest.raises(ValueError, match="candidates: needs at least one rule"):
        score(entries, {TEST: GROUPS}, ALONE, COMPARISON)


def test_the_same_comparison_gives_the_same_card_and_it_fits_into_json() -> None:
    cards = [
        json.dumps(plain(score(candidates(a=AT_ONCE), {TEST: GROUPS}, ALONE, COMPARISON)))
        for _ in range(2)
    ]
    assert cards[0] == cards[1]
    told = json.loads(cards[0])
    assert set(told) == {"best_rule", "winner", "standings", "windows", "episodes"}
    assert set(told["standings"][0]) == set(Standing._fields)
    assert set(told["standings"][0]["difference"]) == {"mean", "low", "high"}


def test_a_class_that_nobody_asks_for_has_null_percentiles_in_the_metrics() -> None:
    empty = trial([[]] * WINDOWS)
    card = score(candidates(), {TEST: empty}, empty, COMPARISON)
    told = plain(metrics_of(card))["policies"]["rule"]
    assert told["only"]["response_p99_s"] is None
    assert told["reward_per_s"] == 0.0
