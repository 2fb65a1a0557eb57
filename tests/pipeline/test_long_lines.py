"""Lines that are too long to be held in memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.store import text

ROOT = Path(__file__).resolve().parents[2]
HEADER = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
GOOD = "2,GPT-4,10,5,15,API log\n"


def test_a_line_that_is_too_long_is_one_reject(ingest, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(text, "LINE_BYTES", 200)
    long = f"1,{'x' * 900},10,5,15,API log\n"
    (tmp_path / "log.csv").write_text(HEADER + GOOD + long + GOOD)
    found = ingest(tmp_path, "log.csv", kind="burstgpt")
    assert found.tables["requests"]["line"].to_list() == [2, 4]
    assert found.tables["rejects"].select("line", "reason").rows() == [
        (3, "line: longer than 8 MiB")
    ]
    assert found.tables["rejects"]["raw"].item() == long[:200]


LONG_LINE = """
import resource, sys
from pathlib import Path
from pipeline.settings import IngestSettings, SourceSettings
from pipeline.sources import read_source
from pipeline.store import warehouse_builder
project = Path(sys.argv[1])
with warehouse_builder(project / "data") as builder:
    settings = SourceSettings("burstgpt", "log.csv")
    counts = read_source(builder, "log", settings, project, IngestSettings(0.9))
print(*counts[0][3:], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_a_line_of_2_gib_is_one_reject_in_less_than_a_gib_of_memory(tmp_path) -> None:
    with (tmp_path / "log.csv").open("wb") as file:
        file.write((HEADER + GOOD + "3,").encode())
        file.seek(2 << 30, os.SEEK_CUR)  # a hole, which takes no room and is read as NUL bytes
        file.write(("\n" + GOOD).encode())
    command = [sys.executable, "-c", LONG_LINE, str(tmp_path)]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    read, kept, rejected, peak_kib = map(int, said.split()[-4:])  # after DuckDB's progress bar
    assert (read, kept, rejected) == (3, 2, 1)
    assert peak_kib < 1 << 20
