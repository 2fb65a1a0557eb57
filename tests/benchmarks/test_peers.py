"""The engine beside other simulators, one run: `pytest -m benchmark -s tests/benchmarks`.

Needs the extra `bench`. Asserts no time. All run on one core, in turn within every round, and are
timed by the CPU time of the process, so that a busy machine does not favor one of them. The table
is printed and written to reports/benchmarks/peers.md.
"""

import importlib.metadata
import importlib.util
import math
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numba
import numpy as np
import pytest

from simulator.engine import advance
from simulator.episode import start_lanes
from simulator.layout import empty_state
from simulator.multiserver_theory import mdc_waiting_s
from simulator.parameters import Parameters
from simulator.queueing_theory import mm1_waiting_s
from simulator.service.whole_batch import batch_is_dispatched
from simulator.state import ClusterState
from tests.benchmarks.compiled_rules import batch_scenario

pytestmark = pytest.mark.benchmark

ROUNDS = 5
REQUESTS = {"engine": 1_000_000, "cimba": 1_000_000, "simpy": 100_000, "ciw": 50_000}
PEERS = Path(__file__).with_name("peers")
REPORT = Path(__file__).resolve().parents[2] / "reports" / "benchmarks" / "peers.md"
QUEUE_CAPACITY = 1_000  # never reached; at 100, M/M/1 sheds some five requests of a million


class Model(NamedTuple):
    """A queue that every tool simulates; Poisson arrivals, FIFO, an unlimited queue."""

    title: str
    arrival_rate_rps: float
    replicas: int
    alpha_s: float
    beta_s: float
    max_batch_size: int
    exponential: bool  # sizes, of mean 1; else they are 1
    theory_s: float | None  # mean waiting time


MODELS = {
    "mm1": Model("M/M/1, load 0.9", 0.9, 1, 0.0, 1.0, 1, True, mm1_waiting_s(0.9, 1.0)),
    "md2": Model("M/D/2, load 0.9", 1.8, 2, 0.0, 1.0, 1, False, mdc_waiting_s(1.8, 1.0, 2)),
    "batch": Model("batch service, K=2, b<=8", 300.0, 2, 0.002, 0.005, 8, False, None),
}


class Run(NamedTuple):
    """One simulation of a model."""

    waiting_s: float  # mean
    run_s: float
    whole_s: float  # with the making of arrays and the drawing of arrivals and sizes


@numba.njit(_nrt=False, error_model="numpy")
def run_static_cap(parameters: Parameters, state: ClusterState, limit: int) -> float:
    """The whole trace of lane 0 under static_cap, compiled together with the engine.

    Returns the sum of the service times of all requests, in s: response less service is waiting.
    """
    total_service_s = 0.0
    while True:
        advance(parameters, state, 0)
        if state.ending[0] != 0:
            return total_service_s
        replica = 0
        while state.slot_count[0, replica] > 0:
            replica += 1
        batch_is_dispatched(parameters, state, 0, replica, 0, limit)
        slot = state.slot_start[0, replica]
        total_service_s += (
            state.batch_size[0, replica, slot] * state.batch_service_s[0, replica, slot]
        )


def ours(model: str, requests: int, seed: int) -> Run:
    """The engine under the rule static_cap, no policy asked."""
    _, rate_rps, replicas, alpha_s, beta_s, limit, exponential, _ = MODELS[model]
    scenario = batch_scenario(replicas, alpha_s, beta_s, limit, QUEUE_CAPACITY)
    whole_begin_s = time.process_time()
    parameters, state = scenario.parameters(), empty_state(scenario, 1, requests)
    generator = np.random.default_rng(seed)
    interarrival_s = generator.exponential(1.0 / rate_rps, requests)
    np.cumsum(interarrival_s, out=state.arrival_s[0])
    state.size[:] = generator.exponential(1.0, requests) if exponential else 1.0
    state.request_count[0], state.horizon_s[0], state.drains[0] = requests, 1e300, True
    start_lanes(parameters, state, np.ones(1, np.bool_))
    begin_s = time.process_time()
    total_service_s = run_static_cap(parameters, state, limit)
    end_s = time.process_time()
    completed, total_response_s, _, shed, *_ = state.reward_terms[0]
    assert (completed, shed) == (requests, 0.0)
    waiting_s = (total_response_s - total_service_s) / requests
    return Run(float(waiting_s), end_s - begin_s, end_s - whole_begin_s)


