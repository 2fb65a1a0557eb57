"""Logs simulated with known parameters.

The simulations are plain Python, so that nothing of the engine is taken for granted.
"""

import json
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from pipeline.calibration.log import LoggedRun
from pipeline.calibration.log_batches import NAMED, RECORDED
from tests.pipeline.readers.writers import MISSING, SimulatedLog

_US = 1e6
_BATCH_SIZES = (1, 2, 4, 8)  # a batch holds at most so many, and fewer where fewer wait


class Service(NamedTuple):
    """What a batch of b requests takes: `(alpha_s + beta_s b) * noise`, lognormal, mean 1."""

    alpha_s: float
    beta_s: float
    noise_cv: float

    def draw_s(self, size: int, generator: np.random.Generator) -> float:
        """The service time of one batch."""
        sigma = math.sqrt(math.log1p(self.noise_cv**2))
        noise = math.exp(sigma * generator.standard_normal() - sigma**2 / 2)
        return (self.alpha_s + self.beta_s * size) * noise


class Truth(NamedTuple):
    """A cluster that serves whole batches, under calm and busy spells of Poisson arrivals."""

    service: tuple[tuple[Service, ...], ...]  # [K][C]
    rates_rps: tuple[float, float]  # while calm, and while busy
    spells_s: tuple[float, float]  # how long either lasts
    replicas: tuple[str, ...] = ("10.0.0.1:8000", "10.0.0.2:8000")  # names [K]
    classes: tuple[str, ...] = ("fast", "slow")  # names [C]


UNLIKE = Truth(
    (
        (Service(0.020, 0.005, 0.10), Service(0.040, 0.010, 0.15)),
        (Service(0.030, 0.004, 0.20), Service(0.050, 0.012, 0.10)),
    ),
    (8.0, 120.0),
    (4.0, 1.0),
)
ONE_SERVER = Truth(
    ((Service(0.020, 0.005, 0.10), Service(0.040, 0.010, 0.15)),), (8.0, 60.0), (4.0, 1.0)
)
ONE_CLASS = Truth(((Service(0.020, 0.005, 0.15),),), (10.0, 90.0), (4.0, 1.0), classes=("all",))


def batch_log(truth: Truth, requests: int, generator: np.random.Generator) -> SimulatedLog:
    """First in, first out: the class of the oldest request, to the replica that finishes first."""
    arrival_s = _arrivals(truth, requests, generator)
    request_class = generator.integers(0, len(truth.classes), requests)
    dispatch_s, departure_s = np.zeros(requests), np.zeros(requests)
    replica, batch = np.zeros(requests, int), np.zeros(requests, int)
    free_s = np.zeros(len(truth.service))
    waiting: list[int] = []
    batches = arrived = 0
    while arrived < requests or waiting:
        clock_s = free_s.min()
        if not waiting:
            clock_s = max(clock_s, arrival_s[arrived])
        while arrived < requests and arrival_s[arrived] <= clock_s:
            waiting.append(arrived)
            arrived += 1
        head = request_class[waiting[0]]
        own = [row for row in waiting if request_class[row] == head]
        size = min(len(own), max(_BATCH_SIZES))
        takes_s = [cells[head].alpha_s + cells[head].beta_s * size for cells in truth.service]
        number = int(np.argmin(np.where(free_s <= clock_s, takes_s, np.inf)))
        members = own[:size]
        waiting = [row for row in waiting if row not in members]
        free_s[number] = clock_s + truth.service[number][head].draw_s(size, generator)
        dispatch_s[members], departure_s[members] = clock_s, free_s[number]
        replica[members], batch[members] = number, batches
        batches += 1
    ends = dispatch_s, departure_s, departure_s  # the only token comes with the departure
    ones = np.ones(requests, int)
    return _simulated(
        (arrival_s, *ends),
        [truth.classes[number] for number in request_class],
        [truth.replicas[number] for number in replica],
        (ones, ones),
        batch,
    )


def _arrivals(truth: Truth, requests: int, generator: np.random.Generator) -> np.ndarray:
    """Instants `[R]` s, to the microsecond, no two the same."""
    found: list[float] = []
    start_s = 0.0
    while len(found) < requests:
        for rate_rps, spell_s in zip(truth.rates_rps, truth.spells_s, strict=True):
            count = generator.poisson(rate_rps * spell_s)
            found += (start_s + np.sort(generator.uniform(0.0, spell_s, count))).tolist()
            start_s += spell_s
    return np.unique(np.round(found, 6))[:requests]


