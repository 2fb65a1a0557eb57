"""One episode of one policy, played with everything recorded."""

from typing import NamedTuple

import numpy as np

from pipeline.inspect.service import EventLog
from pipeline.offered_load import MeanArrivals, mean_arrivals
from pipeline.progress import Advance
from pipeline.randomness import stream
from simulator.action import sample_actions
from simulator.environment import Environment, RequestRecords
from simulator.policies.base import Policy
from simulator.reward import weighted_reward
from simulator.scenario import Scenario
from simulator.state import Recording
from simulator.workload import Arrivals, RecordedWorkload, Workload

_EVENTS_PER_REQUEST = 6  # arrival, join, dispatch, start, completion, and something over


class Episode(NamedTuple):
    """What is to be played."""

    name: str  # of the scenario
    scenario: Scenario
    workload: Workload
    policy: Policy
    rule: str  # the policy and its parameters in words
    horizon_s: float
    seed: int


class Played(NamedTuple):
    """What came of it."""

    records: RequestRecords
    events: EventLog
    end_s: float
    mean: MeanArrivals  # of what arrived


def play(episode: Episode, advance: Advance = lambda amount, note="": None) -> Played:
    """Runs the episode to its horizon; equal seeds meet equal arrivals, noise and faults.

    `advance` is told of the simulated milliseconds.
    """
    seed, horizon_s = episode.seed, episode.horizon_s
    arrivals = episode.workload.draw(horizon_s, stream(seed, "inspect", "arrivals"))
    places = 10_000 + _EVENTS_PER_REQUEST * len(arrivals.arrival_s)
    environment, happened = _run(episode, arrivals, places, advance)
    if happened > places:  # the log was full: once more with room for all of it
        environment, happened = _run(episode, arrivals, happened, lambda amount, note="": None)
    state = environment.state
    log = EventLog(
        *(
            column[0, :happened].copy()
            for column in (state.event_clock_s, state.event_kind, state.event_subject)
        )
    )
    end_s = float(state.clock_s[0])
    classes = len(episode.scenario.request_classes)
    mean = mean_arrivals(arrivals, classes, horizon_s)
    return Played(environment.request_records(), log, end_s, mean)


def _run(
    episode: Episode, arrivals: Arrivals, places: int, advance: Advance
) -> tuple[Environment, int]:
    """One episode of one lane, and the number of its events."""
    scenario, policy = episode.scenario, episode.policy
    environment = Environment(
        scenario,
        RecordedWorkload(arrivals),
        1,
        episode.horizon_s,
        weighted_reward(scenario, {}, {}),  # nobody is paid for being looked at
        stream(episode.seed, "inspect", "environment"),
        recording=Recording(requests=True, events=places),
    )
    actions = stream(episode.seed, "inspect", "actions")
    policy.reset(1)
    observation, action_mask = environment.reset()
    told_ms = 0
    while environment.running()[0]:
        action, _ = sample_actions(policy.action_probabilities(observation, action_mask), actions)
        step = environment.step(action)
        observation, action_mask = step.observation, step.action_mask
        clock_ms = int(environment.state.clock_s[0] * 1e3)
        if clock_ms > told_ms:
            advance(clock_ms - told_ms)
            told_ms = clock_ms
    return environment, int(np.asarray(environment.state.event_count)[0])
