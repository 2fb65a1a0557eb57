"""The policy that ran while a log of whole batches was written: declared, recognized or assumed."""

from typing import Any

import numpy as np

from pipeline.calibration.log import LoggedRun
from pipeline.calibration.log_batches import IDLE
from pipeline.calibration.logged_policy import (
    UNKNOWN,
    DispatchLog,
    LoggedPolicy,
    declared_policy,
    rebuilt_decisions,
    recognize_policy,
)


def used_policy(run: LoggedRun) -> tuple[LoggedPolicy | None, dict[str, Any], tuple[str, ...]]:
    """What is known of the policy, the system with it, and what is assumed in sentences.

    A declared policy stays as it is. One that is not declared is recognized from the batches; where
    that fails, the replay of the log assumes a dispatcher that never waits (`fifo` with the largest
    batches), and says so. The policy is None where the batches do not tell decisions.
    """
    log = dispatch_log(run)
    told = run.system.get("policy")
    if isinstance(told, dict) and "name" in told:
        if log is None:
            return None, run.system, ()
        decisions, _ = rebuilt_decisions(log)
        return declared_policy(log, decisions, _menu(run), told), run.system, ()
    found = None
    if log is not None:
        decisions, contradictions = rebuilt_decisions(log)
        found = recognize_policy(log, decisions, _menu(run), contradictions)
    if found is not None and found.rule != UNKNOWN:
        parameters, epsilon = _by_class_name(run, found.parameters), found.epsilon
        policy = {"name": found.rule, "parameters": parameters, "epsilon": epsilon}
        return found, {**run.system, "policy": policy}, ()
    largest = int(run.system["max_batch_size"])
    assumed = {"name": "fifo", "parameters": {"batch_size": largest}, "epsilon": 0.0}
    why = "the log does not tell its decisions" if found is None else found.text
    sentence = f"a dispatcher that never waits, with batches of at most {largest}: {why}"
    return found, {**run.system, "policy": assumed}, (sentence,)


def dispatch_log(run: LoggedRun) -> DispatchLog | None:
    """The log as decisions are rebuilt from it; None where it does not tell them.

    It does not where replicas or classes are unknown, nor where all that is known of service is
    that of requests which met an idle system: that one of them was sent at once says nothing.
    Requests that were never dispatched, shed ones above all, are left out.
    """
    requests, batches = run.requests, run.batches
    if requests is None or len(batches.dispatch_s) == 0 or run.batches_from == IDLE:
        return None
    if (batches.replica < 0).any() or (batches.request_class < 0).any():
        return None
    members = np.flatnonzero(requests.batch >= 0)
    size = np.bincount(requests.batch[members], minlength=len(batches.dispatch_s))
    kept = size > 0
    return DispatchLog(
        run.arrivals.arrival_s[members],
        run.arrivals.request_class[members],
        batches.replica[kept],
        batches.request_class[kept],
        size[kept],
        batches.dispatch_s[kept],
        (batches.dispatch_s + batches.service_s)[kept],
        len(run.system["request_classes"]),
        int(run.system["replicas"]),
    )


def _by_class_name(run: LoggedRun, parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters with the names of the classes; their order goes by weights, not by one."""
    named = {f"class_{c}": name for c, name in enumerate(run.system["request_classes"])}
    return {
        key: {named.get(name, name): item for name, item in value.items()}
        if isinstance(value, dict)
        else value
        for key, value in parameters.items()
        if key != "class_order"
    }


def _menu(run: LoggedRun) -> tuple[int, ...]:
    return tuple(int(size) for size in run.system.get("batch_sizes") or ())