def peer_module(tool: str) -> ModuleType:
    """The models of the tool, skipping the test where it is not installed."""
    pytest.importorskip(tool, reason="needs the extra `bench`")
    name = f"{tool}_models"
    spec = importlib.util.spec_from_file_location(name, PEERS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # cimba looks up the types of a model in its module
    spec.loader.exec_module(module)
    return module


def theirs(simulate: Callable[[int, int], float], requests: int, seed: int) -> Run:
    """A peer draws as it runs, so its run is the whole."""
    begin_s = time.process_time()
    waiting_s = simulate(requests, seed)
    run_s = time.process_time() - begin_s
    return Run(waiting_s, run_s, run_s)


def all_runs() -> dict[tuple[str, str], list[Run]]:
    """The runs of every model, tool by tool, after one short run of each that compiles it."""
    modules = {tool: peer_module(tool) for tool in REQUESTS if tool != "engine"}

    def once(model: str, tool: str, requests: int, seed: int) -> Run:
        if tool == "engine":
            return ours(model, requests, seed)
        return theirs(getattr(modules[tool], model), requests, seed)

    offered = [
        (model, tool)
        for model in MODELS
        for tool in REQUESTS
        if tool == "engine" or hasattr(modules[tool], model)
    ]
    for model, tool in offered:
        once(model, tool, 1_000, 0)
    runs: dict[tuple[str, str], list[Run]] = {key: [] for key in offered}
    for seed in range(ROUNDS):
        for model, tool in offered:
            runs[model, tool].append(once(model, tool, REQUESTS[tool], seed))
    return runs


def standard_errors_s(runs: dict[tuple[str, str], list[Run]]) -> dict[tuple[str, str], float]:
    """Of the mean over the rounds. All tools simulate one system, so they share its variance.

    The variance of the mean waiting time of n requests is v / n for large n; v is pooled over the
    tools, which gives it enough degrees of freedom for a narrow interval.
    """
    errors = {}
    for model, tool in runs:
        same = [(other, runs[model, other]) for other in REQUESTS if (model, other) in runs]
        variances = [
            REQUESTS[other] * statistics.variance(run.waiting_s for run in rounds)
            for other, rounds in same
        ]
        errors[model, tool] = math.sqrt(statistics.mean(variances) / (ROUNDS * REQUESTS[tool]))
    return errors


def mean_waiting_s(rounds: list[Run]) -> float:
    """Mean over the rounds."""
    return statistics.mean(run.waiting_s for run in rounds)


def table(runs: dict[tuple[str, str], list[Run]], errors_s: dict[tuple[str, str], float]) -> str:
    """One row for each model and tool."""
    rows = [
        f"Medians of {ROUNDS} rounds, all in one run, CPU time of one core. `drawn` includes the"
        " making of the arrays and the\ndrawing of arrivals and sizes, which every peer does as it"
        " runs; compilation is left out everywhere.\nWaiting time: mean ± standard error.",
        "",
        "| model | tool | requests | requests/s | drawn | engine / tool | drawn / tool"
        " | waiting time, s | theory, s |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for model, (title, *_, theory_s) in MODELS.items():
        run_rps, drawn_rps = rates_rps("engine", runs[model, "engine"])
        for tool, requests in REQUESTS.items():
            if (model, tool) not in runs:
                rows.append(f"| {title} | {named(tool)} | | not offered | | | | | |")
                continue
            rps, whole_rps = rates_rps(tool, runs[model, tool])
            waiting_s, error_s = mean_waiting_s(runs[model, tool]), errors_s[model, tool]
            theory = "" if theory_s is None else f"{theory_s:.4g}"
            rows.append(
                f"| {title} | {named(tool)} | {requests:,} | {rps:,.0f} | {whole_rps:,.0f}"
                f" | {run_rps / rps:,.1f} | {drawn_rps / whole_rps:,.1f}"
                f" | {waiting_s:.4g} ± {error_s:.2g} | {theory} |"
            )
    return "\n".join(rows) + "\n"


def rates_rps(tool: str, rounds: list[Run]) -> tuple[float, float]:
    """Median requests per second of a run alone, and with the drawing."""
    run_s = statistics.median(run.run_s for run in rounds)
    whole_s = statistics.median(run.whole_s for run in rounds)
    return REQUESTS[tool] / run_s, REQUESTS[tool] / whole_s


def named(tool: str) -> str:
    """The tool with its version."""
    return tool if tool == "engine" else f"{tool} {importlib.metadata.version(tool)}"


def write_report(text: str) -> None:
    """Replaces the report as a whole."""
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    draft = REPORT.with_suffix(".tmp")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, REPORT)


def test_all_simulators_agree_on_mean_waiting_times() -> None:
    runs = all_runs()
    errors_s = standard_errors_s(runs)
    text = table(runs, errors_s)
    print("\n" + text)
    write_report(text)
    for (model, tool), rounds in runs.items():
        expected_s, error_s = MODELS[model].theory_s, errors_s[model, tool]
        if expected_s is None:
            expected_s = mean_waiting_s(runs[model, "engine"])
            error_s = math.hypot(error_s, errors_s[model, "engine"])
        assert mean_waiting_s(rounds) == pytest.approx(expected_s, abs=4.0 * error_s), (model, tool)
