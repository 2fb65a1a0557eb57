"""The picture: what is in it, and what its words say."""

import json
import math
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
import vl_convert

from pipeline.inspect.chart import Caption, timeline_chart
from pipeline.inspect.episode import Episode, Played
from pipeline.inspect.facts import busy_s, facts, on_s, reading_in_words, replica_names
from pipeline.inspect.replica_panel import MOST_BARS, TALL_ROWS
from pipeline.inspect.service import SERVICE, EventLog
from pipeline.inspect.timeline import Timeline, cut_to
from pipeline.offered_load import MeanArrivals
from simulator.environment import RequestRecords
from simulator.policies.registry import build_policy
from simulator.replica import Replica
from simulator.scenario import RequestClass, Scenario
from simulator.state import RequestStatus
from simulator.traffic import PoissonWorkload

SCENARIO = Scenario(
    (RequestClass("fast", 0.1), RequestClass("down", 0.5)),  # a class may be called as a state is
    (Replica((1.0, 1.0), (1.0, 1.0), (0.0, 0.0), 4),) * 2,
    (1, 2, 4),
    queue_capacity=5,
)
CAPTION = Caption("title <&>", ["first fact", "second fact"], ["replica 0", "replica 1"])
SPAN = {"start_s": pl.Float64, "end_s": pl.Float64}


def timeline(**tables: list[tuple[Any, ...]]) -> Timeline:
    """Ten seconds in which nothing but these rows is told."""
    schemas = {
        "service": SERVICE,
        "replica_state": {"replica": pl.Int64, "state": pl.String, **SPAN},
        "queue_change": {"clock_s": pl.Float64, "request_class": pl.Int64, "amount": pl.Int64},
        "shed": {"clock_s": pl.Float64, "request_class": pl.Int64},
        "set_point": {"set_point": pl.String, "value": pl.Float64, **SPAN},
        "response": {
            "request_class": pl.Int64,
            "clock_s": pl.Float64,
            "response_s": pl.Float64,
            "response_p95_s": pl.Float64,
        },
    }
    frames = {
        name: pl.DataFrame(tables.get(name, []), schema, orient="row")
        for name, schema in schemas.items()
    }
    return Timeline(end_s=10.0, **frames)


FULL = timeline(
    service=[
        (0, 0, 0.0, 4.0, 0, 3, 3, "completed"),
        (0, 1, 4.0, 6.0, 0, 2, 2, "lost"),
        (1, 0, 7.0, 8.0, 0, 1, 1, "preempted"),
    ],
    replica_state=[(0, "down", 6.0, 7.0), (1, "off", 0.0, 5.0), (1, "starting", 5.0, 6.5)],
    queue_change=[(1.0, 0, 1), (2.0, 1, 3), (4.0, 1, -3)],
    shed=[(3.0, 1)],
    set_point=[("batch_timeout_s", 0.02, 0.0, 5.0), ("batch_timeout_s", 0.0, 5.0, 10.0)],
    response=[(0, 4.0, 0.08, 0.08)],
)


@cache
def spec_of(shown: str, alarm: bool = False) -> dict[str, Any]:
    """The picture of FULL, or of nothing; made once, since it takes a while."""
    told = FULL if shown == "full" else timeline()
    return timeline_chart(told, SCENARIO, CAPTION._replace(alarm=alarm), 0.0, 10.0)


