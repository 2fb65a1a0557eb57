"""Files that are whole or not there, progress without a terminal, and streams by purpose."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from pipeline.files import plain, write_atomically, write_json
from pipeline.progress import progress
from pipeline.randomness import derived_seed, stream

ROOT = Path(__file__).resolve().parents[2]


def test_a_file_and_the_folders_above_it_are_written(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file.bin"
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert [entry.name for entry in path.parent.iterdir()] == ["file.bin"]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, OSError])
def test_an_interrupted_write_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interruption: type[BaseException]
) -> None:
    path = tmp_path / "file.bin"
    write_atomically(path, b"old")

    def interrupted(self: Path, content: bytes) -> int:
        with self.open("wb") as file:
            file.write(content[: len(content) // 2])
        raise interruption

    monkeypatch.setattr(Path, "write_bytes", interrupted)
    with pytest.raises(interruption):
        write_atomically(path, b"newer")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.bin"]


def test_a_killed_writer_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file.bin"
    write_atomically(path, b"old")
    killed = (
        "import os, signal, sys; from pathlib import Path; from pipeline import files\n"
        "files.os.replace = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)\n"
        "files.write_atomically(Path(sys.argv[1]), b'new')\n"
    )
    ended = subprocess.run([sys.executable, "-c", killed, str(path)], cwd=ROOT, check=False)
    assert ended.returncode == -9
    assert path.read_bytes() == b"old"


class Pair(NamedTuple):
    name: str
    value: float


def test_named_tuples_become_dicts_and_nan_becomes_none_all_the_way_down() -> None:
    nested = {"pairs": (Pair("a", float("nan")), Pair("b", np.float64(1.5))), "n": np.int64(3)}
    assert plain(nested) == {
        "pairs": [{"name": "a", "value": None}, {"name": "b", "value": 1.5}],
        "n": 3,
    }
    assert plain([np.nan, np.inf, -np.inf, True, "text", None]) == [
        None,
        None,
        None,
        True,
        "text",
        None,
    ]


def test_json_is_written_with_a_newline_and_refuses_what_is_no_number(tmp_path: Path) -> None:
    path = tmp_path / "values.json"
    write_json(path, {"β": [1, 2.5]})
    assert path.read_text(encoding="utf-8").endswith("}\n")
    assert json.loads(path.read_text(encoding="utf-8")) == {"β": [1, 2.5]}
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"a": float("nan")})
    assert json.loads(path.read_text(encoding="utf-8")) == {"β": [1, 2.5]}


def test_progress_prints_plain_lines_when_not_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock_s = iter([0.0, 4.0, 11.0, 11.0, 15.0, 17.25])
    clock = SimpleNamespace(monotonic=lambda: next(clock_s))
    monkeypatch.setattr("pipeline.progress.time", clock)
    with progress("tune", 3000) as advance:
        advance(1000, "fifo")  # after 4 s: too soon for a line
        advance(1000, "c_mu")  # after 11 s
        advance(1000)  # 4 s after the last line
    assert capsys.readouterr().out == "tune: 2,000 of 3,000 c_mu\ntune: 3,000 done in 17.2 s\n"


def test_progress_does_not_say_done_where_the_work_failed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def broken_work() -> None:
        with progress("tune", 2) as advance:
            advance(1)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        broken_work()
    assert capsys.readouterr().out == ""


def test_streams_repeat_and_differ_by_purpose_and_seed() -> None:
    purposes = [("replay",), ("replay", "fifo"), ("fifo", "replay"), ("validate", "test")]
    firsts = [stream(7, *purpose).random() for purpose in purposes]
    assert firsts == [stream(7, *purpose).random() for purpose in purposes]
    assert len({*firsts, stream(8, "replay").random()}) == len(purposes) + 1


def test_streams_of_two_purposes_are_not_correlated() -> None:
    count = 20_000
    first, second = stream(7, "arrivals").random(count), stream(7, "noise").random(count)
    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / np.sqrt(count)


def test_derived_seeds_differ_by_purpose_and_fit_into_32_bits() -> None:
    seeds = {derived_seed(7, "validate", f"stress{number}") for number in range(1000)}
    assert len(seeds) == 1000
    assert all(0 <= seed < 2**32 for seed in seeds)


def test_derived_seeds_are_the_same_in_every_process() -> None:
    # hash() of a text differs from process to process; the seeds must not.
    command = "from pipeline.randomness import derived_seed; print(derived_seed(7, 'tune', 'a'))"
    told = {
        subprocess.run(
            [sys.executable, "-c", command],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1")
    }
    assert told == {f"{derived_seed(7, 'tune', 'a')}\n"}
