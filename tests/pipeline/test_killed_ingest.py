"""Ingest that is killed at any moment: what is there stays whole, and a rerun gives the same bytes.

The process is killed with SIGKILL after a random time, and before each step of the swap.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS, SLOW_ROWS = 100_000, 600_000  # about 3 and 20 MB
SWAP_STEPS = 4  # os.replace and shutil.rmtree, after the old manifest is gone
# The second argument is the step of the swap before which it kills itself, 0 for none.
INGEST = """
import os, shutil, signal, sys, time
from pathlib import Path
from pipeline.settings import IngestSettings, SourceSettings
from pipeline.sources import read_source
from pipeline.store import warehouse, warehouse_builder

project, last = Path(sys.argv[1]), int(sys.argv[2])
steps = []

class Killing:
    def __init__(self, module, name):
        self.module, self.name = module, name

    def __getattr__(self, name):
        function = getattr(self.module, name)
        return self.step(function) if name == self.name else function

    def step(self, function):
        def taken(path, *rest, **named):
            if path.name != ".warehouse-partial":  # that is tidied away before and after
                steps.append(path)
                if len(steps) == last:
                    os.kill(os.getpid(), signal.SIGKILL)
            return function(path, *rest, **named)
        return taken

warehouse.os, warehouse.shutil = Killing(os, "replace"), Killing(shutil, "rmtree")
print("begins", flush=True)
begin_s = time.perf_counter()
with warehouse_builder(project / "data") as builder:
    read_source(builder, "log", SourceSettings("burstgpt", "log.csv"), project, IngestSettings())
print(len(steps), time.perf_counter() - begin_s)
"""


def ingest(project: Path, step: int = 0, killed_after_s: float | None = None) -> tuple[int, str]:
    """The exit code, which is -9 where the process was killed, and what it printed."""
    command = [sys.executable, "-c", INGEST, str(project), str(step)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begins\n"
    if killed_after_s is not None:
        time.sleep(killed_after_s)
        process.kill()
    said, _ = process.communicate()
    return process.returncode, said


def contents(project: Path) -> dict[str, str]:
    """The digest of each file of the warehouse, leftovers included."""
    return {
        file.relative_to(project / "data").as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in (project / "data").rglob("*")
        if file.is_file()
    }


def is_whole(project: Path) -> bool:
    """Whether every table that the manifest names is there and is the one it means."""
    manifest = json.loads((project / "data" / "warehouse.json").read_text())
    found = contents(project)
    return all(
        found.get(f"tables/{table}/{source}.parquet") == digest
        for table, described in manifest["tables"].items()
        for source, digest in described["sha256"].items()
    )


def write_log(project: Path, rows: int, seed: int) -> None:
    project.mkdir(exist_ok=True)
    random = Random(seed)
    tokens = [f"{random.randrange(1, 4000)},{random.randrange(1, 900)}" for _ in range(997)]
    lines = (f"{at // 7},ChatGPT,{tokens[at % 997]},0,API log\n" for at in range(rows))
    head = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    (project / "log.csv").write_text(head + "".join(lines))


class Undisturbed(NamedTuple):
    """A run that nothing disturbs."""

    contents: dict[str, str]
    whole_s: float
    log: bytes


def undisturbed_run(project: Path, rows: int) -> Undisturbed:
    write_log(project, rows, seed=1)
    code, said = ingest(project)
    steps, whole_s = said.split()
    assert (code, int(steps)) == (0, SWAP_STEPS)
    log = (project / "log.csv").read_bytes()
    return Undisturbed(contents(project), float(whole_s), log)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return undisturbed_run(tmp_path_factory.mktemp("undisturbed"), ROWS)


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """A project with the warehouse of another log."""
    project = tmp_path_factory.mktemp("old")
    write_log(project, 100, seed=2)
    assert ingest(project)[0] == 0
    return project


@pytest.fixture
def project(old, undisturbed, tmp_path):
    """As `old`, but its log is now the one of `undisturbed`."""
    return with_log(old, undisturbed.log, tmp_path / "project")


def with_log(old: Path, log: bytes, project: Path) -> Path:
    shutil.copytree(old, project)
    (project / "log.csv").write_bytes(log)
    return project


def check_killed(project: Path, before: dict[str, str], after: dict[str, str]) -> None:
    """The warehouse is the old one or the new one, or has no manifest."""
    if (project / "data" / "warehouse.json").is_file():
        assert is_whole(project)
        found = {n: d for n, d in contents(project).items() if not n.startswith(".warehouse-")}
        assert found in (before, after)


def check_rerun(project: Path, after: dict[str, str]) -> None:
    assert ingest(project)[0] == 0
    assert contents(project) == after
    assert not (project / "data" / ".warehouse-partial").exists()


@pytest.mark.parametrize("step", [1, SWAP_STEPS])
def test_a_rerun_after_a_kill_during_the_swap_gives_the_same_bytes(
    step, project, undisturbed
) -> None:
    before = contents(project)
    assert ingest(project, step)[0] == -9
    assert not (project / "data" / "warehouse.json").exists()
    assert (project / "data" / ".warehouse-partial").exists()
    check_killed(project, before, undisturbed.contents)
    check_rerun(project, undisturbed.contents)


def test_a_rerun_after_a_kill_at_a_random_instant_gives_the_same_bytes(
    project, undisturbed
) -> None:
    before = contents(project)
    delay_s = Random(0).uniform(0.05, 0.3) * undisturbed.whole_s
    assert ingest(project, killed_after_s=delay_s)[0] == -9
    assert is_whole(project)
    check_killed(project, before, undisturbed.contents)
    check_rerun(project, undisturbed.contents)


@pytest.mark.slow
def test_thirty_kills_leave_no_trace(old, tmp_path) -> None:
    after, whole_s, log = undisturbed_run(tmp_path / "undisturbed", SLOW_ROWS)
    project = with_log(old, log, tmp_path / "project")
    random, killed, before = Random(3), 0, contents(project)
    for kill in range(30):
        if kill < 26:
            code, _ = ingest(project, killed_after_s=random.uniform(0.0, 1.1 * whole_s))
        else:
            code, _ = ingest(project, step=kill - 25)
        killed += code == -9
        check_killed(project, before, after)
        if kill % 5 == 4:
            check_rerun(project, after)
    assert killed >= 15
    check_rerun(project, after)
