"""The gate, its reasons and the reward, in words."""

import math
from typing import Any

from pipeline.reporting.gate import conditions, reasons_in_words
from pipeline.reporting.verdict import reward_in_words
from pipeline.settings import GateSettings, RewardSettings, StressSettings
from pipeline.validation.gate import Guard, gate_reasons
from pipeline.validation.intervals import Interval
from pipeline.validation.scorecard import Standing

GAIN = Interval(0.25, 0.1, 0.4)


def guard(scenario: str, metric: str, policy: float, limit: float, holds: bool) -> Guard:
    return Guard(scenario, "fast", metric, policy, 0.05, limit, holds)


def standing(guards: list[Guard], gate_low: float, **changes: Any) -> Standing:
    reasons = gate_reasons(GAIN._replace(low=gate_low), guards)
    zero = Interval(1.0, 1.0, 1.0)
    found = Standing("ppo", "online", {}, zero, GAIN, 1.0, {}, gate_low, guards, reasons)
    return found._replace(**changes)


def test_an_agent_that_passes_has_no_reasons() -> None:
    held = [guard("test", "response_p99_s", 0.05, 0.06, True)]
    assert reasons_in_words(standing(held, 0.01)) == []


def test_a_gain_that_is_not_sure_is_told_with_its_bound() -> None:
    assert reasons_in_words(standing([], -0.02)) == [
        "The gain of +0.250 reward/s is not surely above 0: the gate's lower bound is \u22120.020."
    ]


def test_guards_of_one_metric_and_class_are_told_together() -> None:
    broken = [
        guard("test", "response_p99_s", 0.0712, 0.055, False),
        guard("test", "slo_attainment", 0.93, 0.98, False),
        guard("busier", "response_p99_s", 0.123, 0.11, False),
        guard("busier", "shed_fraction", 0.0, 0.005, True),
    ]
    assert reasons_in_words(standing(broken, 0.01)) == [
        "P99 of response time of fast is worse than allowed: "
        "test 71.2 ms, limit 55.0 ms; busier 123 ms, limit 110 ms.",
        "SLO attainment of fast is worse than allowed: test 93.00%, limit 98.00%.",
    ]


def test_a_class_without_answers_is_told_as_a_dash() -> None:
    broken = [guard("test", "response_p99_s", math.nan, 0.055, False)]
    assert reasons_in_words(standing(broken, 0.01)) == [
        "P99 of response time of fast is worse than allowed: test \u2013, limit 55.0 ms."
    ]


def test_reasons_that_do_not_follow_from_the_guards_are_told_as_they_are() -> None:
    reasons = ["its bundle does not reproduce its results"]
    assert reasons_in_words(standing([], 0.01, reasons=reasons)) == reasons


def test_conditions_name_margins_stress_and_shared_risk() -> None:
    gate = GateSettings(stress={"busier": StressSettings(1.25, 1.0)})
    gain, guards = conditions(gate, 5)
    assert "95%, and the risk is shared among the 5 agents" in gain
    assert "busier (1.25 times the arrivals)" in guards
    assert "10% higher" in guards
    assert "0.5 percentage points higher" in guards
    assert "1 percentage point lower" in guards


def test_a_single_agent_shares_its_risk_with_no_one() -> None:
    assert "shared" not in conditions(GateSettings(), 1)[0]


def test_reward_names_the_terms_that_count() -> None:
    settings = RewardSettings({"fast": 1.0, "slow": 1.0}, completed=1.0, shed=-2.0, scale=0.5)
    assert reward_in_words(settings) == (
        "Reward counts +0.5 for a request answered, \u22121 for a request shed. Higher is better."
    )


def test_reward_tells_unequal_weights_of_the_classes() -> None:
    settings = RewardSettings({"fast": 10.0, "slow": 1.0}, completed=1.0, shed=-2.0)
    assert "times the weight of the class (fast 10, slow 1)" in reward_in_words(settings)
