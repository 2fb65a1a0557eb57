"""One recording from start to end: models, workers, profile, load, gateway."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipeline.testbed.gateway import serve_load
from pipeline.testbed.load import BurstWorkload
from pipeline.testbed.models import CLASS_NAMES, ModelFiles, build_models
from pipeline.testbed.profiling import Profile, profile_workers
from pipeline.testbed.recorder import Recording
from pipeline.testbed.worker import running_workers
from simulator.policies.base import Policy
from simulator.policies.mixture import EpsilonMixture
from simulator.policies.registry import build_policy
from simulator.replica import Replica
from simulator.scenario import RequestClass, Scenario

REPLICAS = 2
BATCH_SIZES = (1, 2, 4, 8, 16)
SLO_S = (0.1, 0.5)  # of fast and slow; only rules that look at it are tuned by it
LOAD_BATCH_SIZE = 8  # the batch size at which offered load is stated
NOMINAL = Profile((0.004, 0.008), (0.001, 0.006), (0.0, 0.0), ({}, {}))  # to check settings early


@dataclass(frozen=True)
class Settings:
    """What to record. `load` is the mean offered load at LOAD_BATCH_SIZE, of profiled capacity."""

    policy: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    epsilon: float = 0.1
    duration_s: float = 600.0
    load: float = 0.65
    burst: float = 0.6  # the rate alternates between load * (1 - burst) and load * (1 + burst)
    fast_share: float = 0.7  # of the requests
    seed: int = 7

    def __post_init__(self) -> None:
        for name, least, most in (
            ("duration_s", 0.0, math.inf),
            ("load", 0.0, math.inf),
            ("fast_share", 0.0, 1.0),
        ):
            value = getattr(self, name)
            if not least < value < most:
                raise ValueError(f"{name} = {value!r}: must be above {least:g} and below {most:g}")
        if not 0 <= self.burst <= 1:
            raise ValueError(f"burst = {self.burst!r}: must be from 0 to 1")
        if self.seed < 0:
            raise ValueError(f"seed = {self.seed!r}: must be at least 0")
        mixed_policy(self, profiled_scenario(NOMINAL))


class Session(NamedTuple):
    """A finished recording and what it ran on."""

    recording: Recording
    scenario: Scenario
    workload: BurstWorkload
    profile: Profile
    models: tuple[ModelFiles, ...]


def profiled_scenario(profile: Profile) -> Scenario:
    """The cluster of the testbed, its replicas as fast as profiled."""
    replica = Replica(
        profile.alpha_s, profile.beta_s, profile.noise_cv, max_batch_size=BATCH_SIZES[-1]
    )
    return Scenario(
        request_classes=tuple(
            RequestClass(name, slo_s) for name, slo_s in zip(CLASS_NAMES, SLO_S, strict=True)
        ),
        replicas=(replica,) * REPLICAS,
        batch_sizes=BATCH_SIZES,
    )


def mixed_policy(settings: Settings, scenario: Scenario) -> Policy:
    """The rule of the settings with its share of exploration; ValueError where there is none."""
    rule = build_policy(settings.policy, scenario, settings.parameters)
    return EpsilonMixture(rule, settings.epsilon)


def capacity_rps(profile: Profile, class_share: tuple[float, ...], replicas: int) -> float:
    """Requests/s that the replicas sustain in full batches of LOAD_BATCH_SIZE.

    K / sum_c share_c (alpha_c / b + beta_c), with `class_share [C]` of the requests.
    """
    seconds_per_request = sum(
        share * (alpha_s / LOAD_BATCH_SIZE + beta_s)
        for share, alpha_s, beta_s in zip(class_share, profile.alpha_s, profile.beta_s, strict=True)
    )
    return replicas / seconds_per_request


def burst_workload(settings: Settings, profile: Profile) -> BurstWorkload:
    """The workload of the settings on replicas as fast as profiled."""
    class_share = (settings.fast_share, 1.0 - settings.fast_share)
    mean_rps = settings.load * capacity_rps(profile, class_share, REPLICAS)
    return BurstWorkload(
        low_rps=mean_rps * (1.0 - settings.burst),
        high_rps=mean_rps * (1.0 + settings.burst),
        class_share=class_share,
    )


def record_session(
    settings: Settings,
    folder: Path,
    say: Callable[[str], None] = lambda line: None,
    on_progress: Callable[[float], None] | None = None,
) -> Session:
    """Serves `settings.duration_s` of load for real. The models are kept in `folder`.

    `say(line)` is told what starts, `on_progress(clock_s)` about once a second of serving.
    """
    say("building the models")
    models = build_models(folder, settings.seed, BATCH_SIZES[-1])
    # Streams by purpose: another policy or epsilon meets the same arrivals.
    arrival_stream, action_stream = np.random.default_rng(settings.seed).spawn(2)
    say(f"starting {REPLICAS} workers")
    paths = [(files.model, files.requests) for files in models]
    with running_workers(REPLICAS, paths, BATCH_SIZES[-1]) as workers:
        say("profiling")
        profile = profile_workers(workers, len(models), BATCH_SIZES)
        scenario = profiled_scenario(profile)
        workload = burst_workload(settings, profile)
        arrivals = workload.draw(settings.duration_s, arrival_stream)
        say(
            f"serving {len(arrivals.arrival_s)} requests over {settings.duration_s:g} s, "
            f"{workload.low_rps:.0f} and {workload.high_rps:.0f} requests/s in turn"
        )
        recording = serve_load(
            scenario,
            mixed_policy(settings, scenario),
            workers,
            arrivals,
            action_stream,
            on_progress,
        )
    return Session(recording, scenario, workload, profile, models)
