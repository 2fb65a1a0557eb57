"""`python -m pipeline.inspect`: described and calibrated episodes, and what it refuses."""

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.calibration.calibrate import CalibrationRules, calibrate
from pipeline.calibration.describe import to_json
from pipeline.calibration.log import read_logged_run
from pipeline.files import write_json
from pipeline.inspect.arguments import read_arguments
from pipeline.inspect.choice import chosen_episode
from pipeline.inspect.command import main
from pipeline.inspect.episode import play
from pipeline.inspect.timeline import build_timeline
from pipeline.stage import CONF, ROOT
from simulator.state import RequestStatus

DESCRIBED = sorted(path.stem for path in (CONF / "episode").glob("*.yaml"))
FAULTS = "+episode.scenario.faults={mean_time_between_s: 1.0, repair_s: 0.2, requeue: true}"


@pytest.mark.parametrize("name", DESCRIBED)
@pytest.mark.parametrize("faulty", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_tables_of_a_described_episode_agree_with_its_records(name: str, faulty: bool) -> None:
    words = [f"episode={name}", "seed=3", "horizon_s=2.3"]
    if faulty and "faults" not in (CONF / "episode" / f"{name}.yaml").read_text(encoding="utf-8"):
        words.append(FAULTS)
    episode = chosen_episode(read_arguments(words), ROOT / "data")
    played = play(episode)
    records = played.records
    timeline = build_timeline(episode.scenario, records, played.events, played.end_s)

    served = timeline.service.with_columns(count=pl.col("high") - pl.col("low"))
    for ending, status in (
        ("completed", RequestStatus.COMPLETED),
        ("running", RequestStatus.IN_SERVICE),
    ):
        rows = served.filter(pl.col("ending") == ending)
        assert rows["count"].sum() == (records.status == status).sum()
    assert len(timeline.shed) == (records.status == RequestStatus.SHED).sum()
    for number in range(len(episode.scenario.request_classes)):
        amounts = timeline.queue_change.filter(pl.col("request_class") == number)
        by_instant = amounts.group_by("clock_s").agg(pl.col("amount").sum()).sort("clock_s")
        length = np.cumsum(by_instant["amount"].to_numpy())
        waiting = (records.status == RequestStatus.WAITING) & (records.request_class == number)
        assert length.min(initial=0) >= 0
        assert amounts["amount"].sum() == waiting.sum()


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_described_episode_is_drawn(tmp_path: Path, capsys: Any, suffix: str) -> None:
    out = tmp_path / "new" / f"picture.{suffix}"
    main(["episode=dispatch", "horizon_s=1", "seed=5", f"out={out}"])
    drawn = out.read_bytes()
    assert drawn.startswith(b"\x89PNG" if suffix == "png" else b"<svg")
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    told = capsys.readouterr().out
    assert "dispatch · batch_timeout (max batch size 8, batch timeout 20.0 ms) · seed 5" in told
    assert "requests arrived" in told
    assert told.endswith(f"Written to {out}\n")


def test_equal_seeds_meet_equal_luck_and_another_one_another() -> None:
    departures = []
    for seed in (1, 1, 2):
        words = ["episode=faults", "horizon_s=1", f"seed={seed}"]
        played = play(chosen_episode(read_arguments(words), ROOT / "data"))
        departures.append((played.records.departure_s.tobytes(), played.events.clock_s.tobytes()))
    assert departures[0] == departures[1]
    assert departures[0] != departures[2]


def test_a_window_and_another_policy_are_shown(tmp_path: Path) -> None:
    out = tmp_path / "picture.svg"
    words = ["episode=dispatch", "start_s=0.5", "end_s=1.5", "policy=fifo", "policy.batch_size=4"]
    main([*words, f"out={out}"])
    picture = out.read_text(encoding="utf-8")
    assert "dispatch · fifo (batch size 4) · seed 7" in picture
    assert "Shown: 0.5 to 1.5 s of 4 s" in picture


def test_a_scenario_that_cannot_drain_is_drawn_with_a_warning(tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "picture.svg"
    main(["episode=overload", "horizon_s=1", f"out={out}"])
    told = capsys.readouterr().out
    assert "warning: overloaded: offered load 1." in told
    assert "Overloaded: offered load 1." in out.read_text(encoding="utf-8")


def test_overrides_reach_fields_that_the_file_has_and_that_it_leaves_out() -> None:
    fields = ["episode.scenario.queue_capacity=7", "episode.scenario.view.refresh_s=0.5"]
    words = ["episode=overload", *fields, "seed=11"]
    episode = chosen_episode(read_arguments(words), ROOT / "data")
    assert episode.scenario.queue_capacity == 7
    assert episode.scenario.view.refresh_s == 0.5
    assert episode.seed == 11


@pytest.fixture(scope="module")
def results(ingest: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tables and the calibration of the sample, and rules tuned by hand."""
    data = tmp_path_factory.mktemp("results") / "data"
    ingest(ROOT, "data/sample", out=data)
    run = read_logged_run(data / "tables", "log")
    calibration = calibrate(
        run,
        CalibrationRules({"train": 0.5, "validation": 0.2, "test": 0.3}, 20),
        np.random.default_rng(0),
    )
    write_json(data / "calibration.json", to_json(calibration))
    rules = {
        "static_cap": {"parameters": {"batch_size": 2}, "reward_per_s": 1.0},
        "batch_timeout": {
            "parameters": {"max_batch_size": 4, "batch_timeout_s": 0.01},
            "reward_per_s": 2.0,
        },
    }
    write_json(data / "heuristics.json", {"rules": rules})
    return data


CALIBRATED = [
    "+sources.log={kind: serving_log, path: data/sample}",
    "calibration.source=log",
    "horizon_s=2",
]


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ([], "batch_timeout (max batch size 4, batch timeout 10.0 ms)"),
        (["policy=static_cap"], "static_cap (batch size 2)"),
        (["policy=static_cap", "policy.batch_size=8"], "static_cap (batch size 8)"),
        (["policy=fifo", "policy.batch_size=8"], "fifo (batch size 8)"),
    ],
)
def test_the_calibrated_cluster_runs_the_best_tuned_rule_or_the_one_asked_for(
    results: Path, words: list[str], rule: str
) -> None:
    episode = chosen_episode(read_arguments([*CALIBRATED, *words]), results)
    assert episode.rule == rule
    assert episode.name == "log, calibrated"
    assert episode.horizon_s == 2.0
    assert episode.scenario.class_names == ("fast", "slow")
    assert len(play(episode).records.lane) > 0


def test_without_tuned_rules_the_largest_batches_are_sent(results: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "calibration.json").write_bytes((results / "calibration.json").read_bytes())
    (data / "tables").symlink_to(results / "tables")
    episode = chosen_episode(read_arguments(CALIBRATED), data)
    assert episode.rule == "static_cap (batch size 16)"


def test_a_broken_file_of_tuned_rules_is_named(results: Path, tmp_path: Path) -> None:
    for name in ("calibration.json", "tables"):
        (tmp_path / name).symlink_to(results / name)
    (tmp_path / "heuristics.json").write_text(json.dumps({"episodes": 3}))
    with pytest.raises(ValueError, match=r"heuristics\.json: is not as the stage tune writes it"):
        chosen_episode(read_arguments(CALIBRATED), tmp_path)


def test_without_a_calibration_the_described_episodes_are_offered(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"calibration\.json: missing; .* episode=continuous or"):
        chosen_episode(read_arguments([]), tmp_path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["out=picture.pdf"], r"out = 'picture\.pdf': must end in \.png or \.svg"),
        (["picture.png"], r"argument = 'picture\.png': must be name=value"),
        (["start_s=2", "end_s=1"], r"start_s = 2\.0: must be below end_s = 1"),
        (["end_s=nan"], r"end_s = 'nan': must be seconds"),
        (["start_s=soon"], r"start_s = 'soon': must be seconds"),
        (["horizon_s=0"], r"horizon_s = 0\.0: must be above 0"),
        (["episode=nothing"], r"episode = 'nothing': must be one of continuous, "),
        (
            ["episode=dispatch", "end_s=99"],
            r"start_s = 0\.0: must be below end_s = 99, both within",
        ),
        (["episode=dispatch", "start_s=99"], r"start_s = 99\.0: must be below end_s = 4"),
        (["episode=dispatch", "cluster.replicas=3"], r"override = 'cluster\.replicas=3': a desc"),
        (["episode=dispatch", "policy=best"], r"policy = 'best': it must be one of .*static_cap"),
        (["episode=dispatch", "policy=fifo"], r"fifo\.batch_size: must be given"),
        (["episode=dispatch", "policy.size=3"], r"batch_timeout\.size = 3: no such parameter"),
        (["episode=dispatch", "seed=-1"], r"seed = -1: must be in"),
        (
            ["episode=dispatch", "episode.scenario.queue_capacity=0"],
            r"episode\.scenario\.queue_capacity = 0: must be .*at least 1",
        ),
        (["episode=dispatch", "+episode.speed=2"], r"episode\.speed = 2: no such section"),
        (["episode=dispatch", "~episode.workload"], r"episode\.workload: must be given"),
        (["episode=dispatch", "episode.policy=fifo"], r"episode\.policy = 'fifo': must have"),
        (["episode=dispatch", "episode.horizon_s=long"], r"episode\.horizon_s = 'long': must be"),
    ],
)
def test_a_bad_argument_is_refused_by_its_name(words: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        main(words)


def test_the_command_ends_with_one_line_and_exit_code_1_for_bad_input(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(sys, "argv", ["inspect", "out=picture.gif"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("pipeline.inspect", run_name="__main__")
    assert ended.value.code == 1
    assert capsys.readouterr().err == "error: out = 'picture.gif': must end in .png or .svg\n"


def test_help_tells_every_argument(capsys: Any) -> None:
    main(["--help"])
    told = capsys.readouterr().out
    for name in ("out=", "episode=", "policy=", "seed=", "horizon_s=", "start_s=", "end_s="):
        assert name in told