def panels(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return spec["vconcat"]


def rows_of(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """All rows of all data sets of a spec."""
    return [row for rows in spec["datasets"].values() for row in rows]


def words(spec: dict[str, Any]) -> set[str]:
    return {row["words"] for row in rows_of(spec) if "words" in row}


def test_an_episode_has_a_panel_for_each_thing_that_it_has() -> None:
    # The head, the replicas, shed requests, set-points, queue and responses.
    assert len(panels(spec_of("full"))) == 6
    bare = spec_of("bare")
    assert len(panels(bare)) == 3


def test_the_legend_names_the_classes_and_only_the_states_that_occur() -> None:
    full = words(spec_of("full"))
    assert {"fast", "down", "cold start", "preempted", "first fact", "second fact"} <= full
    bare = words(spec_of("bare"))
    assert bare == {"fast", "down", "first fact", "second fact"}


def test_a_class_called_down_has_not_the_color_of_a_replica_that_is_down() -> None:
    spec = spec_of("full")
    colors = [row["color"] for row in rows_of(spec) if row.get("words") == "down"]
    assert len(set(colors)) == 2


def test_a_batch_is_a_bar_as_high_as_it_has_requests_of_the_tallest() -> None:
    spec = spec_of("full")
    bars = {row["start_s"]: row for row in rows_of(spec) if row.get("ending") and "ink" not in row}
    height = {start_s: bar["bottom"] - bar["top"] for start_s, bar in bars.items()}
    assert height[4.0] == pytest.approx(height[0.0] * 2 / 3)
    assert height[7.0] == pytest.approx(height[0.0] * 1 / 3)
    assert bars[0.0]["bottom"] == bars[4.0]["bottom"] == pytest.approx(bars[7.0]["bottom"] - 1)


def test_more_bars_than_can_be_told_apart_become_a_level() -> None:
    edges = np.linspace(0.0, 10.0, MOST_BARS + 2)
    rows = [(0, 0, float(s), float(e), 0, 1, 1, "completed") for s, e in pairwise(edges)]
    few = timeline_chart(timeline(service=rows[:-1]), SCENARIO, CAPTION, 0.0, 10.0)
    many = timeline_chart(timeline(service=rows), SCENARIO, CAPTION, 0.0, 10.0)
    assert sum("ending" in row for row in rows_of(few)) == MOST_BARS
    assert not any("ending" in row for row in rows_of(many))
    assert '"area"' in json.dumps(panels(many)[1])


def test_bars_of_many_replicas_fill_their_rows() -> None:
    many = TALL_ROWS + 1
    scenario = replace(SCENARIO, replicas=SCENARIO.replicas[:1] * many)
    names = [f"replica {number}" for number in range(many)]
    told = timeline(
        service=[(7, 0, 0.0, 4.0, 0, 1, 1, "completed"), (8, 0, 0.0, 4.0, 0, 4, 4, "completed")]
    )
    spec = timeline_chart(told, scenario, CAPTION._replace(replicas=names), 0.0, 10.0)
    bars = [row for row in rows_of(spec) if "ending" in row]
    low, high = (bar["bottom"] - bar["top"] for bar in bars)
    assert low == pytest.approx(high)
    assert "Bars: batches" in reading_in_words(scenario, told, 10.0, 0.0, 10.0)


def test_a_warning_is_the_one_red_line() -> None:
    spec = spec_of("full", alarm=True)
    inks = {row["words"]: row["ink"] for row in rows_of(spec) if "fact" in row.get("words", "")}
    assert inks["first fact"] != inks["second fact"]


def test_the_cold_start_is_hatched_within_its_span() -> None:
    lines = [row for row in rows_of(spec_of("full")) if row.get("key") == "starting"]
    assert len(lines) > 10
    assert min(line["start_s"] for line in lines) >= 5.0
    assert max(line["end_s"] for line in lines) <= 6.5
    assert all(1.0 < line["bottom"] <= 1.94 + 1e-6 for line in lines)


def test_both_formats_are_drawn_the_same_each_time() -> None:
    spec = spec_of("full")
    svg = vl_convert.vegalite_to_svg(spec)
    assert svg == vl_convert.vegalite_to_svg(spec)
    assert "title &lt;&amp;&gt;" in svg
    assert "20.0 ms" in svg  # the set-point, in the unit of people
    png = vl_convert.vegalite_to_png(spec)
    assert png == vl_convert.vegalite_to_png(spec)
    width, height = (int.from_bytes(png[place : place + 4], "big") for place in (16, 20))
    assert (width, height) == (pytest.approx(1600, abs=20), pytest.approx(900, abs=20))


def test_busy_time_is_counted_once_where_services_overlap() -> None:
    service = timeline(
        service=[
            (0, 0, 0.0, 4.0, 0, 1, 1, "completed"),
            (0, 0, 1.0, 2.0, 0, 1, 1, "completed"),
            (0, 1, 3.0, 5.0, 0, 1, 1, "completed"),
            (0, 1, 7.0, 8.0, 0, 1, 1, "completed"),
            (2, 1, 7.0, 8.5, 0, 1, 1, "completed"),
        ]
    ).service
    assert busy_s(service, 3).tolist() == [6.0, 0.0, 1.5]


def test_time_on_is_all_but_time_off() -> None:
    assert on_s(FULL, 2).tolist() == [10.0, 5.0]
    assert replica_names(FULL, 2) == ["replica 0 · 60%", "replica 1 · 20%"]
    never = timeline(replica_state=[(0, "off", 0.0, 10.0)])
    assert replica_names(never, 1) == ["replica 0 · off"]


def played(rate_rps: float) -> tuple[Episode, Played]:
    """Three requests of `fast`: answered after 50 and 150 ms, and shed; one of `down` waits."""
    records = RequestRecords(
        lane=np.zeros(4, int),
        request_class=np.array([0, 0, 0, 1]),
        arrival_s=np.array([0.0, 1.0, 2.0, 3.0]),
        dispatch_s=np.array([0.0, 1.0, math.nan, math.nan]),
        departure_s=np.array([0.05, 1.15, math.nan, math.nan]),
        status=np.array(
            [
                RequestStatus.COMPLETED,
                RequestStatus.COMPLETED,
                RequestStatus.SHED,
                RequestStatus.WAITING,
            ]
        ),
        replica=np.array([0, 0, -1, -1]),
        first_token_s=np.full(4, math.nan),
        output_tokens=np.zeros(4, int),
    )
    workload = PoissonWorkload((1.0, 1.0))
    policy = build_policy("static_cap", SCENARIO, {"batch_size": 4})
    episode = Episode("made", SCENARIO, workload, policy, "static_cap", 10.0, 7)
    ones, none = np.ones(2), np.zeros(0)
    mean = MeanArrivals(np.array([rate_rps, 0.0]), ones, ones, ones)
    return episode, Played(records, EventLog(none, none, none), 10.0, mean)


def test_the_facts_say_what_became_of_the_requests() -> None:
    # Batches of four take 5 s on either replica: 1.6 requests a second.
    lines = facts(*played(0.8), FULL)
    assert lines[0] == (
        "4 requests arrived · 2 answered · 1 shed · 1 in the system at the end · "
        "utilization 47% · offered load 0.50 at the largest batch sizes"
    )
    assert "fast: response mean 100 ms, P99 149 ms, 33.3% within the SLO" in lines[1]
    assert "down: response mean \u2013, P99 \u2013, 0.0% within the SLO" in lines[1]


def test_overload_comes_first() -> None:
    lines = facts(*played(2.08), FULL)
    assert lines[0] == (
        "Overloaded: offered load 1.30 at the largest batch sizes, the queue cannot drain"
    )
    assert "offered load" not in lines[1]


def test_the_reading_line_tells_the_window_and_the_marks_that_occur() -> None:
    line = reading_in_words(SCENARIO, FULL, 10.0, 0.0, 10.0)
    assert line == (
        "Height: requests in service, 3 at most · label: batch size · pale: lost by a fault · "
        "blank: off · P95 response: of the last 32 answers"
    )
    shown = cut_to(FULL, 7.0, 9.0)
    assert reading_in_words(SCENARIO, shown, 10.0, 7.0, 9.0).startswith("Shown: 7 to 9 s of 10 s")
    assert "lost" not in reading_in_words(SCENARIO, shown, 10.0, 7.0, 9.0)
