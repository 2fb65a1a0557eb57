"""`python -m pipeline.arena`: a small league from words to files, and what it refuses."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pipeline.arena import command
from pipeline.arena.arguments import read_arguments
from pipeline.arena.command import fields_of, main
from pipeline.arena.compete import contest_of
from pipeline.arena.suite import ArenaScenario
from pipeline.workers import workers
from simulator.replica import Replica
from simulator.reward import weighted_reward
from simulator.scenario import DecisionKind, QueuePlace, RequestClass, Scenario
from simulator.traffic import PoissonWorkload

SMALL = "policies=static_cap,fifo:batch_size=2"


def small(name: str, overrides: Sequence[str] = ()) -> ArenaScenario:
    """Two replicas, a class, a second of arrivals; `routed` routes them."""
    if name == "broken":
        raise ValueError("horizon_s = -1: must be above 0")
    replica = Replica((0.01,), (0.005,), (0.2,), 8)
    routed = name == "routed"
    scenario = Scenario(
        (RequestClass("only", 0.05),),
        (replica, replica),
        batch_sizes=(1, 2, 4, 8),
        decision=DecisionKind.ROUTE if routed else DecisionKind.DISPATCH,
        queues=QueuePlace.REPLICA if routed else QueuePlace.CENTRAL,
    )
    return ArenaScenario(
        name=name,
        why="A small one.",
        scenario=scenario,
        reward=weighted_reward(scenario, {"response_s": -1.0, "slo_misses": -1.0}, {}),
        workloads={
            split: PoissonWorkload((rate,))
            for split, rate in (("train", 100.0), ("validation", 120.0), ("test", 140.0))
        },
        horizon_s=0.3,
        drain_s=0.2,
        episodes=4,
        tuning_episodes=2,
        baselines={} if routed else {"static_cap": {"batch_size": 8}},
        yardsticks={},
        policies=None,
    )


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts small scenarios of the given names in the place of the suite."""

    def put(*names: str, missing: dict[str, str] | None = None) -> None:
        found = missing or {}
        monkeypatch.setattr(command, "scenario_names", lambda: sorted({*names, *found}))
        monkeypatch.setattr(command, "load_arena_scenario", small)
        monkeypatch.setattr(command, "missing_files", lambda name, overrides: found.get(name))

    return put


def words(out: Path, *more: str, scenario: str = "small", processes: int = 1) -> list[str]:
    return [f"scenario={scenario}", f"out={out}", "budget=2", f"processes={processes}", *more]


