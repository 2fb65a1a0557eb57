"""Ingest beside DuckDB's own read of the same file: `pytest -m benchmark -s tests/benchmarks`.

Asserts no time. Each run is a process of its own, so that its peak memory is its own; ours and the
floor take turns. `INGEST_ROWS` (default 5,000,000) and `INGEST_STREAM_ROWS` (50,000,000) set sizes.
"""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

ROOT = Path(__file__).resolve().parents[2]
TURNS = 3
FLOOR = """
import duckdb
with duckdb.connect(str(out / "floor.duckdb"), config={"threads": 2}) as connection:
    connection.execute(f"CREATE TABLE trace AS FROM read_csv('{file}')")
    rows = connection.execute("SELECT count(*) FROM trace").fetchone()[0]
"""
OURS = """
from pipeline.settings import IngestSettings, SourceSettings
from pipeline.sources import read_source
from pipeline.store import warehouse_builder
with warehouse_builder(out / "data") as builder:
    settings = SourceSettings(kind, file.name)
    read_source(builder, "trace", settings, file.parent, IngestSettings())
rows = builder.rows["requests"]
"""
MEASURED = """
import json, resource, sys, time
from pathlib import Path
kind, file, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
{imports}
begin_s = time.perf_counter()
{body}
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({{"s": time.perf_counter() - begin_s, "rows": rows,
                  "cpu_s": used.ru_utime + used.ru_stime, "peak_gib": used.ru_maxrss / 2**20}}))
"""


def measured(body: str, kind: str, file: Path, out: Path) -> dict[str, float]:
    """Seconds, CPU seconds and peak memory of a run; imports are not counted in its seconds."""
    out.mkdir()
    imports = "\n".join(line for line in body.splitlines() if "import" in line)
    rest = "\n".join(line for line in body.splitlines() if "import" not in line)
    code = MEASURED.format(imports=imports, body=rest)
    command = [sys.executable, "-c", code, kind, str(file), str(out)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def side_by_side(kind: str, file: Path, folder: Path, turns: int) -> None:
    """Prints the medians of both, and their ratio."""
    runs: dict[str, list[dict[str, float]]] = {"floor": [], "ingest": []}
    for turn in range(turns):
        for name, body in (("floor", FLOOR), ("ingest", OURS)):
            runs[name].append(measured(body, kind, file, folder / f"{name}-{turn}"))
    assert {run["rows"] for run in runs["ingest"]} == {run["rows"] for run in runs["floor"]}
    print(f"\n{kind}: {runs['ingest'][0]['rows']:,} rows, {file.stat().st_size / 2**20:,.0f} MiB")
    for name, of_name in runs.items():
        medians = {key: statistics.median(run[key] for run in of_name) for key in of_name[0]}
        print(
            f"  {name}: {medians['s']:.2f} s, {medians['cpu_s']:.2f} CPU s, "
            f"peak {medians['peak_gib']:.2f} GiB"
        )
    pairs = zip(runs["ingest"], runs["floor"], strict=True)
    ratios = [ours["s"] / floor["s"] for ours, floor in pairs]
    print(f"  ratio of the times: median {statistics.median(ratios):.2f} of {sorted(ratios)}")


@pytest.mark.benchmark
def test_a_trace_like_burstgpt_beside_the_floor(tmp_path) -> None:
    rows = int(os.environ.get("INGEST_ROWS", "5000000"))
    generator = np.random.default_rng(1)
    file = tmp_path / "BurstGPT.csv"
    pl.DataFrame(
        {
            "Timestamp": np.cumsum(generator.exponential(0.5, rows)).astype(int),
            "Model": generator.choice(["ChatGPT", "GPT-4"], rows),
            "Request tokens": generator.integers(1, 4000, rows),
            "Response tokens": generator.integers(0, 1000, rows),
            "Total tokens": generator.integers(1, 5000, rows),
            "Log Type": generator.choice(["Conversation log", "API log"], rows),
        }
    ).write_csv(file)
    side_by_side("burstgpt", file, tmp_path, TURNS)


@pytest.mark.benchmark
def test_a_trace_of_the_shape_of_azure_2024_streams(tmp_path) -> None:
    rows = int(os.environ.get("INGEST_STREAM_ROWS", "50000000"))
    file = tmp_path / "AzureLLMInferenceTrace_conv_1week.csv"
    write_azure_2024(file, rows)
    run = measured(OURS, "azure_llm", file, tmp_path / "out")
    print(f"\nazure_llm: {run['rows']:,} rows, {file.stat().st_size / 2**30:.1f} GiB: {run}")
    assert run["rows"] == rows


def write_azure_2024(file: Path, rows: int, block: int = 2_000_000) -> None:
    """Instants with a fraction of 6 digits, or none where it is 0, and an offset."""
    generator, clock_us = np.random.default_rng(2), 1_715_299_200_000_000
    with file.open("wb") as target:
        for begin in range(0, rows, block):
            count = min(block, rows - begin)
            instants = clock_us + np.cumsum(generator.integers(0, 24_000, count))
            instants[::50_000] -= instants[::50_000] % 1_000_000
            instants = np.maximum.accumulate(instants)
            clock_us = int(instants[-1])
            stamp = pl.from_epoch(pl.Series("TIMESTAMP", instants), time_unit="us")
            text = stamp.dt.strftime("%Y-%m-%d %H:%M:%S%.6f").str.strip_suffix(".000000") + "+00:00"
            frame = pl.DataFrame(
                {
                    "TIMESTAMP": text,
                    "ContextTokens": generator.integers(1, 8000, count),
                    "GeneratedTokens": generator.integers(1, 1000, count),
                }
            )
            frame.write_csv(target, include_header=begin == 0)


@pytest.mark.benchmark
def test_what_the_figures_are_of(tmp_path) -> None:
    """A line on the machine, beside the figures."""
    cores = len(os.sched_getaffinity(0))
    print(json.dumps({"cores": cores, "python": sys.version.split()[0]}))
    assert cores >= 1
