"""Whether a learned policy may replace the best tuned rule (DESIGN, section 5)."""

from operator import ge, le
from typing import NamedTuple

from pipeline.validation.evaluation import Evaluation
from pipeline.validation.intervals import Interval
from simulator.scenario import Scenario


class Margins(NamedTuple):
    """How much worse than the rule a guarded metric may be."""

    response_p99_s: float  # relative
    shed_fraction: float  # absolute
    slo_attainment: float  # absolute


class Guard(NamedTuple):
    """A guarded metric of one class in one scenario."""

    scenario: str
    request_class: str
    metric: str
    policy: float
    rule: float
    limit: float  # the worst value allowed
    holds: bool


def shared_level(confidence: float, agents: int) -> float:
    """The confidence that each of the agents must show, so that all together keep `confidence`.

    Bonferroni: `1 - (1 - confidence) / agents`. Trying more agents does not make it easier for one
    of them to pass by luck.
    """
    return 1.0 - (1.0 - confidence) / max(1, agents)


def guards(
    name: str, scenario: Scenario, policy: Evaluation, rule: Evaluation, margins: Margins
) -> list[Guard]:
    """The guarded metrics of every class in the scenario called `name`."""
    found = []
    for number, class_name in enumerate(scenario.class_names):
        ours, theirs = policy.by_class[number], rule.by_class[number]
        limits = (
            ("response_p99_s", le, theirs.response_p99_s * (1.0 + margins.response_p99_s)),
            ("shed_fraction", le, theirs.shed_fraction + margins.shed_fraction),
            ("slo_attainment", ge, theirs.slo_attainment - margins.slo_attainment),
        )
        for metric, within, limit in limits:
            value = getattr(ours, metric)
            # False for NaN: where nothing was answered, the guard does not hold.
            holds = within(value, limit)
            rule_value = getattr(theirs, metric)
            found.append(Guard(name, class_name, metric, value, rule_value, limit, holds))
    return found


def gate_reasons(gain: Interval, guarded: list[Guard]) -> list[str]:
    """Why the gate stays shut, a sentence each; empty where the policy passes.

    `gain` is (policy - best tuned rule) in reward per second on the test split, its lower bound at
    the gate's confidence.
    """
    reasons = []
    if not gain.low > 0.0:
        reasons.append(
            f"its gain over the rule is {gain.mean:+.3f} reward/s, and the lower bound "
            f"{gain.low:+.3f} is not above 0"
        )
    reasons += [
        f"{guard.metric} of {guard.request_class} in scenario {guard.scenario} is "
        f"{guard.policy:.4g}, not within the limit {guard.limit:.4g} (rule: {guard.rule:.4g})"
        for guard in guarded
        if not guard.holds
    ]
    return reasons
