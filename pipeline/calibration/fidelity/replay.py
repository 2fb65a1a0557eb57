"""The logged arrivals in the simulator: what came of them there, beside what the log says."""

from typing import NamedTuple

import numpy as np

from pipeline.calibration.fidelity.bands import WINDOW_S, windows_of
from pipeline.calibration.fidelity.policy import largest_batch, logged_policy
from pipeline.calibration.log import LoggedRequests, LoggedRun
from pipeline.calibration.tokens.fit import TokenFit, predict
from pipeline.calibration.tokens.log import LoggedTokens, token_times
from pipeline.calibration.tokens_of_log import logged_tokens
from pipeline.offered_load import mean_arrivals, offered_load
from simulator.environment import Environment, RequestRecords
from simulator.policies.base import Policy
from simulator.reward import Reward, reward_term_names
from simulator.rollout import run_episodes
from simulator.scenario import Scenario
from simulator.state import Recording, RequestStatus
from simulator.workload import Arrivals, RecordedWorkload

_DRAIN_S = 60.0  # after the last arrival, so that its answer is seen too


class Outcome(NamedTuple):
    """What came of each request; `[R]` of a log, `[replays, R]` of its replays. NaN: no answer."""

    departure_s: np.ndarray  # s
    times_s: dict[str, np.ndarray]  # response_s; of continuous batching ttft_s and tpot_s too
    batch_size: np.ndarray | None = None  # requests in its batch, 0 if in none; None: not known


class Replay(NamedTuple):
    """A log and its replays in the simulator."""

    class_names: tuple[str, ...]
    duration_s: float
    arrivals: Arrivals
    logged: Outcome
    simulated: Outcome
    offered_load: np.ndarray  # [W] of each window
    at_batch_size: dict[str, int]  # of each class; at which that load is meant


def replay_batches(
    run: LoggedRun, scenario: Scenario, replays: int, generator: np.random.Generator
) -> Replay:
    """Replays of a log of whole batches under the logged policy; each meets other noise."""
    policy = logged_policy(scenario, run.system)
    records = _replayed(scenario, policy, run.arrivals, run.duration_s, replays, generator)
    answered = records.status == RequestStatus.COMPLETED
    departure_s = np.where(answered, records.departure_s, np.nan).reshape(replays, -1)
    size = None
    if run.requests is not None and (run.requests.batch >= 0).any():
        size = _logged_sizes(run.requests)
    batch_size = None if size is None else _simulated_sizes(records).reshape(replays, -1)
    most = largest_batch(run.system, scenario)
    return Replay(
        scenario.class_names,
        run.duration_s,
        run.arrivals,
        Outcome(run.arrivals.arrival_s + run.response_s, {"response_s": run.response_s}, size),
        Outcome(departure_s, {"response_s": departure_s - run.arrivals.arrival_s}, batch_size),
        _load_of_batches(run.arrivals, scenario, most, run.duration_s),
        most,
    )


def replay_tokens(run: LoggedRun, fit: TokenFit) -> Replay:
    """The replay of the completed requests of a log of continuous batching: nothing is random.

    Its offered load is meant with as many sequences as fit (`pipeline.offered_load`).
    """
    log, arrivals, _ = logged_tokens(run)
    told = predict(fit, log.arrivals)
    simulated = LoggedTokens(*(column[None] for column in told))
    load = _load_of_tokens(log.arrivals, fit, run.duration_s)
    names = tuple(run.system["request_classes"])
    return Replay(
        names,
        run.duration_s,
        arrivals,
        Outcome(log.departure_s, token_times(log)._asdict()),
        Outcome(simulated.departure_s, token_times(simulated)._asdict()),
        load,
        dict.fromkeys(names, fit.limits.max_num_seqs.value),
    )


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
    records = _replayed(scenario, policy, arrivals, duration_s, replays, generator)
    answered = records.status == RequestStatus.COMPLETED
    response_s = np.where(answered, records.departure_s - records.arrival_s, np.nan)
    return response_s.reshape(replays, len(arrivals.arrival_s))


def _replayed(
    scenario: Scenario,
    policy: Policy,
    arrivals: Arrivals,
    duration_s: float,
    replays: int,
    generator: np.random.Generator,
) -> RequestRecords:
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
    return environment.request_records()


def _logged_sizes(requests: LoggedRequests) -> np.ndarray:
    """Requests `[R]` in the batch of each; those that ingest rejected are not counted."""
    members = np.bincount(requests.batch[requests.batch >= 0])
    return np.where(requests.batch >= 0, members[requests.batch], 0)


def _simulated_sizes(records: RequestRecords) -> np.ndarray:
    """Requests `[replays * R]` that were dispatched to one replica at one instant of one lane."""
    rows = np.flatnonzero(records.replica >= 0)
    order = rows[np.lexsort((records.dispatch_s[rows], records.replica[rows], records.lane[rows]))]
    keys = (records.lane[order], records.replica[order], records.dispatch_s[order])
    begins = np.ones(len(order), bool)
    begins[1:] = np.any([np.diff(key) != 0 for key in keys], axis=0)
    batch = np.cumsum(begins) - 1
    size = np.zeros(len(records.lane), np.int64)
    size[order] = np.bincount(batch)[batch] if len(order) else 0
    return size


def _load_of_batches(
    arrivals: Arrivals, scenario: Scenario, most: dict[str, int], duration_s: float
) -> np.ndarray:
    """Offered load `[W]`: `sum (alpha_c / b_c + beta_c size) / (K window)` over what arrives.

    Alpha and beta are means over the replicas, so this is exact where they are alike. The line
    stands for a latency table too.
    """
    parameters = scenario.parameters()
    alpha_s, beta_s = parameters.alpha_s.mean(0), parameters.beta_s.mean(0)
    by_request_s = alpha_s / np.array([most[name] for name in scenario.class_names])
    number = arrivals.request_class
    work_s = by_request_s[number] + beta_s[number] * arrivals.size
    count = windows_of(duration_s)
    window = np.minimum((arrivals.arrival_s // WINDOW_S).astype(np.int64), count - 1)
    begin_s = WINDOW_S * np.arange(count)
    capacity_s = len(scenario.replicas) * np.minimum(WINDOW_S, duration_s - begin_s)
    return np.asarray(np.bincount(window, work_s, count) / capacity_s)


def _load_of_tokens(arrivals: Arrivals, fit: TokenFit, duration_s: float) -> np.ndarray:
    """Offered load `[W]` by the mean tokens of what arrives in each window."""
    scenario = fit.cluster().scenario(len(arrivals.arrival_s))
    load = []
    for begin_s in WINDOW_S * np.arange(windows_of(duration_s)):
        span_s = min(WINDOW_S, duration_s - begin_s)
        inside = arrivals.window(begin_s, begin_s + span_s)
        load.append(offered_load(scenario, mean_arrivals(inside, 1, span_s)))
    return np.array(load)
