"""All rules and agents on the same test episodes."""

import math
from collections.abc import Iterable
from statistics import median

from pipeline.reporting.charts import KINDS, comparison_chart, specification
from pipeline.reporting.inputs import ReportInputs
from pipeline.reporting.markup import Column, Html, chart, element, join, section, table
from pipeline.reporting.text import (
    ABSENT,
    count,
    gain,
    gain_interval,
    milliseconds,
    parameters_in_words,
    percent,
    reward,
    reward_interval,
)
from pipeline.settings import Settings
from pipeline.validation.intervals import Interval
from pipeline.validation.scorecard import Standing

_SPREADS = 4.0  # median differences to the best rule that the chart reaches down to
_KIND = dict(zip(("rule", "offline", "online"), KINDS, strict=True))


def comparison_section(inputs: ReportInputs, settings: Settings) -> Html:
    """Reward, its difference to the best rule, response times, and the parameters of the rules."""
    level = percent(settings.validate.confidence, 0)
    return section(
        "comparison",
        "Policy comparison",
        element(
            "p",
            "Every policy met the same arrivals and noise, so differences are paired: they are "
            "surer than the rewards themselves. The rules are tuned.",
        ),
        _figure(inputs, level),
        _rewards(inputs, level),
        _by_class(inputs, settings),
        element("h3", "Parameters of the rules"),
        element(
            "p",
            f"Found on the train split, {count(inputs.tuning_episodes)} episodes for each "
            f"setting, at most {count(settings.tune.budget)} settings for each rule.",
        ),
        _parameters(inputs),
    )


def _figure(inputs: ReportInputs, level: str) -> Html:
    standings = inputs.card.standings
    rows = [
        {
            "policy": standing.name,
            "kind": _KIND[standing.kind],
            "reward": standing.reward_per_s.mean,
            "reward_low": standing.reward_per_s.low,
            "reward_high": standing.reward_per_s.high,
            "gain": standing.difference.mean,
            "gain_low": standing.difference.low,
            "gain_high": standing.difference.high,
        }
        for standing in standings
    ]
    lowest = _lowest(inputs)
    cut = "" if lowest is None else " An arrow stands for a policy beyond the left edge."
    told = "; ".join(
        f"{standing.name} {reward(standing.reward_per_s.mean)}, difference "
        f"{gain(standing.difference.mean)}"
        for standing in standings
    )
    return chart(
        "comparison",
        specification(comparison_chart(rows, [s.name for s in standings], lowest)),
        f"Reward per second and difference to the best rule, {inputs.verdict.best_rule}: {told}.",
        f"Left: reward per second on the test split. Right: difference to the best rule, "
        f"{inputs.verdict.best_rule}, episode by episode; an interval right of the black zero "
        f"line is a gain. Bars: {level} intervals." + cut,
    )


def _lowest(inputs: ReportInputs) -> tuple[float, float] | None:
    """Left edges of reward and gain where a few policies far behind would flatten the rest.

    Whoever is not far behind has its whole interval right of them.
    """
    standings = inputs.card.standings
    distances = [abs(s.difference.mean) for s in standings if s.difference.mean != 0.0]
    if not distances:
        return None
    furthest = -_SPREADS * median(distances)
    near = [standing for standing in standings if standing.difference.mean >= furthest]
    if len(near) == len(standings):
        return None
    return _least(s.reward_per_s for s in near), _least(s.difference for s in near)


def _least(intervals: Iterable[Interval]) -> float:
    # A bound may be NaN, a mean may not; `min` would let NaN through.
    return min(value for interval in intervals for value in interval[:2] if not math.isnan(value))


def _rewards(inputs: ReportInputs, level: str) -> Html:
    columns = [
        Column("Policy"),
        Column("Kind"),
        Column("Reward/s", numeric=True),
        Column(f"{level} interval", numeric=True),
        Column("Difference to best rule", numeric=True),
        Column(f"{level} interval", numeric=True),
        Column("Validation reward/s", numeric=True),
    ]
    rows = [
        [
            _named(standing, inputs),
            standing.kind,
            reward(standing.reward_per_s.mean),
            reward_interval(standing.reward_per_s),
            *_difference(standing, inputs),
            reward(standing.validation_reward_per_s),
        ]
        for standing in inputs.card.standings
    ]
    return table("Reward on the test split, best first", columns, rows)


def _named(standing: Standing, inputs: ReportInputs) -> str:
    if standing.name == inputs.verdict.winner:
        return join([standing.name, element("span", "winner", class_="tag good")])
    if standing.name == inputs.verdict.best_rule:
        return join([standing.name, element("span", "best rule", class_="tag")])
    return standing.name


def _difference(standing: Standing, inputs: ReportInputs) -> tuple[str, str]:
    if standing.name == inputs.verdict.best_rule:
        return ABSENT, ABSENT
    return gain(standing.difference.mean), gain_interval(standing.difference)


def _by_class(inputs: ReportInputs, settings: Settings) -> Html:
    columns = [Column("Policy")]
    names = list(inputs.card.standings[0].by_class)
    for name in names:
        group = f"{name}, SLO {milliseconds(settings.scenario.slo_s[name])}"
        titles = ("P50", "P95", "P99", "SLO attainment", "Shed")
        columns += [Column(title, numeric=True, group=group) for title in titles]
    rows = []
    for standing in inputs.card.standings:
        row = [_named(standing, inputs)]
        for name in names:
            metrics = standing.by_class[name]
            row += [milliseconds(metrics[f"response_p{p}_s"]) for p in (50, 95, 99)]
            row += [percent(metrics["slo_attainment"]), percent(metrics["shed_fraction"], 2)]
        rows.append(row)
    note = (
        "P50, P95 and P99 are percentiles of the response time of answered requests. SLO "
        "attainment is the share of all arrived requests answered within the SLO; a shed request "
        "counts as a miss. Shed is the share refused."
    )
    return join(
        [
            table("Response times, SLO attainment and shedding on the test split", columns, rows),
            element("p", note, class_="note"),
        ]
    )


def _parameters(inputs: ReportInputs) -> Html:
    columns = [
        Column("Rule"),
        Column("Parameters"),
        Column("Settings tried", numeric=True),
        Column("Train reward/s", numeric=True),
        Column("Validation reward/s", numeric=True),
    ]
    ordered = sorted(inputs.rules.values(), key=lambda tuned: -tuned.reward_per_s)
    rows = [
        [
            tuned.rule,
            parameters_in_words(tuned.parameters),
            count(tuned.evaluations),
            reward(tuned.training_reward_per_s),
            reward(tuned.reward_per_s),
        ]
        for tuned in ordered
    ]
    return table("Tuned rules, best in validation first", columns, rows)
