"""Which agent may replace the rule, and what the others lack."""

from pipeline.reporting.inputs import ReportInputs
from pipeline.reporting.markup import Column, Html, details, element, join, listing, section, table
from pipeline.reporting.text import (
    gain,
    gain_interval,
    milliseconds,
    percent,
    plural,
    shortened,
)
from pipeline.settings import GateSettings, Settings, StressSettings
from pipeline.validation.gate import Guard
from pipeline.validation.scorecard import Standing

_METRICS = {
    "response_p99_s": "P99 of response time",
    "shed_fraction": "Shed fraction",
    "slo_attainment": "SLO attainment",
}


def gate_section(inputs: ReportInputs, settings: Settings) -> Html:
    """For each agent: passed, or the reasons; all guards on demand."""
    agents = [standing for standing in inputs.card.standings if standing.kind != "rule"]
    if not agents:
        return section("gate", "Gate", element("p", "No agent asks to pass the gate."))
    refused: list[Html] = []
    if inputs.card.winner is not None and inputs.verdict.winner is None:
        told = f"{inputs.card.winner} passed here, but its bundle was refused: see Verdict."
        refused = [element("p", told, class_="status bad")]
    failed = [standing for standing in agents if standing.reasons]
    lacks = [
        join([element("h3", f"What {standing.name} lacks"), listing(reasons_in_words(standing))])
        for standing in failed
    ]
    return section(
        "gate",
        "Gate",
        element("p", "An agent may replace the best tuned rule if"),
        listing(conditions(settings.gate, len(agents))),
        element("p", "Of those that pass, the one with the highest validation reward is used."),
        *refused,
        _agents(agents, settings.validate.confidence),
        *lacks,
        details("Every guard", _guards(agents)),
    )


def conditions(gate: GateSettings, agents: int) -> list[str]:
    """What an agent has to show."""
    shared = f", and the risk is shared among the {agents} agents" if agents > 1 else ""
    margins = gate.margins
    stress = [_stress(name, stress) for name, stress in gate.stress.items()]
    scenarios = f" and under stress, {' and '.join(stress)}," if stress else ""
    return [
        "the lower bound of its gain is above 0 on the test split (one-sided, "
        f"{percent(gate.confidence, 0)}{shared}), and",
        f"for every class, on the test split{scenarios} its P99 is at most "
        f"{percent(margins.response_p99_s, 0)} higher than the rule's, its shed fraction at most "
        f"{_points(margins.shed_fraction)} higher, and its SLO attainment at most "
        f"{_points(margins.slo_attainment)} lower.",
    ]


def _stress(name: str, stress: StressSettings) -> str:
    scales = (("arrivals", stress.rate_scale), ("service times", stress.service_scale))
    changed = [f"{scale:g} times the {what}" for what, scale in scales if scale != 1.0]
    return f"{name} ({', '.join(changed) or 'nothing changed'})"


def _points(share: float) -> str:
    points = f"{share * 100:g}"
    return f"{points} percentage point{'' if points == '1' else 's'}"


def _agents(agents: list[Standing], confidence: float) -> Html:
    columns = [
        Column("Agent"),
        Column("Gate"),
        Column("Gain", numeric=True),
        Column(f"{percent(confidence, 0)} interval", numeric=True),
        Column("Gate's lower bound", numeric=True),
        Column("Guards held", numeric=True),
    ]
    rows = [
        [
            standing.name,
            element("strong", "not passed", class_="bad")
            if standing.reasons
            else element("strong", "passed", class_="good"),
            gain(standing.difference.mean),
            gain_interval(standing.difference),
            gain(standing.gate_low),
            f"{sum(guard.holds for guard in standing.guards)} of {len(standing.guards)}",
        ]
        for standing in agents
    ]
    return table("The gate, agent by agent (gains in reward/s)", columns, rows)


def reasons_in_words(standing: Standing) -> list[str]:
    """The reasons with the units that people read, guards of one metric and class together.

    Where the scorecard has reasons that do not follow from the gain and the guards, all are told
    as they are.
    """
    reasons, failed = [], [guard for guard in standing.guards if not guard.holds]
    if standing.gate_low is None or not standing.gate_low > 0.0:
        reasons.append(
            f"The gain of {gain(standing.difference.mean)} reward/s is not surely above 0: the "
            f"gate's lower bound is {gain(standing.gate_low)}."
        )
    if len(standing.reasons) != len(reasons) + len(failed):
        return standing.reasons
    kinds = dict.fromkeys((guard.metric, guard.request_class) for guard in failed)
    for metric, request_class in kinds:
        of_kind = [g for g in failed if (g.metric, g.request_class) == (metric, request_class)]
        told = "; ".join(
            f"{guard.scenario} {_value(guard, guard.policy)}, limit {_value(guard, guard.limit)}"
            for guard in of_kind
        )
        reasons.append(f"{_metric(metric)} of {request_class} is worse than allowed: {told}.")
    return reasons


def _metric(metric: str) -> str:
    return _METRICS.get(metric, shortened(metric))


def _value(guard: Guard, value: float) -> str:
    return milliseconds(value) if guard.metric.endswith("_s") else percent(value, 2)


def _guards(agents: list[Standing]) -> Html:
    columns = [
        Column("Agent"),
        Column("Scenario"),
        Column("Class"),
        Column("Metric"),
        Column("Agent's", numeric=True),
        Column("Rule's", numeric=True),
        Column("Limit", numeric=True),
        Column("Holds"),
    ]
    rows = [
        [
            standing.name,
            guard.scenario,
            guard.request_class,
            _metric(guard.metric),
            _value(guard, guard.policy),
            _value(guard, guard.rule),
            _value(guard, guard.limit),
            "yes" if guard.holds else element("strong", "no", class_="bad"),
        ]
        for standing in agents
        for guard in standing.guards
    ]
    total = plural(len(rows), "guard")
    return table(f"Guarded metrics: {total}", columns, rows)
