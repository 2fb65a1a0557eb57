"""From a log to `Calibration`: what the simulator takes from it, and how sure that is."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from pipeline.calibration.arrival_models.choice import ArrivalChoice, fit_arrival_model
from pipeline.calibration.arrivals import ArrivalFit, Split, fit_arrivals, split_by_time
from pipeline.calibration.batch_reconstruction import time_resolution
from pipeline.calibration.cold_starts import ColdStartFit, fit_cold_starts
from pipeline.calibration.log import LoggedRun
from pipeline.calibration.logged_policy import LoggedPolicy
from pipeline.calibration.replica_service import (
    CalibratedService,
    calibrate_replicas,
    path_of_noise,
    spells_of_noise,
)
from pipeline.calibration.request_mix import ClassMix, fit_request_mix
from pipeline.calibration.spells import Spells
from pipeline.calibration.tokens.fit import TokenFit
from pipeline.calibration.tokens_of_log import tokens_of_log
from pipeline.calibration.used_policy import used_policy
from simulator.noise import NO_PATH, NoisePath

WHOLE_BATCH = "whole_batch"
_DAY_S = 86_400.0
_COARSE_S = 1e-3  # a finer step of the clock does not show in the gaps of requests


class CalibrationRules(NamedTuple):
    """What the configuration asks of a calibration."""

    shares: dict[str, float]  # of the logged time, by split
    min_batches: int  # of each request class
    cold_start_s: tuple[float, ...] = ()  # measured ones, of any source of the run
    engine: Mapping[str, Any] = {}  # facts of the system that the configuration states
    service: str | None = None  # WHOLE_BATCH: also where the log tells of tokens


class Calibration(NamedTuple):
    """What the simulator takes from a log. K replicas, C request classes."""

    class_names: tuple[str, ...]
    duration_s: float
    splits: dict[str, Split]
    service: list[list[CalibratedService]]  # [K][C]; empty where batching is continuous
    spells: Spells  # of the noise
    arrivals: dict[str, list[ArrivalFit]]  # by split, [C]
    system: dict[str, Any]  # of the log, with the policy that ran
    noise_path: NoisePath = NO_PATH  # in the place of spells where the log is long enough
    batches_from: str = "recorded"  # how the batches are known; see log_batches
    assumed: tuple[str, ...] = ()  # what the log does not say, in sentences
    arrival_model: ArrivalChoice | None = None  # of the training split, all classes
    mix: tuple[ClassMix, ...] = ()  # [C] of the training split
    policy: LoggedPolicy | None = None  # None: not one of whole batches
    tokens: TokenFit | None = None  # where batching is continuous
    cold_starts: ColdStartFit | None = None


def calibrate(
    run: LoggedRun, rules: CalibrationRules, generator: np.random.Generator
) -> Calibration:
    """Fits the first split of the log; the held-out error is that of the batches after it.

    Raises ValueError where a class has fewer than `min_batches` batches in that split, or batches
    of one size only.
    """
    run = run._replace(system={**run.system, **rules.engine})
    splits = split_by_time(run.duration_s, rules.shares)
    train_end_s = next(iter(splits.values())).end_s
    names = tuple(run.system["request_classes"])
    arrivals = _arrivals_by_split(run, splits, len(names))
    train = run.arrivals.window(0.0, train_end_s)
    calibration = Calibration(
        names,
        run.duration_s,
        splits,
        [],
        Spells.none(),
        arrivals,
        run.system,
        batches_from=run.batches_from,
        assumed=run.assumed,
        arrival_model=_arrival_model(train.arrival_s, train_end_s),
        mix=tuple(
            fit_request_mix(
                names, train.request_class, train.size, train.prompt_tokens, train.output_tokens
            )
        ),
        cold_starts=fit_cold_starts(np.array(rules.cold_start_s)) if rules.cold_start_s else None,
    )
    if run.continuous and rules.service != WHOLE_BATCH:
        tokens = tokens_of_log(run, train_end_s)
        # A batch has no meaning here, and each replica a queue of its own.
        assumed = tuple(each for each in run.assumed if "replica" in each)
        return calibration._replace(
            tokens=tokens, batches_from="none: continuous batching", assumed=assumed
        )
    service = calibrate_replicas(run, train_end_s, rules.min_batches, generator)
    policy, system, assumed = used_policy(run)
    return calibration._replace(
        service=service,
        spells=spells_of_noise(run.batches, service, train_end_s),
        noise_path=path_of_noise(run.batches, service, train_end_s),
        policy=policy,
        system=system,
        assumed=(*run.assumed, *assumed),
    )


def _arrivals_by_split(
    run: LoggedRun, splits: dict[str, Split], classes: int
) -> dict[str, list[ArrivalFit]]:
    return {
        split: [
            fit_arrivals(run.arrivals.window(start_s, end_s), number, end_s - start_s)
            for number in range(classes)
        ]
        for split, (start_s, end_s) in splits.items()
    }


def _arrival_model(arrival_s: np.ndarray, duration_s: float) -> ArrivalChoice:
    """The model of the arrivals; a rhythm, where two days or more may show one, is of a day."""
    resolution_s = time_resolution(arrival_s)
    return fit_arrival_model(
        arrival_s,
        duration_s,
        resolution_s if resolution_s >= _COARSE_S else 0.0,
        period_s=_DAY_S if duration_s >= 2 * _DAY_S else None,
    )
