"""Settings, logs and a calibration for tests of what is built from them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pipeline.assembly import Study, build_reward, build_scenario
from pipeline.calibration.calibrate import Calibration, CalibrationRules, calibrate
from pipeline.calibration.log import LoggedBatches, LoggedRun
from pipeline.settings import Settings, build_settings
from simulator.workload import Arrivals

DURATION_S = 100.0
SHARES = {"train": 0.5, "validation": 0.2, "test": 0.3}
SYSTEM: dict[str, Any] = {
    "request_classes": ["fast", "slow"],
    "replicas": 2,
    "queue_capacity": 20,
    "batch_sizes": [1, 2, 4],
    "max_batch_size": 4,
    "class_choice": "any",
    "decision_epochs": "events",
    "tick_s": 0.005,
    "rate_window_s": 1.0,
    "policy": {"name": "static_cap", "parameters": {"batch_size": 4}},
}
SECTIONS: dict[str, Any] = {
    "seed": 7,
    "run": {"sources": ["log"], "behavior": ["cap"], "offline": [], "online": []},
    "pick": {"policy": "cap", "agent": "ppo"},
    "sources": {"log": {"kind": "serving_log", "path": "data/log"}},
    "ingest": {},
    "split": SHARES,
    "calibration": {"source": "log"},
    "cluster": {},
    "scenario": {"slo_s": {"fast": 0.1, "slow": 0.5}, "horizon_s": 5.0},
    "workload": {"kind": "logged"},
    "reward": {
        "class_weight": {"fast": 1.0, "slow": 1.0},
        "completed": 1.0,
        "number_in_system_s": -1.0,
        "shed": -1.0,
    },
    "policies": {"cap": {"rule": "static_cap", "parameters": {"batch_size": 4}}},
    "tune": {"budget": 8, "episodes": 4},
    "arena": {},
    "replay": {},
    "agents": {"ppo": {"algorithm": "ppo"}},
    "validate": {"episodes": 8, "resamples": 200},
    "gate": {"stress": {"busier": {"rate_scale": 1.25}}},
}


def settings_with(**sections: Any) -> Settings:
    """Checked settings, some sections of them replaced."""
    return build_settings({**SECTIONS, **sections})


def logged_run(arrivals: Arrivals, noise_cv: float = 0.0, seed: int = 0) -> LoggedRun:
    """A log of 100 s with these arrivals; two replicas served batches of 1, 2 and 4 meanwhile.

    Replica k took `(10 + 2 k) ms + (2 + c) ms * b` for b requests of class c, times noise.
    """
    generator = np.random.default_rng(seed)
    count = 600
    number = np.arange(count)
    replica, request_class = number % 2, number // 2 % 2
    total_size = np.array([1.0, 2.0, 4.0])[number // 4 % 3]
    service_s = (0.010 + 0.002 * replica) + (0.002 + 0.001 * request_class) * total_size
    sigma = np.sqrt(np.log1p(noise_cv**2))
    service_s = service_s * np.exp(sigma * generator.standard_normal(count) - sigma**2 / 2)
    dispatch_s = number * DURATION_S / count
    return LoggedRun(
        SYSTEM,
        DURATION_S,
        arrivals,
        np.full(len(arrivals.arrival_s), 0.05),
        LoggedBatches(replica, request_class, total_size, dispatch_s, service_s),
    )


def steady_arrivals(rate_rps: float = 40.0, seed: int = 1) -> Arrivals:
    """Poisson arrivals over 100 s; sizes tell the split: 1 train, 2 validation, 3 test."""
    generator = np.random.default_rng(seed)
    count = generator.poisson(rate_rps * DURATION_S)
    arrival_s = np.sort(generator.uniform(0.0, DURATION_S, count))
    size = np.select([arrival_s < 50.0, arrival_s < 70.0], [1.0, 2.0], 3.0)
    return Arrivals(arrival_s, generator.integers(0, 2, count), size)


@pytest.fixture(scope="session")
def make_settings() -> Callable[..., Settings]:
    """Makes settings whose sections are replaced by keyword."""
    return settings_with


@pytest.fixture(scope="session")
def make_run() -> Callable[..., LoggedRun]:
    """Makes a log from its arrivals."""
    return logged_run


@pytest.fixture(scope="session")
def make_arrivals() -> Callable[..., Arrivals]:
    """Makes arrivals whose sizes tell the split that they are in."""
    return steady_arrivals


@pytest.fixture(scope="session")
def make_study() -> Callable[[Settings, LoggedRun], Study]:
    """What `read_study` would read of the log."""

    def made(settings: Settings, run: LoggedRun) -> Study:
        calibration = calibrate(run, CalibrationRules(SHARES, 20), np.random.default_rng(0))
        scenario = build_scenario(settings, calibration)
        return Study(calibration, run, scenario, build_reward(settings, scenario))

    return made


@pytest.fixture(scope="session")
def run() -> LoggedRun:
    """A log without noise."""
    return logged_run(steady_arrivals())


@pytest.fixture(scope="session")
def calibration(run: LoggedRun) -> Calibration:
    """Its calibration."""
    return calibrate(run, CalibrationRules(SHARES, 20), np.random.default_rng(0))
