"""What there is to say about an episode, in a few lines."""

import math

import numpy as np
import polars as pl

from pipeline.inspect.episode import Episode, Played
from pipeline.inspect.frame import wrapped
from pipeline.inspect.levels import (
    QUEUE_LEVELS,
    ROW_LEVELS,
    changes_within,
    most_in_service,
    service_changes,
)
from pipeline.inspect.replica_panel import LABELED_ROWS, TALL_ROWS, is_bars
from pipeline.inspect.service import LOST
from pipeline.inspect.timeline import RESPONSE_WINDOW, Timeline
from pipeline.offered_load import offered_load
from pipeline.reporting.text import count, milliseconds, percent
from simulator.metrics import ClassMetrics, class_metrics, token_metrics
from simulator.scenario import Scenario

LINE = 190  # characters


def busy_s(service: pl.DataFrame, replicas: int) -> np.ndarray:
    """Seconds `[K]` in which each replica served something: the length of the union of its rows."""
    ordered = service.select("replica", "start_s", "end_s").sort("replica", "start_s")
    reached = pl.col("end_s").cum_max().shift(1).over("replica").fill_null(-math.inf)
    added = (pl.col("end_s") - pl.max_horizontal("start_s", reached)).clip(0.0, None)
    totals = ordered.with_columns(added=added).group_by("replica").agg(pl.col("added").sum())
    seconds = np.zeros(replicas)
    seconds[totals["replica"].to_numpy()] = totals["added"].to_numpy()
    return seconds


def on_s(timeline: Timeline, replicas: int) -> np.ndarray:
    """Seconds `[K]` in which each replica was on: starting, up or down."""
    off = timeline.replica_state.filter(pl.col("state") == "off")
    seconds = np.full(replicas, timeline.end_s)
    np.subtract.at(seconds, off["replica"].to_numpy(), (off["end_s"] - off["start_s"]).to_numpy())
    return seconds


def replica_names(timeline: Timeline, replicas: int) -> list[str]:
    """`replica 0 · 72%`: the share of its time on that each was busy."""
    busy, on = busy_s(timeline.service, replicas), on_s(timeline, replicas)
    shares = [percent(b / o, 0) if o > 0 else "off" for b, o in zip(busy, on, strict=True)]
    return [f"replica {number} · {share}" for number, share in enumerate(shares)]


def load_in_words(episode: Episode, played: Played) -> tuple[str, bool]:
    """The offered load, and whether it is more than the cluster can serve."""
    load = offered_load(episode.scenario, played.mean)
    at = "at the largest batch sizes"
    if episode.scenario.continuous:
        at = "with as many sequences as fit"
    if load > 1:
        return f"overloaded: offered load {load:.2f} {at}, the queue cannot drain", True
    return f"offered load {load:.2f} {at}", False


def facts(episode: Episode, played: Played, timeline: Timeline) -> list[str]:
    """The lines under the title."""
    scenario, records = episode.scenario, played.records
    metrics = [
        class_metrics(records, number, request_class.slo_s, played.end_s)
        for number, request_class in enumerate(scenario.request_classes)
    ]
    load, overloaded = load_in_words(episode, played)
    replicas = len(scenario.replicas)
    busy, on = busy_s(timeline.service, replicas).sum(), on_s(timeline, replicas).sum()
    overall = [
        f"{count(len(records.lane))} requests arrived",
        f"{count(sum(m.served for m in metrics))} answered",
        f"{count(sum(m.shed for m in metrics))} shed",
        f"{count(sum(m.in_system for m in metrics))} in the system at the end",
        f"utilization {percent(busy / on if on > 0 else math.nan, 0)}",
    ]
    lines = [f"{load[0].upper()}{load[1:]}"] if overloaded else []
    lines.append(" · ".join(overall if overloaded else [*overall, load]))
    by_class = [
        _class_in_words(scenario, number, metrics[number], played) for number in range(len(metrics))
    ]
    return lines + wrapped(by_class, "  |  ", LINE)


def _class_in_words(scenario: Scenario, number: int, metrics: ClassMetrics, played: Played) -> str:
    words = [
        f"mean {milliseconds(metrics.response_mean_s)}",
        f"P99 {milliseconds(metrics.response_p99_s)}",
    ]
    if scenario.continuous:
        tokens = token_metrics(played.records, number)
        words.append(f"TTFT P99 {milliseconds(tokens.ttft_p99_s)}")
        words.append(f"TPOT P99 {milliseconds(tokens.tpot_p99_s)}")
    words.append(f"{percent(metrics.slo_attainment)} within the SLO")
    return f"{scenario.class_names[number]}: response {', '.join(words)}"


def reading_in_words(
    scenario: Scenario, shown: Timeline, episode_s: float, start_s: float, end_s: float
) -> str:
    """How the picture of [start_s, end_s] is read, of an episode of `episode_s`."""
    replicas, bars = len(scenario.replicas), is_bars(shown.service, scenario)
    told = [f"height: requests in service, {count(most_in_service(shown.service))} at most"]
    if bars and replicas > TALL_ROWS:
        told = ["bars: batches"]
    elif bars and replicas <= LABELED_ROWS:
        told.append("label: batch size")
    queue = shown.queue_change.with_columns(row=pl.lit(0))
    means = {"queue length": (changes_within(queue, start_s, end_s), QUEUE_LEVELS)}
    if not bars:
        changes = service_changes(shown.service)
        means["replicas"] = changes_within(changes, start_s, end_s), ROW_LEVELS
    for name, (instants, most) in means.items():
        if instants > most:
            told.append(f"{name}: means over {milliseconds((end_s - start_s) / most)}")
    if (shown.service["ending"] == LOST).any():
        told.append("pale: lost by a fault")
    if (shown.replica_state["state"] == "off").any():
        told.append("blank: off")
    if not shown.response.is_empty():
        told.append(f"P95 response: of the last {RESPONSE_WINDOW} answers")
    if (start_s, end_s) != (0.0, episode_s):
        told.insert(0, f"shown: {start_s:g} to {end_s:g} s of {episode_s:g} s")
    line = " · ".join(told)
    return f"{line[0].upper()}{line[1:]}"
