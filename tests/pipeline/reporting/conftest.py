"""A finished run in a folder, its files made by the functions that the stages call."""

import html
import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from pipeline.agents.curve import CurveRow, write_curve, write_rows
from pipeline.calibration.calibrate import CalibrationRules, calibrate
from pipeline.calibration.describe import to_json
from pipeline.calibration.fidelity import (
    FidelityRules,
    Gate,
    Outcome,
    Replay,
    fidelity_of_log,
    replayed_policy,
)
from pipeline.calibration.fidelity import to_json as fidelity_to_json
from pipeline.calibration.log import LoggedRun, read_logged_run
from pipeline.files import plain, write_json
from pipeline.reporting.inputs import ReportInputs, read_inputs
from pipeline.reporting.page import render_page
from pipeline.settings import Settings
from pipeline.sources import read_source
from pipeline.stage import compose_config, settings_of
from pipeline.store import warehouse_builder
from pipeline.validation.evaluation import Evaluation
from pipeline.validation.gate import Margins, gate_reasons, guards
from pipeline.validation.intervals import Interval
from pipeline.validation.scorecard import Scorecard, Standing
from pipeline.validation.summary import verdict_sentence
from pipeline.validation.tuning import TunedRule
from simulator.metrics import ClassMetrics
from simulator.replica import Replica
from simulator.scenario import RequestClass, Scenario

Rows = list[dict[str, Any]]
HOSTILE = '<script>alert("x")</script>&\''  # a license may be any text
SCENARIO = Scenario(
    request_classes=(RequestClass("fast", 0.1), RequestClass("slow", 0.5)),
    replicas=(Replica((0.004, 0.02), (0.001, 0.006), (0.1, 0.1), 16),) * 2,
    batch_sizes=(1, 2, 4, 8, 16),
    queue_capacity=100,
)
RULES = {
    "c_mu": ({"batch_size": {"fast": 8, "slow": 2}}, 41.207),
    "batch_timeout": ({"max_batch_size": 16, "batch_timeout_s": 0.005}, 40.312),
    "static_cap": ({"batch_size": 4}, 38.5),
    "uniform_random": ({}, -310.25),
}
AGENTS = {
    "ppo": ("online", 42.9),
    "reinforce": ("online", 41.9),
    "ppo_attention": ("online", 41.4),
    "discrete_cql": ("offline", 40.4),
    "discrete_bc": ("offline", 39.9),
}
TOLERANCE = Gate({"mean": 0.2, "p50": 0.15, "p95": 0.25, "p99": 0.35, "throughput": 0.1}, 500)
NUMBERS = {"ppo": 0.93, "reinforce": 1.02, "ppo_attention": 1.25}  # P99 relative to the rule


SYSTEM: dict[str, Any] = {
    "format": "batchwright-serving-log",
    "version": 1,
    "origin": "2026-11-30T09:00:00+00:00",
    "zone": "UTC",
    "clock": "monotonic",
    "license": HOSTILE,
    "request_classes": ["fast", "slow"],
    "replicas": 2,
    "queue_capacity": 100,
    "batch_sizes": [1, 2, 4, 8, 16],
    "max_batch_size": 16,
    "class_choice": "any",
    "decision_epochs": "events",
    "tick_s": 0.005,
    "rate_window_s": 1.0,
    "duration_s": 100.0,
    "policy": {
        "name": "batch_timeout",
        "parameters": {"max_batch_size": 8, "batch_timeout_s": 0.002},
        "epsilon": 0.1,
    },
}


def served(number: int, name: str, generator: np.random.Generator) -> tuple[Rows, Rows]:
    """Requests and batches of one class over 100 s, whose rate swings."""
    requests: Rows = []
    batches: Rows = []
    clock_s = 0.0
    while clock_s < 97.0:
        size = int(generator.choice([1, 2, 4, 8, 16], p=[0.3, 0.25, 0.2, 0.15, 0.1]))
        swing = 1.0 + 0.6 * math.sin(clock_s / 9.0)
        gaps_s = generator.exponential((0.02 + 0.06 * number) / swing, size)
        arrival_s = clock_s + np.cumsum(gaps_s)
        clock_s = float(arrival_s[-1])
        service_s = 0.004 + 0.016 * number + (0.001 + 0.005 * number) * size
        service_s *= float(generator.lognormal(-0.005, 0.1))
        dispatch_us = int(clock_s * 1e6) + int(generator.integers(500, 9000))
        times = {"dispatch_us": dispatch_us, "departure_us": dispatch_us + int(service_s * 1e6)}
        batch_id = 100_000 * number + len(batches)
        of_class = {"batch_id": batch_id, "request_class": name, **times}
        batches.append({"replica": batch_id % 2, "batch_size": size, **of_class})
        for at_s in arrival_s.tolist():
            arrival = {"request_id": f"{name}-{len(requests)}", "arrival_us": int(at_s * 1e6)}
            requests.append({**arrival, "size": 1.0, "status": "completed", **of_class})
    return requests, batches


