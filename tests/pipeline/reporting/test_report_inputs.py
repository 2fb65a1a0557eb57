"""Files that are missing, empty or of another run are named; other verdicts have their page."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.reporting.verdict import verdict_section
from pipeline.settings import Settings

FILES = [
    "data/warehouse.json",
    "data/tables/sources/sample.parquet",
    "data/tables/rejects/sample.parquet",
    "data/tables/requests/sample.parquet",
    "data/tables/batches/sample.parquet",
    "data/calibration.json",
    "data/heuristics.json",
    "data/scorecard.json",
    "data/agents/ppo/agent.json",
    "data/agents/ppo/curve.csv",
    "data/policies/verdict.json",
    "reports/fidelity.json",
]


@pytest.mark.parametrize("file", FILES)
def test_a_missing_or_empty_file_is_named(
    finished_run: Any, settings: Settings, tmp_path: Path, file: str
) -> None:
    run = finished_run.copy_to(tmp_path)
    path = run.root / file
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=re.escape(path.name)):
        run.inputs(settings)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="dvc repro") as caught:
        run.inputs(settings)
    missing = path.with_name("*.parquet") if path.suffix == ".parquet" else path
    assert caught.value.filename == str(missing)


@pytest.mark.parametrize("file", [file for file in FILES if file.endswith(".json")])
def test_a_json_file_without_its_keys_is_named(
    finished_run: Any, settings: Settings, tmp_path: Path, file: str
) -> None:
    run = finished_run.copy_to(tmp_path)
    for content in ("{}", "[1]", "{", '{"other": 1}'):
        if file.endswith("agent.json") and content == '{"other": 1}':
            continue  # its keys are described elsewhere; none is needed here
        (run.root / file).write_text(content)
        with pytest.raises(ValueError, match=re.escape(Path(file).name)):
            run.inputs(settings)


def test_a_verdict_of_another_run_is_refused(
    finished_run: Any, settings: Settings, tmp_path: Path
) -> None:
    run = finished_run.copy_to(tmp_path)
    path = "data/policies/verdict.json"
    run.edit(path, lambda values: values.update(best_rule="fifo"))
    with pytest.raises(ValueError, match=r"verdict\.json: best_rule = 'fifo'"):
        run.inputs(settings)
    run.edit(path, lambda values: values.update(best_rule="c_mu", winner="reinforce"))
    with pytest.raises(ValueError, match=r"verdict\.json: winner = 'reinforce'"):
        run.inputs(settings)


def test_an_agent_of_the_run_that_was_not_compared_is_named(
    finished_run: Any, settings: Settings, tmp_path: Path
) -> None:
    run = finished_run.copy_to(tmp_path)

    def forget(card: dict[str, Any]) -> None:
        card["standings"] = [s for s in card["standings"] if s["name"] != "reinforce"]

    run.edit("data/scorecard.json", forget)
    with pytest.raises(ValueError, match="no online agent 'reinforce'"):
        run.inputs(settings)


def test_without_a_winner_the_rule_is_kept_and_its_setting_told(
    finished_run: Any, settings: Settings, tmp_path: Path
) -> None:
    run = finished_run.copy_to(tmp_path)
    run.refuse_winner()
    shown = run.seen(verdict_section(run.inputs(settings), settings))
    assert "Keep the rule c_mu" in shown
    assert "Serve with c_mu (batch size: fast 8 and slow 2)" in shown
    assert "recorded with batch_timeout (max batch size 8, batch timeout 2.00 ms)" in shown


def test_a_failed_fidelity_stands_above_the_verdict(
    finished_run: Any, settings: Settings, tmp_path: Path
) -> None:
    run = finished_run.copy_to(tmp_path)
    run.edit("reports/fidelity.json", lambda values: values.update(passed=False))
    shown = run.seen(verdict_section(run.inputs(settings), settings))
    assert "Do not decide on this page yet" in shown
    assert "Hand the bundle" not in shown


def test_a_run_without_agents_has_a_page_too(
    finished_run: Any, settings: Settings, tmp_path: Path
) -> None:
    run = finished_run.copy_to(tmp_path)
    run.refuse_winner()

    def rules_alone(card: dict[str, Any]) -> None:
        card["standings"] = [s for s in card["standings"] if s["kind"] == "rule"]

    run.edit("data/scorecard.json", rules_alone)
    shutil.rmtree(run.root / "data" / "agents")
    alone = replace(settings, run=replace(settings.run, offline=(), online=()))
    shown = run.seen(run.page(alone))
    assert "The run names no agent." in shown
    assert "No agent asks to pass the gate." in shown


def test_figures_that_are_absent_show_as_a_dash(
    finished_run: Any, settings: Settings, tmp_path: Path
) -> None:
    run = finished_run.copy_to(tmp_path)

    def starve(card: dict[str, Any]) -> None:  # an agent that answers no request of a class
        last = next(s for s in card["standings"] if s["name"] == "discrete_bc")
        for metric in ("response_p50_s", "response_p95_s", "response_p99_s"):
            last["by_class"]["slow"][metric] = None
        for guard in last["guards"]:
            if guard["metric"] == "response_p99_s" and guard["request_class"] == "slow":
                guard.update(policy=None, holds=False)
        last["reasons"] += ["test", "slower"]  # busier is broken by the fixture already
        last["difference"]["low"] = last["gate_low"] = None

    run.edit("data/scorecard.json", starve)
    page = run.page(settings)
    shown = run.seen(page)
    assert "\u2013 to \u22120.812" in shown  # the interval of its difference
    assert "P99 of response time of slow is worse than allowed: test \u2013" in shown
    assert "nan" not in shown
