"""The page of a finished run: whole, self-contained, repeatable, escaped, and with its figures."""

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pytest

from pipeline.settings import Settings
from pipeline.stage import Folders
from pipeline.stages import report


class Page(HTMLParser):
    """The elements of a page, their attributes, and the text of specs, tables and the rest."""

    VOID = frozenset({"meta"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.specifications: dict[str, dict[str, Any]] = {}
        self.style, self.shown, self._target = "", "", ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {key: value or "" for key, value in attrs}
        self.elements.append((tag, attributes))
        if tag not in self.VOID:
            self.stack.append(tag)
        self._target = attributes.get("data-target", "")

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        inside = self.stack[-1] if self.stack else ""
        if inside == "script":
            if self._target:
                self.specifications[self._target] = json.loads(data)
        elif inside == "style":
            self.style += data
        else:
            self.shown += data

    def rows(self, chart: str) -> list[dict[str, Any]]:
        """All rows that a chart draws."""
        datasets = self.specifications[f"chart-{chart}"]["datasets"]
        return [row for values in datasets.values() for row in values]

    def with_attribute(self, name: str) -> list[str]:
        return [attributes[name] for _, attributes in self.elements if name in attributes]


@pytest.fixture(scope="module")
def page(page_text: str) -> Page:
    return Page(page_text)


def test_sections_come_in_the_order_of_the_contents(page: Page) -> None:
    sections = [attributes["id"] for tag, attributes in page.elements if tag == "section"]
    assert sections == [
        "verdict",
        "data-quality",
        "calibration",
        "fidelity",
        "training",
        "comparison",
        "gate",
        "reproduce",
    ]
    assert page.with_attribute("href") == [f"#{name}" for name in sections]


def test_every_element_that_is_opened_is_closed(page: Page) -> None:
    assert page.stack == []


def test_identifiers_are_unique_and_what_refers_to_them_finds_them(page: Page) -> None:
    identifiers = page.with_attribute("id")
    assert len(identifiers) == len(set(identifiers))
    assert set(page.with_attribute("aria-labelledby")) <= set(identifiers)
    assert set(page.with_attribute("data-target")) <= set(identifiers)


def test_page_refers_to_nothing_outside_itself(page: Page) -> None:
    assert page.with_attribute("src") == []
    assert all(target.startswith("#") for target in page.with_attribute("href"))
    assert {tag for tag, _ in page.elements} & {"link", "img", "iframe", "object", "base"} == set()
    assert not re.search(r"url\(|@import", page.style)
    # Data of a chart may come by a URL too.
    assert not any('"url"' in json.dumps(spec) for spec in page.specifications.values())


def test_page_is_below_one_and_a_half_megabytes(page_text: str) -> None:
    assert len(page_text.encode()) < 1.5e6


def test_same_inputs_give_the_same_bytes_wherever_they_lie(
    finished_run: Any, settings: Settings, page_text: str, tmp_path: Path
) -> None:
    assert finished_run.copy_to(tmp_path).page(settings) == page_text
    assert str(finished_run.root) not in page_text


def test_text_from_data_is_never_markup(finished_run: Any, page_text: str, page: Page) -> None:
    assert finished_run.license not in page_text
    assert finished_run.license in page.shown


def test_every_chart_is_valid_vega_lite_with_a_description(page: Page) -> None:
    assert len(page.specifications) == 8
    for specification in page.specifications.values():
        alt.Chart.from_dict(specification)  # raises where the schema is broken
    described = [a["aria-label"] for _, a in page.elements if a.get("class") == "chart"]
    assert len(described) == 8
    assert all(len(label) > 40 for label in described)


def test_lines_of_the_fit_are_those_of_the_calibration(finished_run: Any, page: Page) -> None:
    told = json.loads((finished_run.root / "data" / "calibration.json").read_text())
    lines = [row for row in page.rows("service") if "expected_ms" in row]
    assert len(lines) == 2 * 2 * 2  # replicas, classes, ends
    for row in lines:
        replica, name = int(row["replica"].split()[1]), row["request_class"]
        fit = told["service"][replica][["fast", "slow"].index(name)]["fit"]
        expected_ms = 1e3 * (fit["alpha_s"] + fit["beta_s"] * row["shown_size"])
        assert row["expected_ms"] == pytest.approx(expected_ms, rel=1e-5)


def test_points_of_the_fit_are_means_of_the_logged_batches(finished_run: Any, page: Page) -> None:
    lines = (finished_run.root / "data" / "sample" / "batches.jsonl").read_text().splitlines()
    batches = [json.loads(line) for line in lines]
    latency_ms = [
        (batch["departure_us"] - batch["dispatch_us"]) / 1e3
        for batch in batches
        if (batch["replica"], batch["request_class"], batch["batch_size"]) == (1, "slow", 4)
    ]
    (point,) = (
        row
        for row in page.rows("service")
        if (row["replica"], row["request_class"], row.get("total_size")) == ("replica 1", "slow", 4)
    )
    assert point["batches"] == len(latency_ms)
    assert point["mean_ms"] == pytest.approx(np.mean(latency_ms), rel=1e-5)
    spread_ms = np.quantile(latency_ms, [0.1, 0.9])
    assert [point["low_ms"], point["high_ms"]] == pytest.approx(spread_ms, rel=1e-5)


def test_errors_of_the_fidelity_chart_are_those_of_the_file_with_interval_and_tolerance(
    finished_run: Any, page: Page
) -> None:
    tolerance = {"mean": 20.0, "P50": 15.0, "P95": 25.0, "P99": 35.0}
    told = json.loads((finished_run.root / "reports" / "fidelity.json").read_text())
    expected = {
        (row["request_class"], row["band"], row["statistic"].replace("p", "P")): row
        for row in told["rows"]
        if row["metric"] == "response_s"
    }
    rows = [row for row in page.rows("fidelity") if "limit" in row]
    assert len(rows) == len(expected) == 2 * 4 * 4  # classes, bands with all, statistics
    for row in rows:
        band = row["band"].removeprefix("load ").replace("all loads", "all")
        known = expected[row["request_class"], band, row["statistic"]]
        for field in ("error", "low", "high"):
            assert row[field] == pytest.approx(100.0 * known[field], rel=1e-5)
        assert row["limit"] == pytest.approx(tolerance[row["statistic"]])


def test_quantiles_are_drawn_for_each_class_and_band(finished_run: Any, page: Page) -> None:
    told = json.loads((finished_run.root / "reports" / "fidelity.json").read_text())
    drawn = [row for row in page.rows("quantiles") if "low_ms" in row]
    assert len(drawn) == len(told["quantiles"]) > 2 * 4 * 10
    medians = [row["logged_ms"] for row in drawn if row["name"] == "P50"]
    known = [1e3 * row["logged_s"] for row in told["quantiles"] if row["level"] == 0.5]
    assert sorted(medians) == pytest.approx(sorted(known), rel=1e-5)


def test_the_fidelity_section_says_how_the_log_was_replayed(page: Page) -> None:
    assert "replayed 2 times in the simulator under the policy of the log: batch_timeout" in (
        page.shown
    )
    assert "mixed with 10% chance (declared)" in page.shown
    assert "at batch size 8 (fast) and 8 (slow)" in page.shown
    # 20 windows from 0.3 to 1.3 in even steps: 0.3 + n / 19 is below 0.7 for 8 of them, and 14
    # are at most 1.
    assert "< 0.7: 40% of the time" in page.shown
    assert "0.7-1: 30% of the time" in page.shown
    assert "> 1: 30% of the time" in page.shown


def test_what_was_fitted_is_told_with_intervals_and_reasons(finished_run: Any, page: Page) -> None:
    told = json.loads((finished_run.root / "data" / "calibration.json").read_text())
    assert "Batchesrecorded" in page.shown
    assert told["arrival_model"]["why"] in page.shown
    assert told["policy"]["text"] in page.shown
    cell = told["service"][0][1]
    bounds = cell["intervals"]["alpha_s"]
    for bound in (bounds["low"], bounds["high"]):
        assert f"{1e3 * bound:.1f}" in page.shown
    assert cell["noise"]["kind"] in ("lognormal", "residuals")


def test_returns_of_training_episodes_are_shown_per_second(page: Page) -> None:
    rows = [row for row in page.rows("learning") if row.get("series") == "training"]
    last = max((row for row in rows if row["agent"] == "ppo"), key=lambda row: row["steps"])
    # The fixture multiplies this by the horizon of 10 s.
    assert last["reward_per_s"] == pytest.approx(42.9 - 400.0 * math.exp(-39 / 5.0), rel=1e-4)


def test_only_the_policy_far_behind_is_an_arrow(page: Page) -> None:
    # uniform_random is 351 behind, the median policy about 1.
    arrows = [row for row in page.rows("comparison") if "told" in row]
    assert {row["policy"] for row in arrows} == {"uniform_random"}
    # The edges are the lowest bounds of the others, static_cap's: 38.5 - 1.9 and -2.707 - 0.45.
    assert sorted(row["edge"] for row in arrows) == pytest.approx([-3.157, 36.6])


def test_verdict_says_what_to_use_and_by_how_much(finished_run: Any, page: Page) -> None:
    assert "Use the learned policy ppo" in page.shown
    verdict = json.loads((finished_run.root / "data/policies/verdict.json").read_text())
    assert verdict["sentence"] in page.shown
    # 42.9 against 41.207, and the bounds of its interval.
    assert "+1.693 reward/s" in page.shown
    assert "95% interval +1.243 to +2.188: better" in page.shown
    assert "data/policies/ppo/" in page.shown


def test_response_times_are_shown_in_milliseconds(page: Page) -> None:
    # 0.93 of 0.0874 s and of 0.4312 s
    assert "81.3 ms" in page.shown
    assert "401 ms" in page.shown


def test_rejected_rows_are_counted_by_reason(page: Page) -> None:
    assert "2 rejected" in page.shown
    assert "arrival_us: must be a whole number of at least 0" in page.shown


def test_gate_tells_the_guards_that_an_agent_breaks(page: Page) -> None:
    assert "What ppo_attention lacks" in page.shown
    # 1.25 times the rule's 87.4 ms; the limit is 1.1 times.
    assert "P99 of response time of fast is worse than allowed: test 109 ms, limit 96.1 ms" in (
        page.shown
    )


def test_the_stage_writes_the_page_below_reports(
    finished_run: Any, settings: Settings, page_text: str, tmp_path: Path
) -> None:
    root = finished_run.root
    folders = Folders(root, root / "data", tmp_path / "data", tmp_path / "reports")
    report.main.__wrapped__(settings, folders)  # type: ignore[attr-defined]
    assert (tmp_path / "reports" / "index.html").read_text(encoding="utf-8") == page_text
    assert [path.name for path in (tmp_path / "reports").iterdir()] == ["index.html"]