def _simulated(
    instants_s: tuple[np.ndarray, ...],
    request_class: list[str],
    replica: list[str],
    tokens: tuple[np.ndarray, np.ndarray],
    batch_id: np.ndarray,
) -> SimulatedLog:
    """Requests that were all answered; the instants are arrival, dispatch, first and last token."""
    count = len(request_class)
    return SimulatedLog(
        [f"q{row}" for row in range(count)],
        *(np.rint(at_s * _US).astype(np.int64) for at_s in instants_s),
        request_class,
        replica,
        np.ones(count),
        *tokens,
        ["completed"] * count,
        batch_id,
    )


def token_log(
    instants_s: tuple[np.ndarray, ...], prompt: np.ndarray, output: np.ndarray
) -> SimulatedLog:
    """The log of one engine of continuous batching, from its instants."""
    count = len(prompt)
    names = ["llm"] * count, ["gpu-0"] * count
    return _simulated(instants_s, *names, (prompt, output), np.full(count, MISSING))


def write_serving_log(log: SimulatedLog, folder: Path, form: str = "jsonl") -> None:
    """The log as a folder of our own format; `form` is jsonl, parquet or csv."""
    folder.mkdir(parents=True)
    classes, replicas = sorted(set(log.request_class)), sorted(set(log.replica))
    system = {
        "format": "batchwright-serving-log",
        "version": 1,
        "origin": "2026-06-01T00:00:00+00:00",
        "zone": "UTC",
        "clock": "monotonic",
        "license": "CC0-1.0",
        "request_classes": classes,
        "replicas": len(replicas),
        "queue_capacity": 1000,
        "batch_sizes": list(_BATCH_SIZES),
        "max_batch_size": max(_BATCH_SIZES),
        "class_choice": "any",
        "decision_epochs": "events",
        "tick_s": 0.005,
        "rate_window_s": 1.0,
    }
    (folder / "system.json").write_text(json.dumps(system))
    requests = pl.DataFrame(
        {
            "request_id": np.arange(len(log.request_id)),
            "arrival_us": log.arrival_us,
            "request_class": log.request_class,
            "size": log.size,
            "status": log.status,
            "dispatch_us": log.dispatch_us,
            "departure_us": log.departure_us,
            "batch_id": log.batch_id,
            "replica": [replicas.index(name) for name in log.replica],
        }
    )
    batches = requests.group_by("batch_id", maintain_order=True).agg(
        pl.col("replica", "request_class", "dispatch_us", "departure_us").first(),
        pl.len().alias("batch_size"),
    )
    for name, frame in (("requests", requests.drop("replica")), ("batches", batches)):
        if form == "jsonl":
            frame.write_ndjson(folder / f"{name}.jsonl")
        else:
            getattr(frame, f"write_{form}")(folder / f"{name}.{form}")


def check_batches(run: LoggedRun, log: SimulatedLog, truth: Truth) -> None:
    """AssertionError unless the batches are those simulated, whether stated or rebuilt."""
    assert run.system["request_classes"] == list(truth.classes)
    assert run.system["replicas"] == len(truth.service)
    assert run.batches_from in (RECORDED, NAMED, "rebuilt from service intervals, whole batches")
    assert run.requests is not None
    # The same microsecond is the same second, whoever divides.
    assert (run.requests.dispatch_s >= run.arrivals.arrival_s).all()
    _, first, size = np.unique(log.batch_id, return_index=True, return_counts=True)
    np.testing.assert_array_equal(run.batches.total_size, size)
    dispatch_us = log.dispatch_us[first] - log.arrival_us[0]
    shift_us = np.rint(run.batches.dispatch_s * 1e6) - dispatch_us
    assert np.ptp(shift_us) <= 2  # of a double of seconds, where the format has one
    # Batches come in the order of dispatch in both, so their numbers are the same.
    np.testing.assert_array_equal(run.requests.batch, log.batch_id)


def standard_errors(true: Service, size: np.ndarray, runs: np.ndarray) -> np.ndarray:
    """Of alpha and beta `[2]` by relative least squares of the means of `runs [S]` batches.

    With f the true latency, weights 1 / f^2 and a variance of `cv^2 f^2 / runs` of a mean: the
    covariance is `A^-1 B A^-1`, A = X' X / f^2 and B = X' X cv^2 / (f^2 runs).
    """
    design = np.stack([np.ones_like(size), size], axis=1)
    design = design / (true.alpha_s + true.beta_s * size)[:, None]
    inverse = np.linalg.inv(design.T @ design)
    spread = inverse @ (design.T @ (design * (true.noise_cv**2 / runs)[:, None])) @ inverse
    return np.sqrt(np.diag(spread))


def noise_error(true: Service, runs: float) -> float:
    """Standard error of the coefficient of variation: `cv sqrt((kurtosis - 1) / 4 n)`."""
    w = 1.0 + true.noise_cv**2  # of the lognormal, kurtosis = w^4 + 2 w^3 + 3 w^2 - 3
    return true.noise_cv * math.sqrt((w**4 + 2 * w**3 + 3 * w**2 - 4) / (4.0 * runs))
