"""Does the calibrated simulator retell the log? Logged arrivals, logged policy, response times."""

from typing import Any, NamedTuple

import numpy as np

from pipeline.calibration.log import LoggedRun
from simulator.environment import Environment
from simulator.metrics import response_percentiles_s
from simulator.policies.base import Policy
from simulator.policies.mixture import EpsilonMixture
from simulator.policies.registry import build_policy
from simulator.reward import Reward, reward_term_names
from simulator.rollout import run_episodes
from simulator.scenario import Scenario
from simulator.state import Recording, RequestStatus
from simulator.workload import Arrivals, RecordedWorkload

PERCENTILES = (50, 95, 99)
ALL_BANDS = "all"
BANDS = ("low", "medium", "high")
_BAND_WINDOW_S = 5.0
_DRAIN_S = 60.0  # after the last arrival, so that its answer is seen too


class FidelityRow(NamedTuple):
    """One percentile of one class in one load band: logged, simulated, and the relative error."""

    request_class: str
    band: str
    percentile: int
    requests: int
    logged_s: float
    simulated_s: float
    error: float  # simulated / logged - 1


def replay_response_s(
    scenario: Scenario,
    policy: Policy,
    arrivals: Arrivals,
    duration_s: float,
    replays: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """Response times `[replays, R]` s of the logged arrivals under the policy; NaN where shed.

    All arrivals are before `duration_s`; each replay meets other noise.
    """
    action_stream, environment_stream = generator.spawn(2)
    no_reward = Reward(np.zeros(len(reward_term_names(scenario.class_names))))
    environment = Environment(
        scenario,
        RecordedWorkload(arrivals),
        replays,
        duration_s,
        no_reward,
        environment_stream,
        drain_s=_DRAIN_S,
        recording=Recording(requests=True),
    )
    run_episodes(environment, policy, action_stream)
    records = environment.request_records()
    answered = records.status == RequestStatus.COMPLETED
    response_s = np.where(answered, records.departure_s - records.arrival_s, np.nan)
    return response_s.reshape(replays, len(arrivals.arrival_s))


def load_bands(arrivals: Arrivals, work_s: np.ndarray) -> np.ndarray:
    """The load band `[R]` of each request, as a number of `BANDS`.

    The log is cut into windows of 5 s; a window's load is the work that arrives in it
    (`work_s [R]`, seconds of service), and the windows' terciles are the bands.
    """
    window = (arrivals.arrival_s / _BAND_WINDOW_S).astype(np.int64)
    load = np.bincount(window, weights=work_s)
    edges = np.quantile(load, [1 / 3, 2 / 3])
    return np.searchsorted(edges, load)[window]


def fidelity_rows(
    arrivals: Arrivals,
    class_names: tuple[str, ...],
    logged_s: np.ndarray,
    simulated_s: np.ndarray,
    band: np.ndarray,
) -> list[FidelityRow]:
    """Percentiles of logged `[R]` against simulated `[replays, R]` response times, NaN where shed.

    The simulated percentile is the median over the replays. Load band `all` comes first; it has a
    row even where the log has no answer of a class, the others have none then.
    """
    rows = []
    for number, name in enumerate(class_names):
        of_class = arrivals.request_class == number
        rows += _percentile_rows(name, ALL_BANDS, logged_s[of_class], simulated_s[:, of_class])
        for band_number, band_name in enumerate(BANDS):
            chosen = of_class & (band == band_number)
            if not np.isnan(logged_s[chosen]).all():
                rows += _percentile_rows(name, band_name, logged_s[chosen], simulated_s[:, chosen])
    return rows


def _percentile_rows(
    request_class: str, band: str, logged_s: np.ndarray, simulated_s: np.ndarray
) -> list[FidelityRow]:
    percentiles: list[float] = list(PERCENTILES)
    answered_s = _answered(logged_s)
    logged = response_percentiles_s(answered_s, percentiles)
    replays = [response_percentiles_s(_answered(replay_s), percentiles) for replay_s in simulated_s]
    simulated = np.median(replays, axis=0)
    error = simulated / logged - 1.0
    return [
        FidelityRow(request_class, band, percentile, len(answered_s), *map(float, figures))
        for percentile, *figures in zip(PERCENTILES, logged, simulated, error, strict=True)
    ]


def _answered(response_s: np.ndarray) -> np.ndarray:
    return response_s[~np.isnan(response_s)]


def fidelity_failures(rows: list[FidelityRow], tolerance: dict[int, float]) -> list[str]:
    """A sentence for each row of load band `all` whose error exceeds its percentile's tolerance."""
    return _misses([row for row in rows if row.band == ALL_BANDS], tolerance)


def fidelity_warnings(rows: list[FidelityRow], tolerance: dict[int, float]) -> list[str]:
    """The same of the load bands: a third of the log each, too little to stop a run for."""
    return _misses([row for row in rows if row.band != ALL_BANDS], tolerance)


def _misses(rows: list[FidelityRow], tolerance: dict[int, float]) -> list[str]:
    return [
        f"{row.request_class} P{row.percentile}"
        f"{'' if row.band == ALL_BANDS else f' at {row.band} load'}: "
        f"logged {row.logged_s * 1e3:.1f} ms, simulated {row.simulated_s * 1e3:.1f} ms, "
        f"error {row.error:+.1%} against a tolerance of {tolerance[row.percentile]:.0%}"
        for row in rows
        if not abs(row.error) <= tolerance[row.percentile]
    ]


def logged_policy(scenario: Scenario, system: dict[str, Any]) -> Policy:
    """The policy that the log's system.json names; ValueError where it names none."""
    rule, parameters = logged_rule(system)
    policy = build_policy(rule, scenario, parameters)
    epsilon = system["policy"].get("epsilon") or 0.0
    return EpsilonMixture(policy, epsilon) if epsilon > 0.0 else policy


def logged_rule(system: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The rule that ran while the log was recorded, and its parameters."""
    told = system.get("policy")
    if not isinstance(told, dict) or "name" not in told:
        raise ValueError("system.json: needs policy.name, the rule that ran while it was recorded")
    return told["name"], dict(told.get("parameters") or {})


def fidelity_of_log(
    run: LoggedRun, scenario: Scenario, replays: int, generator: np.random.Generator
) -> list[FidelityRow]:
    """Replays the logged arrivals under the logged policy and compares response times."""
    policy = logged_policy(scenario, run.system)
    simulated_s = replay_response_s(
        scenario, policy, run.arrivals, run.duration_s, replays, generator
    )
    parameters = scenario.parameters()
    # The service time of a request that is served alone; only the ranking of windows matters here.
    alone_s = parameters.alpha_s.mean(0), parameters.beta_s.mean(0)
    alpha_s, beta_s = (by_class[run.arrivals.request_class] for by_class in alone_s)
    band = load_bands(run.arrivals, alpha_s + beta_s * run.arrivals.size)
    return fidelity_rows(run.arrivals, scenario.class_names, run.response_s, simulated_s, band)


def describe_fidelity(rows: list[FidelityRow]) -> list[str]:
    """A line for each class and percentile over the whole log."""
    return [
        f"{row.request_class} P{row.percentile}: logged {row.logged_s * 1e3:.1f} ms, "
        f"simulated {row.simulated_s * 1e3:.1f} ms ({row.error:+.1%})"
        for row in rows
        if row.band == ALL_BANDS
    ]
