"""How the agents learned."""

from typing import Any

import numpy as np
import polars as pl

from pipeline.reporting.charts import curve_panels, learning_chart, specification
from pipeline.reporting.inputs import LearnedAgent, ReportInputs
from pipeline.reporting.markup import Column, Html, chart, details, element, section, table
from pipeline.reporting.text import ABSENT, MINUS, count, reward
from pipeline.reporting.verdict import standing_of
from pipeline.settings import Settings

_POINTS = 200  # of a line, at most
_MEASURES = {
    "entropy": "entropy (nats)",
    "explained_variance": "explained variance",
    "value_loss": "value loss",
    "approximate_kl": "approximate KL (nats)",
    "clip_fraction": "clip fraction",
}


def learning_section(inputs: ReportInputs, settings: Settings) -> Html:
    """Training curves of every agent."""
    title = "Training curves"
    if not inputs.agents:
        return section("training", title, element("p", "The run names no agent."))
    online = [agent for agent in inputs.agents if agent.kind == "online"]
    offline = [agent for agent in inputs.agents if agent.kind == "offline"]
    parts: list[Html] = [_agents(inputs)]
    if online:
        parts.append(element("h3", "Online agents"))
        parts.append(_reward_figure(inputs, online, settings.scenario.horizon_s))
        parts.append(_measures_figure(online))
    if offline:
        parts.append(element("h3", "Offline agents"))
        parts.append(_losses_figure(offline))
    return section("training", title, *parts)


def _agents(inputs: ReportInputs) -> Html:
    columns = [
        Column("Agent"),
        Column("Kind"),
        Column("Algorithm"),
        Column("Network"),
        Column("Updates", numeric=True),
        Column("Decisions seen", numeric=True),
        Column("Validation reward/s", numeric=True),
    ]
    rows = [
        [
            agent.name,
            agent.kind,
            str(agent.description.get("algorithm", ABSENT)),
            str(agent.description.get("network", {}).get("kind", ABSENT)),
            count(int(agent.curve["update"].max() or 0)),  # type: ignore[arg-type]
            _decisions(agent),
            reward(standing_of(inputs.card, agent.name).validation_reward_per_s),
        ]
        for agent in inputs.agents
    ]
    rule = standing_of(inputs.card, inputs.verdict.best_rule)
    caption = (
        f"Agents of the run; the best rule, {rule.name}, has a validation reward of "
        f"{reward(rule.validation_reward_per_s)} per second"
    )
    return table(caption, columns, rows)


def _decisions(agent: LearnedAgent) -> str:
    """How many the agent learned from: made in the simulator, or recorded in the transitions."""
    if "steps" in agent.curve.columns:
        return count(int(agent.curve["steps"].max() or 0))  # type: ignore[arg-type]
    recorded = agent.description.get("training", {}).get("transitions")
    return ABSENT if recorded is None else count(int(recorded))


def thinned(curve: pl.DataFrame) -> pl.DataFrame:
    """At most `_POINTS` rows of a curve, evenly spaced, the first and the last among them."""
    if len(curve) <= _POINTS:
        return curve
    return curve[np.linspace(0, len(curve) - 1, _POINTS).round().astype(int).tolist()]


def _reward_figure(inputs: ReportInputs, online: list[LearnedAgent], horizon_s: float) -> Html:
    rows = []
    for agent in online:
        training = thinned(agent.curve.drop_nulls("return_mean"))
        validation = thinned(agent.curve.drop_nulls("validation"))
        for series, curve, rate in (
            ("training", training, pl.col("return_mean") / horizon_s),
            ("validation", validation, pl.col("validation")),
        ):
            found = curve.select("steps", rate.alias("reward_per_s")).to_dicts()
            rows += [{"agent": agent.name, "series": series, **row} for row in found]
    rule = standing_of(inputs.card, inputs.verdict.best_rule)
    value = rule.validation_reward_per_s
    names = [agent.name for agent in online]
    lowest = _lowest([row["reward_per_s"] for row in rows], value)
    best = {"name": f"best rule, {rule.name}", "reward_per_s": value}
    told = "" if lowest is None else f" Lines are cut off below {lowest:,.3g}.".replace("-", MINUS)
    if any(row["series"] == "validation" for row in rows):
        told = " Solid: greedy policy on the validation split." + told
    return chart(
        "learning",
        specification(learning_chart(rows, names, best, lowest)),
        f"Line chart of reward per second by decisions made, for {', '.join(names)}, with the "
        f"best rule at {reward(value)}. The table above has the last values.",
        "Black: the best rule on the validation split. Dashed: episodes of the training itself, "
        "which explores and meets the train split." + told,
    )


def _lowest(values: list[float], rule: float) -> float | None:
    """Where to cut a chart whose first updates would flatten the rest; None where they do not."""
    if not values:
        return None
    quarter, highest = float(np.quantile(values, 0.25)), max(*values, rule)
    lowest = min(quarter, rule) - (highest - min(quarter, rule))
    return lowest if min(values) < lowest else None


def _measures_figure(online: list[LearnedAgent]) -> Html:
    rows: list[dict[str, Any]] = []
    for agent in online:
        curve = thinned(agent.curve)
        for measure, panel in _MEASURES.items():
            if measure in curve.columns:
                rows += _panel_rows(agent, curve, "steps", measure, panel)
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    names = [agent.name for agent in online]
    figure = chart(
        "measures",
        specification(curve_panels(rows, names, panels, "decisions made in training")),
        f"Line charts of {', '.join(panels)} by decisions made, for {', '.join(names)}.",
        "One point an update; explained variance is that of the returns by the value network.",
    )
    return details("Entropy, value network and step size", figure)


def _losses_figure(offline: list[LearnedAgent]) -> Html:
    rows: list[dict[str, Any]] = []
    panels = []
    for agent in offline:
        curve = thinned(agent.curve)
        for loss in shown_losses(curve):
            panel = f"{agent.name}: {loss.replace('_', ' ')}"
            found = _panel_rows(agent, curve, "update", loss, panel)
            rows += found
            panels += [panel] if found else []
    names = [agent.name for agent in offline]
    return chart(
        "losses",
        specification(curve_panels(rows, names, panels, "updates")),
        f"Line charts of the losses by update: {', '.join(panels)}.",
        "Mean losses of each epoch. Losses of different agents do not compare; what the agents "
        "earn is in Policy comparison.",
    )


def shown_losses(curve: pl.DataFrame) -> list[str]:
    """The losses worth a panel: not those that are off, nor a total that equals its only part."""
    told = [name for name in curve.columns if name != "update" and (curve[name] != 0.0).any()]
    parts = [name for name in told if name != "loss"]
    return [
        name
        for name in told
        if name != "loss" or not any(curve[name].equals(curve[part]) for part in parts)
    ]


def _panel_rows(
    agent: LearnedAgent, curve: pl.DataFrame, x: str, column: str, panel: str
) -> list[dict[str, Any]]:
    found = curve.select(pl.col(x).alias("progress"), pl.col(column).alias("value")).drop_nulls()
    return [{"agent": agent.name, "panel": panel, **row} for row in found.to_dicts()]