def write_log(folder: Path) -> None:
    """A serving log of two classes; ingest rejects two of its requests."""
    generator = np.random.default_rng(3)
    folder.mkdir(parents=True)
    (folder / "system.json").write_text(json.dumps(SYSTEM))
    requests: Rows = []
    batches: Rows = []
    for number, name in enumerate(SYSTEM["request_classes"]):
        of_class = served(number, name, generator)
        requests += of_class[0]
        batches += of_class[1]
    requests.sort(key=lambda row: row["arrival_us"])
    batches.sort(key=lambda row: row["dispatch_us"])
    requests[7] = {**requests[7], "arrival_us": -5}
    requests[9] = {**requests[9], "status": "lost"}
    for name, rows in (("requests", requests), ("batches", batches)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def evaluation(p99_factor: float) -> Evaluation:
    """Response times of both classes in multiples of the rule's."""
    late = int(300 * max(0.0, p99_factor - 1.0))
    by_class = []
    for offered, p99_s, in_time in ((9000, 0.0874, 8978), (3000, 0.4312, 2979)):
        response_s = [share * p99_s * p99_factor for share in (0.31, 0.25, 0.71, 1.0)]
        rates = (offered / 200, (in_time - late) / 200, 12 / offered, (in_time - late) / offered)
        by_class.append(ClassMetrics(offered, offered - 12, 12, 0, *rates, *response_s))
    return Evaluation(np.zeros(1), tuple(by_class))


def standing(name: str, kind: str, reward: float, p99_factor: float) -> Standing:
    difference = reward - RULES["c_mu"][1]
    spread = 0.0 if name == "c_mu" else 0.45
    gain = Interval(difference, difference - spread, difference + 1.1 * spread)
    guarded, reasons, gate_low = [], [], None
    if kind != "rule":
        rule = evaluation(1.0)
        for scenario, more in (("test", 0.0), ("busier", 0.05), ("slower", 0.02)):
            guarded += guards(
                scenario, SCENARIO, evaluation(p99_factor + more), rule, Margins(0.1, 0.005, 0.01)
            )
        gate_low = gain.low - 0.1
        reasons = gate_reasons(gain._replace(low=gate_low), guarded)
    names = SCENARIO.class_names
    return Standing(
        name,
        kind,
        RULES[name][0] if kind == "rule" else {},
        Interval(reward, reward - 1.9, reward + 2.1),
        gain,
        reward - 0.35,
        {n: m._asdict() for n, m in zip(names, evaluation(p99_factor).by_class, strict=True)},
        gate_low,
        guarded,
        reasons,
    )


def scorecard() -> Scorecard:
    standings = [standing(n, "rule", reward, 1.0) for n, (_, reward) in RULES.items()]
    standings += [
        standing(name, kind, reward, NUMBERS.get(name, 1.08))
        for name, (kind, reward) in AGENTS.items()
    ]
    standings.sort(key=lambda s: -s.reward_per_s.mean)
    return Scorecard("c_mu", "ppo", standings, windows=6, episodes=132)


def write_agents(data: Path) -> None:
    generator = np.random.default_rng(5)
    for name, (kind, reward) in AGENTS.items():
        folder = data / "agents" / name
        training = {"transitions": 123_456} if kind == "offline" else {}
        network = {"kind": "attention" if "attention" in name else "mlp", "hidden": [64, 64]}
        description = {"name": name, "algorithm": name, "network": network, "training": training}
        write_json(folder / "agent.json", description)
        noise = generator.normal(0.0, 1.0, 40)
        share = [1.0 - math.exp(-update / 5.0) for update in range(40)]
        if kind == "offline":
            loss = [3.0 - 2.0 * s + 0.05 * n for s, n in zip(share, noise, strict=True)]
            write_rows(folder, [{"update": 500 * i, "loss": v} for i, v in enumerate(loss, 1)])
            continue
        rows = [
            CurveRow(
                update=i + 1,
                steps=10_000 * (i + 1),
                episodes=128,
                return_mean=None if i == 0 else 10.0 * (reward - 400.0 * (1.0 - share[i])),
                policy_loss=0.01 * float(noise[i]),
                value_loss=1.0 - 0.8 * share[i],
                entropy=2.2 - 1.5 * share[i],
                approximate_kl=None if name == "reinforce" else 0.01 * share[i],
                clip_fraction=None if name == "reinforce" else 0.1,
                explained_variance=share[i],
                validation=reward - 300.0 * (1.0 - share[i]) if i % 5 == 4 else None,
            )
            for i in range(40)
        ]
        write_curve(folder, rows)


def replayed(run: LoggedRun) -> Replay:
    """Two replays 2 % slower than the log on average, in the batches of the log."""
    factor = np.random.default_rng(11).lognormal(0.02, 0.08, (2, len(run.response_s)))
    arrival_s, simulated_s = run.arrivals.arrival_s, run.response_s * factor
    assert run.requests is not None
    batch = run.requests.batch
    size = np.where(batch >= 0, np.bincount(batch[batch >= 0])[batch], 0)
    return Replay(
        ("fast", "slow"),
        run.duration_s,
        run.arrivals,
        Outcome(arrival_s + run.response_s, {"response_s": run.response_s}, size),
        Outcome(arrival_s + simulated_s, {"response_s": simulated_s}, np.stack([size, size])),
        np.linspace(0.3, 1.3, 20),
        {"fast": 8, "slow": 8},
    )


def write_run(root: Path, settings: Settings) -> None:
    """All that the report reads, made by the functions that the stages call."""
    data = root / "data"
    write_log(data / "sample")
    with warehouse_builder(data) as builder:
        read_source(builder, "sample", settings.sources["sample"], root, settings.ingest)
    run = read_logged_run(data / "tables", "sample")
    shares = {"train": 0.5, "validation": 0.2, "test": 0.3}
    calibration = calibrate(run, CalibrationRules(shares, 20), np.random.default_rng(0))
    write_json(data / "calibration.json", to_json(calibration))
    fidelity = fidelity_of_log(
        replayed(run),
        replayed_policy(run.system, calibration),
        TOLERANCE,
        FidelityRules(),
        np.random.default_rng(12),
    )
    write_json(root / "reports" / "fidelity.json", fidelity_to_json(fidelity))
    tuned = {
        name: TunedRule(name, parameters, reward + 0.4, reward + 0.8, 32, 4)._asdict()
        for name, (parameters, reward) in RULES.items()
    }
    write_json(data / "heuristics.json", {"episodes": 32, "rules": tuned})
    write_agents(data)
    card = scorecard()
    sentence = verdict_sentence(card)
    write_json(data / "scorecard.json", {**plain(card), "sentence": sentence})
    verdict = {"winner": card.winner, "best_rule": card.best_rule, "sentence": sentence}
    write_json(data / "policies" / "verdict.json", verdict)


class FinishedRun(NamedTuple):
    """The folder of a run, and the comparison that its files tell of."""

    root: Path
    card: Scorecard
    license: str = HOSTILE

    def copy_to(self, folder: Path) -> "FinishedRun":
        """What the report reads of the run, in a folder of its own."""
        ignored = shutil.ignore_patterns("sample", "*.duckdb")
        root = shutil.copytree(self.root, folder / "copy", ignore=ignored)
        return self._replace(root=Path(root))

    def edit(self, file: str, change: Callable[[Any], None]) -> None:
        """Changes what a JSON file holds."""
        told = json.loads((self.root / file).read_text())
        change(told)
        write_json(self.root / file, told)

    def refuse_winner(self) -> None:
        """No agent passes the gate any more."""
        sentence = verdict_sentence(self.card._replace(winner=None))
        for file in ("data/scorecard.json", "data/policies/verdict.json"):
            self.edit(file, lambda told: told.update(winner=None, sentence=sentence))

    def inputs(self, settings: Settings) -> ReportInputs:
        """What the report reads."""
        return read_inputs(settings, self.root / "data", self.root / "reports")

    def page(self, settings: Settings) -> str:
        """The page."""
        return render_page(self.inputs(settings), settings)

    def seen(self, markup: str) -> str:
        """What a reader sees of markup, charts apart."""
        without_scripts = re.sub(r"<(script|style).*?</\1>", "", markup, flags=re.DOTALL)
        return html.unescape(re.sub(r"<[^>]+>", "", without_scripts))


@pytest.fixture(scope="session")
def settings() -> Settings:
    """The settings of conf/ with episodes of 10 s."""
    return settings_of(compose_config(["scenario.horizon_s=10.0"]))


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory, settings: Settings) -> FinishedRun:
    """A run in which the agent ppo wins; do not edit it, but a copy of it."""
    root = tmp_path_factory.mktemp("run")
    write_run(root, settings)
    return FinishedRun(root, scorecard())


@pytest.fixture(scope="session")
def page_text(finished_run: FinishedRun, settings: Settings) -> str:
    """The page of the finished run."""
    return finished_run.page(settings)
