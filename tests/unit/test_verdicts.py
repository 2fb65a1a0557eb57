"""The verdict in a sentence, and the figures for DVC."""

from typing import Any

from pipeline.validation.intervals import Interval
from pipeline.validation.scorecard import Scorecard, Standing
from pipeline.validation.summary import (
    describe_rule,
    describe_standings,
    metrics_of,
    verdict_sentence,
)

METRICS = {
    "response_p50_s": 0.0123456789123,
    "response_p95_s": 0.05,
    "response_p99_s": 0.09,
    "slo_attainment": 0.99,
    "shed_fraction": 0.0,
    "served": 100,
}


def standing(name: str, kind: str, reward: float, **changes: Any) -> Standing:
    values: dict[str, Any] = {
        "name": name,
        "kind": kind,
        "parameters": {},
        "reward_per_s": Interval(reward, reward - 1.0, reward + 1.0),
        "difference": Interval(reward - 40.0, reward - 40.5, reward - 39.5),
        "validation_reward_per_s": reward,
        "by_class": {"fast": METRICS},
        "gate_low": None,
        "guards": [],
        "reasons": [],
        **changes,
    }
    return Standing(**values)


RULE = standing("c_mu", "rule", 40.0, parameters={"batch_size": {"fast": 8, "slow": 2}})
PASSED = standing("ppo", "online", 42.0, gate_low=0.3)
FAILED = standing("cloned", "offline", 39.0, reasons=["its gain is not sure"])


def card(winner: str | None, *standings: Standing) -> Scorecard:
    return Scorecard("c_mu", winner, list(standings), windows=12, episodes=96)


def test_without_a_winner_the_rule_is_kept_and_told_with_its_parameters() -> None:
    sentence = verdict_sentence(card(None, RULE, FAILED))
    assert sentence.startswith("Keep the rule: c_mu (batch_size: fast 8, slow 2). ")


def test_a_winner_is_told_with_its_gain_and_interval() -> None:
    sentence = verdict_sentence(card("ppo", PASSED, RULE, FAILED))
    assert sentence.startswith("Use the learned policy ppo: it earns 2.000 reward/s more than")
    assert "which earns 40.000 (interval of the gain: 1.500 to 2.500)" in sentence


def test_a_rule_without_parameters_is_told_by_its_name() -> None:
    assert describe_rule(RULE._replace(parameters={})) == "c_mu"
    several = {"max_batch_size": 8, "batch_timeout_s": 0.01}
    assert describe_rule(RULE._replace(parameters=several)) == (
        "c_mu (max_batch_size: 8; batch_timeout_s: 0.01)"
    )


def test_every_policy_has_a_line_in_the_order_of_the_card() -> None:
    lines = describe_standings(card("ppo", PASSED, RULE))
    assert lines == [
        "ppo: +42.000 reward/s, to the best rule +2.000 [+1.500, +2.500]",
        "c_mu: +40.000 reward/s, to the best rule +0.000 [-0.500, +0.500]",
    ]


def test_metrics_say_who_passed_and_round_to_nine_digits() -> None:
    told = metrics_of(card("ppo", PASSED, RULE, FAILED))
    assert told["verdict"] == {"best_rule": "c_mu", "winner": "ppo"}
    passed = {name: values["passed"] for name, values in told["policies"].items()}
    assert passed == {"ppo": True, "c_mu": False, "cloned": False}
    assert told["policies"]["ppo"]["fast"]["response_p50_s"] == 0.0123456789
    assert "served" not in told["policies"]["ppo"]["fast"]
