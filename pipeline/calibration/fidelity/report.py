"""How well the simulator retells a log, as `fidelity.json` holds it."""

from typing import Any, NamedTuple

import numpy as np

from pipeline.calibration.calibrate import Calibration
from pipeline.calibration.fidelity.bands import LoadBands, load_bands
from pipeline.calibration.fidelity.compare import FidelityRow, FidelityRules, fidelity_rows
from pipeline.calibration.fidelity.gate import Gate, fidelity_failures
from pipeline.calibration.fidelity.policy import logged_rule
from pipeline.calibration.fidelity.quantiles import QuantileRow, quantile_rows
from pipeline.calibration.fidelity.replay import Replay
from pipeline.calibration.fidelity.resampling import draw_resamples
from pipeline.files import from_plain, plain


class BandShare(NamedTuple):
    """A load band, and how much of the log it is."""

    name: str
    share: float  # of the logged time
    offered_load: float  # mean over its windows, NaN where it has none


class ReplayedPolicy(NamedTuple):
    """The policy under which the log was replayed, and how it is known."""

    rule: str
    parameters: dict[str, Any]
    epsilon: float
    method: str  # declared, recognized, assumed; continuous: the routing rule of the engine


class Fidelity(NamedTuple):
    """Logged against simulated; what the gate asked, and whether it passed."""

    passed: bool
    tolerance: dict[str, float]
    min_requests: int
    bands: list[BandShare]
    at_batch_size: dict[str, int]  # of each class; the loads are meant at it
    replays: int
    block_s: float  # length of the blocks of time that were resampled
    policy: ReplayedPolicy
    rows: list[FidelityRow]
    quantiles: list[QuantileRow]

    @property
    def gate(self) -> Gate:
        """What was asked."""
        return Gate(self.tolerance, self.min_requests)


def fidelity_of_log(
    replay: Replay,
    policy: ReplayedPolicy,
    gate: Gate,
    rules: FidelityRules,
    generator: np.random.Generator,
) -> Fidelity:
    """Compares a log with its replays, by class and load band, and judges the errors."""
    bands = load_bands(replay.offered_load, rules.bands, replay.duration_s)
    replays = len(replay.simulated.departure_s)
    resamples = draw_resamples(
        len(bands.band), replay.logged.times_s["response_s"], replays, rules.resamples, generator
    )
    rows = fidelity_rows(replay, bands, rules, resamples)
    return Fidelity(
        not fidelity_failures(rows, gate),
        gate.tolerance,
        gate.min_requests,
        _shares(bands),
        replay.at_batch_size,
        replays,
        resamples.block_s,
        policy,
        rows,
        quantile_rows(replay, bands),
    )


def replayed_policy(stated: dict[str, Any], calibration: Calibration) -> ReplayedPolicy:
    """The policy of a calibration whose log's own system is `stated`."""
    if calibration.tokens is not None:
        return ReplayedPolicy(calibration.tokens.routing.value, {}, 0.0, "continuous")
    rule, parameters = logged_rule(calibration.system)
    told, found = calibration.system["policy"], calibration.policy
    method = "assumed"
    if stated.get("policy") == told:
        method = "declared"
    elif found is not None and found.rule == rule:
        method = found.method
    return ReplayedPolicy(rule, parameters, float(told.get("epsilon") or 0.0), method)


def _shares(bands: LoadBands) -> list[BandShare]:
    shares = []
    for name in bands.names:
        inside = bands.in_band(name)
        load = float(bands.offered_load[inside].mean()) if inside.any() else float("nan")
        share = float(bands.window_s[inside].sum() / bands.duration_s)
        shares.append(BandShare(name, share, load))
    return shares


def to_json(fidelity: Fidelity) -> dict[str, Any]:
    """The fidelity as plain values, NaN as null; `from_json` is its inverse."""
    values: dict[str, Any] = plain(fidelity)
    return values


def from_json(values: dict[str, Any]) -> Fidelity:
    """The fidelity that `to_json` wrote; ValueError where it holds no row."""
    fidelity: Fidelity = from_plain(Fidelity, values)
    if not fidelity.rows:
        raise ValueError("it has no row")
    return fidelity
