"""One policy on a set of episodes, and what users and operators would have seen."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from simulator.environment import Environment, RequestRecords
from simulator.metrics import ClassMetrics, class_metrics
from simulator.observation import Observation
from simulator.policies.base import Policy
from simulator.reward import Reward
from simulator.rollout import Rollout, run_begun_episodes, run_episodes
from simulator.scenario import Scenario
from simulator.state import RECORD_NOTHING, Recording
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
    drain_s: float = DRAIN_S


class Evaluation(NamedTuple):
    """What came of a policy in a trial, summed up."""

    reward_per_s: np.ndarray  # [E] return of an episode / seconds of arrivals
    by_class: tuple[ClassMetrics, ...]  # [C], all episodes together


class Outcome(NamedTuple):
    """What came of a policy in a trial: E episodes and every request in them."""

    reward_per_s: np.ndarray  # [E] return of an episode / seconds of arrivals
    rollout: Rollout  # of E lanes; its reward terms hold replica-seconds, energy and bill
    records: RequestRecords


def evaluate(policy: Policy, trial: Trial) -> Evaluation:
    """Runs the policy through every episode of the trial; luck and errors as in `play`."""
    outcome = play(policy, trial)
    return Evaluation(outcome.reward_per_s, metrics_by_class(outcome.records, trial))


def metrics_by_class(records: RequestRecords, trial: Trial) -> tuple[ClassMetrics, ...]:
    """The metrics `[C]` of all episodes together."""
    arrival_time_s = trial.horizon_s * len(trial.workloads)
    return tuple(
        class_metrics(records, number, request_class.slo_s, arrival_time_s)
        for number, request_class in enumerate(trial.scenario.request_classes)
    )


def play(policy: Policy, trial: Trial) -> Outcome:
    """The policy in every episode of the trial, an episode in each lane.

    Equal seeds give every policy the same arrivals and noise, episode by episode. Raises
    RuntimeError where a reward is not finite: comparisons would rank it anywhere.
    """
    action_stream, environment = _started(trial, Recording(requests=True))
    rollout = _checked(run_episodes(environment, policy, action_stream), policy)
    return Outcome(rollout.return_ / trial.horizon_s, rollout, environment.request_records())


def rewards_side_by_side(policies: Sequence[Policy], trial: Trial) -> np.ndarray:
    """`[P, E]` the rewards that `play` finds for each of P policies, in one pass and faster.

    All policies step together, each in lanes of its own with the same luck, and no request is
    recorded.
    """
    action_stream, environment = _started(trial, RECORD_NOTHING)
    environment.reset()  # once, before the lanes are copied
    lanes = np.tile(np.arange(len(trial.workloads)), len(policies))
    environment = environment.branch(lanes)
    together = _SideBySide(policies, environment)
    rollout = run_begun_episodes(environment, together, action_stream, shares=len(policies))
    return_ = _checked(rollout, together).return_
    return return_.reshape(len(policies), -1) / trial.horizon_s


class _SideBySide:
    """P policies as one: the first has the first share of the lanes, and so on.

    None is asked any more once all of its own episodes have ended: some settings make episodes
    many times as long as others do.
    """

    def __init__(self, policies: Sequence[Policy], environment: Environment) -> None:
        self.name = policies[0].name
        self._policies, self._environment = policies, environment

    def reset(self, lanes: int) -> None:
        """All of them forget everything."""
        width = lanes // len(self._policies)
        for policy in self._policies:
            policy.reset(width)
        self._own = [slice(first, first + width) for first in range(0, lanes, width)]
        self._rows = np.zeros((lanes, self._environment.action_count))
        self._observation: Observation | None = None

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """The rows of each policy in its lanes; the last ones where all of them have ended."""
        if observation is not self._observation:  # the environment writes into the same arrays
            self._observation = observation
            self._seen = [Observation(*(field[own] for field in observation)) for own in self._own]
        running = self._environment.running().reshape(len(self._policies), -1).any(axis=1)
        for number in np.flatnonzero(running).tolist():
            own = self._own[number]
            self._rows[own] = self._policies[number].action_probabilities(
                self._seen[number], action_mask[own]
            )
        return self._rows


def _started(trial: Trial, recording: Recording) -> tuple[np.random.Generator, Environment]:
    """The stream of the actions, and the trial's episodes, none of them begun."""
    action_stream, environment_stream = np.random.default_rng(trial.seed).spawn(2)
    environment = Environment(
        trial.scenario,
        trial.workloads,
        len(trial.workloads),
        trial.horizon_s,
        trial.reward,
        environment_stream,
        trial.drain_s,
        recording,
    )
    return action_stream, environment


def _checked(rollout: Rollout, policy: Policy) -> Rollout:
    if not np.isfinite(rollout.return_).all():
        raise RuntimeError(f"{policy.name}: the reward of an episode is not finite")
    return rollout
