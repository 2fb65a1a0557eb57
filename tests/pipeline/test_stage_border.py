"""How a stage ends: one line for what the user can mend, a traceback for a bug."""

import os
import subprocess
import sys

import pytest

from pipeline.stage import PARAMS, ROOT, error_border


def ended_by(error: BaseException, capsys) -> tuple[object, str]:
    with pytest.raises(SystemExit) as ended, error_border():
        raise error
    return ended.value.code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            ValueError("split.train = 2: must\n  be below 1"),
            "error: split.train = 2: must be below 1",
        ),
        (ValueError(), "error: ValueError"),
        (FileNotFoundError(2, "No such file or directory", "log"), "error: log: No such file or"),
        (PermissionError("warehouse: locked"), "error: warehouse: locked"),
    ],
)
def test_an_error_of_the_input_is_one_line_and_exit_code_1(error, line, capsys) -> None:
    code, text = ended_by(error, capsys)
    assert code == 1
    assert text.startswith(line)
    assert text.count("\n") == 1


def test_an_interrupt_ends_with_130(capsys) -> None:
    assert ended_by(KeyboardInterrupt(), capsys) == (130, "error: interrupted\n")


def test_a_bug_keeps_its_traceback() -> None:
    with pytest.raises(KeyError), error_border():
        raise KeyError("action")


def test_a_broken_invariant_of_ours_is_one_line_but_one_of_a_library_is_a_bug(capsys) -> None:
    with pytest.raises(RuntimeError), error_border():
        raise RuntimeError("raised in this file, which is not below pipeline/ or simulator/")
    ours = str(ROOT / "pipeline" / "invented.py")
    code = compile("raise RuntimeError('counts do not add up')", ours, "exec")
    with pytest.raises(SystemExit), error_border():
        exec(code)
    assert capsys.readouterr().err == "error: counts do not add up\n"


def test_an_error_of_the_input_shows_its_traceback_when_asked(monkeypatch) -> None:
    monkeypatch.setenv("BATCHWRIGHT_FULL_ERROR", "1")
    with pytest.raises(ValueError, match="seed"), error_border():
        raise ValueError("seed")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DVC_")}
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "environment", "line"),
    [
        (["pipeline.stages.ingest", "nonsense=1"], {}, "error: Could not override 'nonsense'."),
        (
            ["pipeline.stages.ingest", "nonsense=1"],
            {"DVC_STAGE": "ingest"},
            "error: nonsense=1: under",
        ),
        (["pipeline.stages.compose", "nonsense=1"], {}, "error: nonsense=1: compose takes no"),
    ],
)
def test_an_unknown_override_is_one_line_and_exit_code_1(arguments, environment, line) -> None:
    ended = run(*arguments, **environment)
    assert ended.returncode == 1
    assert ended.stderr.startswith(line)
    assert ended.stderr.count("\n") == 1


def test_compose_keeps_what_an_experiment_has_composed() -> None:
    before = PARAMS.read_bytes()
    ended = run("pipeline.stages.compose", DVC_STAGE="compose", DVC_EXP_NAME="try")
    assert ended.returncode == 0, ended.stderr
    assert PARAMS.read_bytes() == before


def test_a_stage_by_hand_writes_to_the_folder_of_its_run(make_log, tmp_path) -> None:
    make_log().write(tmp_path / "log")
    ended = run(
        "pipeline.stages.ingest",
        "sources.sample.root=traces",
        "sources.sample.path=log",
        f"hydra.run.dir={tmp_path / 'run'}",
        TRACES_DIR=str(tmp_path),
    )
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "run" / "data" / "tables" / "requests" / "sample.parquet").exists()
    assert "log/requests.jsonl: 40 rows read, 40 kept, 0 rejected" in ended.stdout


def test_a_stage_runs_on_one_thread_unless_told_otherwise() -> None:
    code = (
        "import os, sys, pipeline.stages; "
        "print(os.environ['OMP_NUM_THREADS'], 'numpy' in sys.modules)"
    )
    inherited = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    for given, threads in (({}, "1"), ({"OMP_NUM_THREADS": "3"}, "3")):
        printed = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=inherited | given,
            capture_output=True,
            text=True,
            check=True,
        )
        assert printed.stdout.split() == [threads, "False"]
