"""One policy on a set of episodes, and what users and operators would have seen."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from simulator.environment import Environment
from simulator.metrics import ClassMetrics, class_metrics
from simulator.policies.base import Policy
from simulator.reward import Reward
from simulator.rollout import run_episodes
from simulator.scenario import Scenario
from simulator.state import Recording
from simulator.workload import Workload

DRAIN_S = 10.0  # after the last arrival, so that slow answers are seen too


class Trial(NamedTuple):
    """What every policy of a comparison meets: scenario, episodes, and the seed of its luck."""

    scenario: Scenario
    reward: Reward
    workloads: Sequence[Workload]  # one for each of E episodes
    window: np.ndarray  # [E] number of the window that an episode shows
    horizon_s: float
    seed: int


class Evaluation(NamedTuple):
    """What came of a policy in a trial."""

    reward_per_s: np.ndarray  # [E] return of an episode / seconds of arrivals
    by_class: tuple[ClassMetrics, ...]  # [C], all episodes together


def evaluate(policy: Policy, trial: Trial) -> Evaluation:
    """Runs the policy through every episode of the trial.

    Equal seeds give every policy the same arrivals and noise, episode by episode. Raises
    RuntimeError where a reward is not finite: comparisons would rank it anywhere.
    """
    action_stream, environment_stream = np.random.default_rng(trial.seed).spawn(2)
    environment = Environment(
        trial.scenario,
        trial.workloads,
        len(trial.workloads),
        trial.horizon_s,
        trial.reward,
        environment_stream,
        DRAIN_S,
        Recording(requests=True),
    )
    rollout = run_episodes(environment, policy, action_stream)
    if not np.isfinite(rollout.return_).all():
        raise RuntimeError(f"{policy.name}: the reward of an episode is not finite")
    records = environment.request_records()
    arrival_time_s = trial.horizon_s * len(trial.workloads)
    by_class = tuple(
        class_metrics(records, number, request_class.slo_s, arrival_time_s)
        for number, request_class in enumerate(trial.scenario.request_classes)
    )
    return Evaluation(rollout.return_ / trial.horizon_s, by_class)
