"""The first section: what to do, why, and what comes next."""

from typing import Any

from pipeline.reporting.inputs import ReportInputs
from pipeline.reporting.markup import Column, Html, element, join, listing, section, table
from pipeline.reporting.text import (
    gain,
    gain_interval,
    milliseconds,
    percent,
    reward,
    reward_interval,
    rule_in_words,
)
from pipeline.settings import RewardSettings, Settings
from pipeline.validation.intervals import Interval
from pipeline.validation.scorecard import Scorecard, Standing

_TERMS = {
    "completed": "a request answered",
    "response_s": "a second of response time",
    "number_in_system_s": "a second that a request spends in the system",
    "shed": "a request shed",
    "slo_misses": "a request answered later than its SLO",
    "replica_seconds": "a second of a replica that is on",
    "energy_j": "a joule",
}


def verdict_section(inputs: ReportInputs, settings: Settings) -> Html:
    """The decision in a sentence, the figures behind it, and the next step."""
    rule = standing_of(inputs.card, inputs.verdict.best_rule)
    agent = challenger(inputs)
    return section(
        "verdict",
        "Verdict",
        _banner(inputs),
        _figures(rule, agent, settings),
        element("h3", "What to do next"),
        listing(_next_steps(inputs, rule)),
        element("p", reward_in_words(settings.reward), class_="note"),
    )


def standing_of(card: Scorecard, name: str) -> Standing:
    """The policy called `name` in the comparison."""
    return next(standing for standing in card.standings if standing.name == name)


def challenger(inputs: ReportInputs) -> Standing | None:
    """The agent to hold against the rule: the winner, else the one with the highest reward."""
    if inputs.verdict.winner is not None:
        return standing_of(inputs.card, inputs.verdict.winner)
    return next((s for s in inputs.card.standings if s.kind != "rule"), None)


def _banner(inputs: ReportInputs) -> Html:
    verdict = inputs.verdict
    if not inputs.fidelity.passed:
        tone, decision = "stop", "Do not decide on this page yet: the simulator misses the log"
    elif verdict.winner is None:
        tone, decision = "keep", f"Keep the rule {verdict.best_rule}"
    else:
        tone, decision = "use", f"Use the learned policy {verdict.winner}"
    return element(
        "div",
        element("p", decision, class_="decision"),
        element("p", verdict.sentence, class_="sentence"),
        class_=f"banner {tone}",
    )


def _figures(rule: Standing, agent: Standing | None, settings: Settings) -> Html:
    level = percent(settings.validate.confidence, 0)
    tiles = [
        _tile(
            f"Best rule, {rule.name}",
            f"{reward(rule.reward_per_s.mean)} reward/s",
            f"{level} interval {reward_interval(rule.reward_per_s)}",
        )
    ]
    if agent is not None:
        tiles.append(
            _tile(
                f"Best agent, {agent.name}: difference to the rule",
                f"{gain(agent.difference.mean)} reward/s",
                f"{level} interval {gain_interval(agent.difference)}: "
                f"{_side_of_0(agent.difference)}",
            )
        )
    return join([element("div", *tiles, class_="tiles"), _by_class(rule, agent, settings)])


def _side_of_0(interval: Interval) -> str:
    if interval.low > 0.0:
        return "better"
    return "worse" if interval.high < 0.0 else "no clear difference"


def _tile(title: str, value: str, remark: str) -> Html:
    return element(
        "div",
        element("p", title, class_="title"),
        element("p", value, class_="value"),
        element("p", remark, class_="remark"),
        class_="tile",
    )


def _by_class(rule: Standing, agent: Standing | None, settings: Settings) -> Html:
    policies = [rule] if agent is None else [rule, agent]
    columns = [Column("Class"), Column("SLO", numeric=True)]
    for group in ("P99 of response time", "SLO attainment"):
        columns += [Column(policy.name, numeric=True, group=group) for policy in policies]
    rows = [
        [
            name,
            milliseconds(settings.scenario.slo_s[name]),
            *(milliseconds(policy.by_class[name]["response_p99_s"]) for policy in policies),
            *(percent(policy.by_class[name]["slo_attainment"]) for policy in policies),
        ]
        for name in rule.by_class
    ]
    against = "" if agent is None else f" and the best agent, {agent.name}"
    caption = f"What users would see, by class: the best rule, {rule.name}{against}"
    return table(caption, columns, rows)


def _next_steps(inputs: ReportInputs, rule: Standing) -> list[str]:
    if not inputs.fidelity.passed:
        return [
            "See Fidelity for the percentiles that the simulator misses, and record a longer log "
            "or mend the model before any figure here is used."
        ]
    if inputs.verdict.winner is None:
        return [*_keep_steps(inputs, rule), "Gate says what each agent lacked."]
    winner = inputs.verdict.winner
    return [
        join(
            [
                "Hand the bundle ",
                element("code", f"data/policies/{winner}/"),
                " to the serving team; its ",
                element("code", "CARD.md"),
                " says how to run it, with NumPy and ONNX Runtime alone.",
            ]
        ),
        f"Let it decide for a small share of the traffic first. Outside what it knows it falls "
        f"back to a rule; {rule_in_words(rule.name, rule.parameters)} is the one to return to.",
        "Record a new log with it, and run the pipeline on that: real traffic is the proof.",
    ]


def _keep_steps(inputs: ReportInputs, rule: Standing) -> list[str]:
    told: Any = inputs.calibration.system.get("policy")
    tuned = rule_in_words(rule.name, rule.parameters)
    if not isinstance(told, dict) or "name" not in told:
        return [f"Serve with {tuned}."]
    parameters = told.get("parameters") or {}
    if told["name"] == rule.name and parameters == rule.parameters:
        return [f"Nothing to change: the log was recorded with {tuned} already."]
    logged = rule_in_words(str(told["name"]), parameters)
    return [f"Serve with {tuned}, as tuned on the log. The log was recorded with {logged}."]


def reward_in_words(settings: RewardSettings) -> str:
    """What a unit of reward is."""
    weights = ", ".join(f"{name} {weight:g}" for name, weight in settings.class_weight.items())
    if settings.preset == "paper":
        return (
            "Reward is the paper's: throughput less the weighted response time of what is "
            f"answered (weights by class: {weights})."
        )
    terms = [
        f"{getattr(settings, term) * settings.scale:+g} for {words}".replace("-", "\u2212")
        for term, words in _TERMS.items()
        if getattr(settings, term) != 0
    ]
    weighted = f", times the weight of the class ({weights})"
    same = set(settings.class_weight.values()) == {1.0}
    return f"Reward counts {', '.join(terms)}{'' if same else weighted}. Higher is better."
