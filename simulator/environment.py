"""The simulator as an environment of many lanes, for rules and for learned policies."""

import copy
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from simulator.action import action_table
from simulator.engine import run_lanes
from simulator.episode import start_lanes
from simulator.future import Future, draw_future, spawn_streams
from simulator.layout import empty_state
from simulator.observation import Observation, empty_observation
from simulator.reward import Reward, reward_term_names
from simulator.scenario import Scenario
from simulator.state import RECORD_NOTHING, ClusterState, Ending, Recording
from simulator.workload import Workload


class Step(NamedTuple):
    """What a step returns, lane first. All arrays but `reward` are overwritten by the next step."""

    observation: Observation
    action_mask: np.ndarray  # [B, A] bool
    reward_terms: np.ndarray  # [B, T]
    reward: np.ndarray  # [B]
    holding_s: np.ndarray  # [B] s between the last decision and this one; may be 0
    terminated: np.ndarray  # [B] bool, the trace is drained
    truncated: np.ndarray  # [B] bool, cut by the horizon: bootstrap


class RequestRecords(NamedTuple):
    """Every request that has arrived, lane after lane. R of all lanes together."""

    lane: np.ndarray  # [R]
    request_class: np.ndarray  # [R]
    arrival_s: np.ndarray  # [R] s
    dispatch_s: np.ndarray  # [R] s, NaN where not dispatched
    departure_s: np.ndarray  # [R] s, NaN where not answered
    status: np.ndarray  # [R] RequestStatus
    replica: np.ndarray  # [R] -1 where not dispatched
    first_token_s: np.ndarray  # [R] s, NaN before; continuous batching only
    output_tokens: np.ndarray  # [R] 0 unless continuous batching


