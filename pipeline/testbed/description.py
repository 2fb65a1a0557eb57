"""What a recording says about itself: system.json and CARD.md."""

import hashlib
import os
import platform
import shlex
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pipeline.testbed.session import LOAD_BATCH_SIZE, Session, Settings

LICENSE = "Apache-2.0"
_PACKAGES = ("numpy", "onnxruntime", "onnx", "torch", "polars")


def processor_name() -> str:
    """The CPU model as the system gives it; "unknown" where it does not."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _models(session: Session) -> dict[str, Any]:
    return {
        files.name: {
            "kind": files.kind,
            "parameters": files.parameters,
            "sha256": hashlib.sha256(files.model.read_bytes()).hexdigest(),
        }
        for files in session.models
    }


def _profile(session: Session) -> dict[str, Any]:
    names, profile = session.scenario.class_names, session.profile
    columns = {
        "alpha_s": profile.alpha_s,
        "beta_s": profile.beta_s,
        "noise_cv": profile.noise_cv,
    }
    rounded = {
        field: {name: round(value, 6) for name, value in zip(names, values, strict=True)}
        for field, values in columns.items()
    }
    medians = {
        name: {str(size): round(seconds, 6) for size, seconds in by_size.items()}
        for name, by_size in zip(names, profile.median_s, strict=True)
    }
    return {**rounded, "median_s": medians}


def _workload(settings: Settings, session: Session) -> dict[str, Any]:
    workload, names = session.workload, session.scenario.class_names
    return {
        "kind": "bursts",
        "low_rps": round(workload.low_rps, 3),
        "high_rps": round(workload.high_rps, 3),
        "phase_s": [workload.shortest_s, workload.longest_s],
        "class_share": dict(zip(names, (round(s, 6) for s in workload.class_share), strict=True)),
        "offered_load": {
            "at_batch_size": LOAD_BATCH_SIZE,
            "mean": settings.load,
            "low": round(settings.load * (1 - settings.burst), 6),
            "high": round(settings.load * (1 + settings.burst), 6),
        },
    }


def system_record(settings: Settings, session: Session) -> dict[str, Any]:
    """The contents of system.json, version 1 of the serving log, with what was measured."""
    scenario, recording = session.scenario, session.recording
    return {
        "format": "batchwright-serving-log",
        "version": 1,
        "origin": recording.origin.isoformat(timespec="microseconds"),
        "zone": "UTC",
        "clock": "monotonic",
        "license": LICENSE,
        "request_classes": list(scenario.class_names),
        "replicas": len(scenario.replicas),
        "queue_capacity": scenario.queue_capacity,
        "batch_sizes": list(scenario.batch_sizes),
        "max_batch_size": scenario.replicas[0].max_batch_size,
        "class_choice": scenario.class_choice.value,
        "decision_epochs": scenario.decision_epochs.value,
        "tick_s": scenario.tick_s,
        "rate_window_s": scenario.rate_window_s,
        "policy": {
            "name": settings.policy,
            "parameters": dict(settings.parameters),
            "epsilon": settings.epsilon,
        },
        "workload": _workload(settings, session),
        "models": _models(session),
        "profile": _profile(session),
        "machine": {
            "cpu": processor_name(),
            "cores": os.cpu_count(),
            "threads_per_replica": 1,
            "python": platform.python_version(),
            **{package: version(package) for package in _PACKAGES},
        },
        "measured": recording.measured(),
        "duration_s": settings.duration_s,
        "seed": settings.seed,
    }


def _command(system: dict[str, Any], settings: Settings) -> str:
    words = ["python", "-m", "pipeline.testbed", "--out", "FOLDER"]
    words += ["--duration-s", f"{settings.duration_s:g}", "--policy", settings.policy]
    for name, value in system["policy"]["parameters"].items():
        words += ["--parameter", f"{name}={value}"]
    words += ["--epsilon", f"{settings.epsilon:g}", "--load", f"{settings.load:g}"]
    words += ["--burst", f"{settings.burst:g}", "--fast-share", f"{settings.fast_share:g}"]
    return shlex.join([*words, "--seed", str(settings.seed)])


def _models_table(system: dict[str, Any]) -> str:
    rows = [
        "| class | model (random weights) | parameters | alpha | beta | requests |",
        "|---|---|---|---|---|---|",
    ]
    profile, shares = system["profile"], system["workload"]["class_share"]
    for name, model in system["models"].items():
        alpha_ms, beta_ms = profile["alpha_s"][name] * 1e3, profile["beta_s"][name] * 1e3
        rows.append(
            f"| {name} | {model['kind']} | {model['parameters']:,} "
            f"| {alpha_ms:.2f} ms | {beta_ms:.2f} ms | {shares[name]:.0%} |"
        )
    return "\n".join(rows)


def _machine_line(system: dict[str, Any]) -> str:
    machine = system["machine"]
    packages = ", ".join(f"{name} {machine[name]}" for name in ("python", *_PACKAGES))
    return f"- **Machine**: {machine['cpu']}, {machine['cores']} cores. {packages}."


def _policy_line(system: dict[str, Any]) -> str:
    policy = system["policy"]
    pairs = [f"{name} = {value}" for name, value in policy["parameters"].items()]
    return (
        f"- **Policy**: {policy['name']} ({', '.join(pairs) or 'no parameters'}), mixed with "
        f"epsilon = {policy['epsilon']:g} of uniform random legal actions, WAIT included. "
        "Propensities are exact."
    )


def _load_line(system: dict[str, Any]) -> str:
    workload = system["workload"]
    offered, (shortest_s, longest_s) = workload["offered_load"], workload["phase_s"]
    return (
        f"- **Load**: {system['duration_s']:g} s of Poisson arrivals, "
        f"{workload['low_rps']:.0f} and {workload['high_rps']:.0f} requests/s in turn, each for "
        f"{shortest_s:g} to {longest_s:g} s: offered load {offered['low']:g} and "
        f"{offered['high']:g} at batch size {offered['at_batch_size']} of the profiled capacity."
    )


def _measured_lines(system: dict[str, Any]) -> str:
    measured = system["measured"]
    late, cost = measured["load_lateness_us"], measured["decision_cost_us"]
    return (
        f"- **Requests**: {measured['arrived']:,} arrived, {measured['completed']:,} completed, "
        f"{measured['shed']:,} shed, {measured['failed']:,} failed (still waiting when the "
        f"gateway stopped); {measured['batches']:,} batches, {measured['decisions']:,} decisions.\n"
        f"- **The testbed's own cost**: a request was sent late by {late['median']:g} us in the "
        f"median (P95 {late['p95']:g} us); a decision took {cost['median']:g} us of processor "
        f"time in the median (P95 {cost['p95']:g} us)."
    )


def card_text(system: dict[str, Any], settings: Settings) -> str:
    """The CARD.md of a recording, from its system.json and settings."""
    return f"""# Serving log recorded by the Batchwright testbed

What ran: {system["replicas"]} worker processes, each with both models in ONNX Runtime on one
thread; an asyncio gateway with a central queue of {system["queue_capacity"]} places; an open-loop
load in the gateway's event loop. All of it shared the cores below. Every instant is real:
microseconds on a monotonic clock from {system["origin"]}. A service time includes the pipe
between the processes.

{_models_table(system)}

alpha and beta come from a short profiling run before the load.

{_machine_line(system)}
{_policy_line(system)}
{_load_line(system)}
{_measured_lines(system)}
- **Files**: `system.json`; `requests`, `batches` and `decisions` in Parquet: version
  {system["version"]} of the batchwright serving log.
- **License**: {system["license"]}. No personal data: the requests are made up.

To record again (other instants; the same arrivals if the profile is the same):

    {_command(system, settings)}
"""
