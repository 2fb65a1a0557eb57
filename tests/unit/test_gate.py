"""The gate: open for a sure gain with every guard held, shut by anything less."""

import numpy as np
import pytest

from pipeline.validation.evaluation import Evaluation
from pipeline.validation.gate import Guard, Margins, gate_reasons, guards, shared_level
from pipeline.validation.intervals import Interval
from simulator.metrics import ClassMetrics
from simulator.replica import Replica
from simulator.scenario import RequestClass, Scenario

SCENARIO = Scenario(
    (RequestClass("fast", 0.1), RequestClass("slow", 0.5)),
    (Replica((0.01, 0.02), (0.001, 0.002), (0.0, 0.0), 4),),
    batch_sizes=(1, 2, 4),
)
MARGINS = Margins(response_p99_s=0.1, shed_fraction=0.005, slo_attainment=0.01)
SURE = Interval(mean=0.5, low=0.1, high=np.inf)
NAN = float("nan")


def metrics(p99_s: float = 0.08, shed: float = 0.02, slo_attainment: float = 0.95) -> ClassMetrics:
    return ClassMetrics(
        offered=1000,
        served=1000 - int(1000 * shed),
        shed=int(1000 * shed),
        in_system=0,
        throughput_rps=98.0,
        goodput_rps=95.0,
        shed_fraction=shed,
        slo_attainment=slo_attainment,
        response_mean_s=0.03,
        response_p50_s=0.02,
        response_p95_s=0.05,
        response_p99_s=p99_s,
    )


RULE = Evaluation(np.zeros(1), (metrics(), metrics()))


def guards_of(fast: ClassMetrics, rule: Evaluation = RULE) -> list[Guard]:
    """The guards of a policy that equals the rule in the class `slow`."""
    return guards("test", SCENARIO, Evaluation(np.zeros(1), (fast, metrics())), rule, MARGINS)


def test_a_sure_gain_with_every_guard_held_opens_the_gate() -> None:
    assert gate_reasons(SURE, guards_of(metrics())) == []


def test_every_class_has_a_guard_for_each_of_the_three_metrics() -> None:
    assert [(guard.request_class, guard.metric) for guard in guards_of(metrics())] == [
        (name, metric)
        for name in ("fast", "slow")
        for metric in ("response_p99_s", "shed_fraction", "slo_attainment")
    ]


# Limits: 0.08 * 1.1 = 0.088 s, 0.02 + 0.005 = 0.025 and 0.95 - 0.01 = 0.94.
@pytest.mark.parametrize(
    ("inside", "outside", "metric", "limit"),
    [
        (metrics(p99_s=0.0879), metrics(p99_s=0.0881), "response_p99_s", 0.088),
        (metrics(shed=0.0249), metrics(shed=0.0251), "shed_fraction", 0.025),
        (metrics(slo_attainment=0.941), metrics(slo_attainment=0.939), "slo_attainment", 0.94),
    ],
)
def test_a_guard_holds_within_its_margin_and_shuts_the_gate_beyond(
    inside: ClassMetrics, outside: ClassMetrics, metric: str, limit: float
) -> None:
    assert gate_reasons(SURE, guards_of(inside)) == []
    failed = [guard for guard in guards_of(outside) if not guard.holds]
    assert [(guard.metric, guard.request_class) for guard in failed] == [(metric, "fast")]
    assert failed[0].limit == pytest.approx(limit)
    (reason,) = gate_reasons(SURE, guards_of(outside))
    assert reason.startswith(f"{metric} of fast in scenario test is ")


def test_a_better_policy_is_not_stopped_by_the_other_side_of_a_limit() -> None:
    better = metrics(p99_s=0.001, shed=0.0, slo_attainment=1.0)
    assert gate_reasons(SURE, guards_of(better)) == []


def test_a_class_without_any_answer_shuts_the_gate() -> None:
    (reason,) = gate_reasons(SURE, guards_of(metrics(p99_s=NAN)))
    assert "response_p99_s of fast in scenario test is nan, not within the limit" in reason


def test_nan_in_the_rule_shuts_the_gate_too() -> None:
    rule = Evaluation(np.zeros(1), (metrics(p99_s=NAN), metrics()))
    assert len(gate_reasons(SURE, guards_of(metrics(), rule))) == 1


@pytest.mark.parametrize("low", [0.0, -1e-9, NAN, -np.inf])
def test_a_lower_bound_that_is_not_above_0_shuts_the_gate(low: float) -> None:
    (reason,) = gate_reasons(SURE._replace(low=low), guards_of(metrics()))
    assert "is not above 0" in reason


def test_every_reason_is_told() -> None:
    worst = metrics(p99_s=1.0, shed=0.5, slo_attainment=0.1)
    assert len(gate_reasons(SURE._replace(low=-1.0), guards_of(worst))) == 4


def test_agents_share_the_error_probability_of_the_gate() -> None:
    assert shared_level(0.95, 1) == pytest.approx(0.95)
    assert shared_level(0.95, 5) == pytest.approx(1.0 - 0.05 / 5)
    assert shared_level(0.95, 0) == pytest.approx(0.95)  # rules alone: nobody asks