class Environment:
    """B independent simulated clusters that step together, each to its own next decision.

    A lane whose episode has ended stands still (holding time and reward 0) until `reset`.
    Each lane has its own random streams, one for arrivals and one for noise: the n-th episode of a
    lane meets the same arrivals and the same noise whatever the policy does.

    Arguments: `workload` and `generator`, one for all lanes or one for each; `horizon_s`, the
    instant that truncates an episode; `drain_s`, if above 0, stops arrivals at `horizon_s` and lets
    the lane run on until it is drained (terminated) or this much longer has passed (truncated).
    """

    def __init__(
        self,
        scenario: Scenario,
        workload: Workload | Sequence[Workload],
        lanes: int,
        horizon_s: float,
        reward: Reward,
        generator: np.random.Generator | Sequence[np.random.Generator],
        drain_s: float = 0.0,
        recording: Recording = RECORD_NOTHING,
    ) -> None:
        workloads = list(workload) if isinstance(workload, Sequence) else [workload] * lanes
        if lanes < 1 or len(workloads) != lanes:
            raise ValueError(f"lanes = {lanes}: needs at least 1, and a workload for each")
        if isinstance(generator, Sequence) and len(generator) != lanes:
            raise ValueError(f"generator: {len(generator)} generators for {lanes} lanes")
        for field, value, low in (("horizon_s", horizon_s, 1e-9), ("drain_s", drain_s, 0.0)):
            if not (np.isfinite(value) and value >= low):
                raise ValueError(f"{field} = {value!r}: must be finite and at least {low:g}")
        terms = reward_term_names(scenario.class_names)
        if len(reward.weights) != len(terms):
            raise ValueError(
                f"reward.weights: {len(reward.weights)} weights; needs one for each of "
                f"{len(terms)} terms: {', '.join(terms)}"
            )
        self.scenario, self.lanes, self.reward = scenario, lanes, reward
        self.table = action_table(scenario)
        self.parameters = scenario.parameters()
        self._workloads, self._horizon_s, self._drain_s = workloads, horizon_s, drain_s
        self._recording = recording
        self._streams = spawn_streams(generator, lanes)
        self._lent = np.zeros(lanes, np.bool_)  # streams that another environment holds as well
        self.state = empty_state(scenario, lanes, 1, recording)
        start_lanes(self.parameters, self.state, np.ones(lanes, np.bool_))
        self.state.ending[:] = Ending.TRUNCATED  # nothing runs before the first reset
        self._observation = empty_observation(scenario, lanes)
        self._action_mask = np.zeros((lanes, self.table.size), np.bool_)
        self._reward_terms = np.zeros_like(self.state.reward_terms)
        self._holding_s = np.zeros(lanes)
        self._make_constants()

    def _make_constants(self) -> None:
        """Arrays of every call that never change."""
        self._rows = np.arange(self.lanes)
        self._no_starts = np.zeros(self.lanes, np.bool_)
        self._no_action = np.full(self.lanes, -1, np.int64)

    @property
    def action_count(self) -> int:
        """The number of actions A, WAIT included."""
        return self.table.size

    def running(self) -> np.ndarray:
        """`[B]` True in the lanes whose episode has not ended."""
        return self.state.ending == Ending.RUNNING

    def reset(self, lanes: np.ndarray | None = None) -> tuple[Observation, np.ndarray]:
        """Starts a new episode in the lanes where `lanes [B]` is True, in all if None.

        Returns the observation and the action mask `[B, A]` of all lanes.
        """
        starts = np.ones(self.lanes, np.bool_) if lanes is None else np.asarray(lanes, np.bool_)
        for lane in np.flatnonzero(starts):
            self._place(int(lane), self._draw(int(lane)))
        start_lanes(self.parameters, self.state, starts)
        self._run(starts, self._no_action)
        return self._observation, self._action_mask

    def step(self, action: np.ndarray) -> Step:
        """Every running lane takes its action `[B]` and runs to its next decision.

        Raises ValueError for an action that the mask forbids in a running lane.
        """
        action = np.asarray(action, np.int64)
        if action.shape != (self.lanes,) or action.min() < 0 or action.max() >= self.table.size:
            raise ValueError(f"action: needs {self.lanes} numbers in 0..{self.table.size - 1}")
        illegal = ~self._action_mask[self._rows, action] & (self.state.ending == Ending.RUNNING)
        if illegal.any():
            lane = int(np.argmax(illegal))
            raise ValueError(f"action = {action[lane]} in lane {lane}: the action mask forbids it")
        self._run(self._no_starts, action)
        return Step(
            observation=self._observation,
            action_mask=self._action_mask,
            reward_terms=self._reward_terms,
            reward=self.reward.value(self._reward_terms),
            holding_s=self._holding_s,
            terminated=self.state.ending == Ending.TERMINATED,
            truncated=self.state.ending == Ending.TRUNCATED,
        )

    def branch(self, lanes: np.ndarray) -> "Environment":
        """An environment whose lane i goes on from the present state of `lanes [n]`'s i-th lane.

        Its lanes have the same future arrivals, noise, delays and faults as the lane that they
        come from, in this episode and in later ones, so that actions can be judged by paired
        rollouts: `branch(np.full(n, lane))` copies one lane n times. Nothing is shared.
        """
        lanes = np.asarray(lanes, np.int64)
        if lanes.ndim != 1 or len(lanes) == 0 or lanes.min() < 0 or lanes.max() >= self.lanes:
            raise ValueError(f"lanes = {lanes!r}: needs numbers in 0..{self.lanes - 1}")
        other = copy.copy(self)
        other.lanes = len(lanes)
        other._workloads = [self._workloads[lane] for lane in lanes]
        # Copied only where one draws again: most branches end with the episode.
        other._streams = [self._streams[lane] for lane in lanes]
        other._lent = np.ones(len(lanes), np.bool_)
        self._lent[lanes] = True
        other.state = ClusterState(*(field[lanes] for field in self.state))
        other._observation = Observation(*(field[lanes] for field in self._observation))
        other._action_mask = self._action_mask[lanes]
        other._reward_terms, other._holding_s = self._reward_terms[lanes], self._holding_s[lanes]
        other._make_constants()
        return other

    def decision(self) -> tuple[Observation, np.ndarray]:
        """The observation and the action mask of the decisions that are due now."""
        return self._observation, self._action_mask

    def request_records(self) -> RequestRecords:
        """All requests that have arrived so far. Needs `Recording(requests=True)`."""
        if not self._recording.requests:
            raise ValueError("recording.requests = False: this environment kept no records")
        state = self.state
        columns = np.arange(state.arrival_s.shape[1])
        lane, request = np.nonzero(columns < state.next_request[:, None])
        return RequestRecords(
            lane=lane,
            request_class=state.request_class[lane, request],
            arrival_s=state.arrival_s[lane, request],
            dispatch_s=state.request_dispatch_s[lane, request],
            departure_s=state.request_departure_s[lane, request],
            status=state.request_status[lane, request],
            replica=state.request_replica[lane, request],
            first_token_s=(
                state.request_first_token_s[lane, request]
                if self.scenario.continuous
                else np.full(len(lane), np.nan)
            ),
            output_tokens=(
                state.output_tokens[lane, request]
                if self.scenario.continuous
                else np.zeros(len(lane), np.int32)
            ),
        )

    def _run(self, starts: np.ndarray, action: np.ndarray) -> None:
        """Lanes start an episode or take an action, and run to their next decision."""
        run_lanes(
            self.parameters,
            self.state,
            self.table,
            starts,
            action,
            self._observation,
            self._action_mask,
            self._reward_terms,
            self._holding_s,
        )

    def _draw(self, lane: int) -> Future:
        if self._lent[lane]:
            self._streams[lane] = copy.deepcopy(self._streams[lane])
            self._lent[lane] = False
        workload, streams = self._workloads[lane], self._streams[lane]
        return draw_future(self.scenario, workload, self._horizon_s, self._drain_s, streams)

    def _place(self, lane: int, future: Future) -> None:
        """Writes the future of an episode into the state, which grows where it is too small."""
        count, boundaries = len(future.arrivals.arrival_s), future.fault_s.shape[1]
        places = (self.state.arrival_s.shape[1], self.state.fault_s.shape[2])
        if count > places[0] or boundaries > places[1]:
            room = tuple(
                old if new <= old else new + new // 4
                for old, new in zip(places, (count, boundaries), strict=True)
            )
            self.state = _grown(self.scenario, self.state, room, self._recording)
        state, arrivals = self.state, future.arrivals
        state.arrival_s[lane, count:] = np.inf
        for field, values in (
            ("arrival_s", arrivals.arrival_s),
            ("request_class", arrivals.request_class),
            ("size", arrivals.size),
            ("prompt_tokens", arrivals.prompt_tokens),
            ("output_tokens", arrivals.output_tokens),
            ("noise_z", future.noise_z),
            ("delay_s", future.delay_s),
        ):
            if getattr(state, field).shape[1]:
                getattr(state, field)[lane, :count] = values
        state.cold_start_s[lane] = future.cold_start_s
        state.fault_s[lane, :, :boundaries] = future.fault_s
        state.fault_s[lane, :, boundaries:] = np.inf
        state.request_count[lane] = count
        state.horizon_s[lane] = self._horizon_s + self._drain_s
        state.drains[lane] = self._drain_s > 0


def _grown(
    scenario: Scenario, state: ClusterState, room: tuple[int, ...], recording: Recording
) -> ClusterState:
    """The same state with room for other numbers of requests and of boundaries of faults."""
    requests, boundaries = room
    wider = empty_state(scenario, len(state.clock_s), requests, recording, boundaries)
    for old, new in zip(state, wider, strict=True):
        new[tuple(slice(0, length) for length in old.shape)] = old
    return wider