def test_a_league_is_printed_and_written(suite: Any, tmp_path: Path, capsys: Any) -> None:
    suite("small")
    assert main(words(tmp_path / "new", SMALL)) == 0
    told = capsys.readouterr().out
    assert "small: 4 test episodes, budget 2" in told
    assert "Best heuristic: " in told
    assert all(len(line) <= 120 for line in told.splitlines() if "Written" not in line)
    written = json.loads((tmp_path / "new" / "small.json").read_text())
    names = {standing["name"] for standing in written["standings"]}
    assert names == {"static_cap", "fifo (batch_size=2)", "static_cap (baseline)"}
    for standing in written["standings"]:
        assert set(standing["cost_per_s"]) == {"mean", "low", "high"}
        assert standing["evaluations"] == (2 if standing["kind"] == "tuned" else 0)
    assert written["versions"]["optuna"]
    assert (tmp_path / "new" / "small.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["small.json", "small.png"]


def test_all_scenarios_are_summed_up_and_those_without_files_skipped(
    suite: Any, tmp_path: Path, capsys: Any
) -> None:
    suite("small", "twin", missing={"trace": "put trace.csv into TRACES_DIR"})
    assert main(words(tmp_path, SMALL, scenario="all")) == 0
    told = capsys.readouterr().out
    assert "skipped: trace: put trace.csv into TRACES_DIR" in told
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["skipped"] == {"trace": "put trace.csv into TRACES_DIR"}
    assert [league["scenario"] for league in summary["leagues"]] == ["small", "twin"]
    best = summary["leagues"][0]["best"]
    standings = json.loads((tmp_path / "small.json").read_text())["standings"]
    cost = next(each["cost_per_s"]["mean"] for each in standings if each["name"] == best)
    assert summary["leagues"][0]["cost_per_s"] == cost
    assert "saves of the best baseline" in told


def test_all_scenarios_are_met_by_those_of_the_policies_that_fit(suite: Any) -> None:
    suite("routed", "small")
    asked = read_arguments(["scenario=all", "policies=c_mu,uniform_random"])
    fields, skipped = fields_of(asked)
    met = {
        field.arena.name: [entrant.name for entrant in field.entrants if entrant.kind == "tuned"]
        for field in fields
    }
    assert met == {"routed": ["uniform_random"], "small": ["c_mu", "uniform_random"]}
    assert skipped == {}
    _, skipped = fields_of(read_arguments(["scenario=all", "policies=c_mu"]))
    assert skipped == {"routed": "none of the policies fits"}


@pytest.mark.parametrize(
    ("asked", "lines"),
    [
        (
            ["scenario=smal"],
            ["scenario = 'smal': did you mean small? must be one of all, list, broken, routed, "],
        ),
        (
            ["scenario=small", "policies=fifi,fifo,gone,FIFO"],
            [
                "policies = 'fifi': did you mean fifo? must be one of uniform_random, ",
                "policies = 'gone': must be one of uniform_random, ",
                "policies = 'FIFO': did you mean fifo? must be one of uniform_random, ",
            ],
        ),
        (
            ["scenario=all", "policies=fifoo"],
            ["policies = 'fifoo': did you mean fifo? must be one of uniform_random, "],
        ),
        (
            ["scenario=small", "policies=fifo:batch_size=0,fifo:size=1"],
            ["small: fifo.batch_size = 0: ", "small: fifo.size = 1: no such parameter; it has: "],
        ),
        (
            ["scenario=routed", "policies=c_mu"],
            ["routed: policy = 'c_mu': takes dispatch decisions, and the scenario's are route"],
        ),
        (["scenario=broken"], ["broken: horizon_s = -1: must be above 0"]),
        (["scenario=small", "budget=no"], ["budget = 'no': must be a whole number, at least 1"]),
    ],
)
def test_a_bad_request_is_refused_before_anything_runs(
    suite: Any, tmp_path: Path, capsys: Any, asked: list[str], lines: list[str]
) -> None:
    suite("small", "routed", "broken")
    assert main([*asked, f"out={tmp_path / 'none'}"]) == 2
    streams = capsys.readouterr()
    told = streams.err.splitlines()
    assert streams.out == ""
    assert len(told) == len(lines)
    assert all(a.startswith(f"error: {b}") for a, b in zip(told, lines, strict=True))
    assert not (tmp_path / "none").exists()


def test_a_folder_that_cannot_be_written_is_refused_before_anything_runs(
    suite: Any, tmp_path: Path, capsys: Any
) -> None:
    suite("small")
    (tmp_path / "file").write_text("no folder")
    assert main(["scenario=small", f"out={tmp_path / 'file'}"]) == 2
    assert capsys.readouterr().err.startswith(f"error: out = '{tmp_path / 'file'}': cannot be ")


def test_help_says_what_may_be_given(capsys: Any) -> None:
    assert main(["--help"]) == 0
    told = capsys.readouterr().out
    assert all(word in told for word in ("policies=", "scenario=list", "splits.test.rate_rps="))


def test_the_list_has_a_line_for_each_scenario_also_for_one_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def reason(name: str) -> str:
        if name == "broken":
            raise ValueError("broken.yaml: line 1, column 2: no")
        return "Traffic comes."

    monkeypatch.setattr(command, "scenario_names", lambda: ["broken", "a"])
    monkeypatch.setattr(command, "reason_for", reason)
    assert main(["scenario=list"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "broken  cannot be read: broken.yaml: line 1, column 2: no",
        "a       Traffic comes.",
    ]


def test_the_splits_have_luck_and_traffic_of_their_own() -> None:
    arena = small("small")
    trials = contest_of(arena, 7).trials
    assert len({trial.seed for trial in trials.values()}) == 3
    assert [len(trial.workloads) for trial in trials.values()] == [2, 2, 4]
    for split, trial in trials.items():
        assert set(trial.workloads) == {arena.workloads[split]}
        assert (trial.horizon_s, trial.drain_s) == (0.3, 0.2)
    assert contest_of(arena, 8).trials["test"].seed != trials["test"].seed


@pytest.mark.slow
def test_the_files_do_not_depend_on_the_number_of_processes(suite: Any, tmp_path: Path) -> None:
    suite("small")
    outs = [tmp_path / str(processes) for processes in (1, 2)]
    for processes, out in enumerate(outs, start=1):
        assert main(words(out, SMALL, processes=processes)) == 0
    for name in ("small.json", "small.png"):
        one, two = ((out / name).read_bytes() for out in outs)
        assert one == two


def test_results_of_processes_come_with_their_numbers() -> None:
    for processes in (1, 2):
        with workers(processes) as run:
            found = dict(run(pow, [(2, 3), (3, 2), (5, 1)]))
        assert found == {0: 8, 1: 9, 2: 5}


def test_an_error_in_a_process_ends_the_others_at_once() -> None:
    start_s = time.monotonic()
    with pytest.raises(ValueError, match="sleep length"), workers(2) as run:
        list(run(time.sleep, [(60.0,), (-1.0,)]))
    assert time.monotonic() - start_s < 40


def test_a_process_that_dies_is_told_and_not_waited_for() -> None:
    with pytest.raises(RuntimeError, match="a worker process has died"), workers(2) as run:
        list(run(os._exit, [(3,), (3,)]))


INTERRUPTED = """
import sys, time
from pipeline.workers import workers
from pipeline.stage import error_border
if __name__ == "__main__":
    with error_border(), workers(2) as run:
        for number, _ in run(time.sleep, [(0.0,), (60.0,), (60.0,)]):
            print("one is done", flush=True)
"""


def test_an_interrupt_ends_all_processes_without_a_traceback(tmp_path: Path) -> None:
    script = tmp_path / "interrupted.py"
    script.write_text(INTERRUPTED)
    root = Path(command.__file__).resolve().parents[2]
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "one is done\n"
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, told = process.communicate(timeout=300)  # to the end of what the workers could write, too
    assert (process.returncode, told) == (130, "error: interrupted\n")
