"""The simulator as an environment of many lanes, for rules and for learned policies."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from simulator.action import action_table
from simulator.engine import start_lanes, step_lanes
from simulator.noise import draw_noise
from simulator.observation import Observation
from simulator.parameters import Scenario
from simulator.reward import Reward
from simulator.state import RECORD_NOTHING, ClusterState, Ending, Recording, empty_state
from simulator.workload import Arrivals, Workload, check_arrivals


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


class Environment:
    """B independent simulated clusters that step together, each to its own next decision.

    A lane whose episode has ended stands still (holding time and reward 0) until `reset`.
    Each lane has its own random streams, one for arrivals and one for noise: the n-th episode of a
    lane meets the same arrivals and the same noise whatever the policy does.

    Arguments: `workload`, one for all lanes or one for each; `horizon_s`, the instant that
    truncates an episode; `drain_s`, if above 0, stops arrivals at `horizon_s` and lets the lane
    run on until it is drained (terminated) or this much longer has passed (truncated).
    """

    def __init__(
        self,
        scenario: Scenario,
        workload: Workload | Sequence[Workload],
        lanes: int,
        horizon_s: float,
        reward: Reward,
        generator: np.random.Generator,
        drain_s: float = 0.0,
        recording: Recording = RECORD_NOTHING,
    ) -> None:
        workloads = list(workload) if isinstance(workload, Sequence) else [workload] * lanes
        if lanes < 1 or len(workloads) != lanes:
            raise ValueError(f"lanes = {lanes}: needs at least 1, and a workload for each")
        for field, value, low in (("horizon_s", horizon_s, 1e-9), ("drain_s", drain_s, 0.0)):
            if not (np.isfinite(value) and value >= low):
                raise ValueError(f"{field} = {value!r}: must be finite and at least {low:g}")
        self.scenario, self.lanes, self.reward = scenario, lanes, reward
        self.table = action_table(scenario)
        self.parameters = scenario.parameters()
        self._workloads, self._horizon_s, self._drain_s = workloads, horizon_s, drain_s
        self._recording = recording
        arrival_stream, noise_stream = generator.spawn(2)
        self._arrival_streams = arrival_stream.spawn(lanes)
        self._noise_streams = noise_stream.spawn(lanes)
        self.state = empty_state(scenario, lanes, 1, recording)
        self._observation = _empty_observation(scenario, lanes)
        self._action_mask = np.zeros((lanes, self.table.size), np.bool_)
        self._reward_terms = np.zeros_like(self.state.reward_terms)
        self._holding_s = np.zeros(lanes)
        self._rows = np.arange(lanes)

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
            arrivals = self._workloads[lane].draw(self._horizon_s, self._arrival_streams[lane])
            check_arrivals(arrivals, len(self.scenario.request_classes))
            self._place(int(lane), arrivals)
        start_lanes(
            self.parameters, self.state, self.table, starts, self._observation, self._action_mask
        )
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
        step_lanes(
            self.parameters,
            self.state,
            self.table,
            action,
            self._observation,
            self._action_mask,
            self._reward_terms,
            self._holding_s,
        )
        return Step(
            observation=self._observation,
            action_mask=self._action_mask,
            reward_terms=self._reward_terms,
            reward=self.reward.value(self._reward_terms),
            holding_s=self._holding_s,
            terminated=self.state.ending == Ending.TERMINATED,
            truncated=self.state.ending == Ending.TRUNCATED,
        )

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
        )

    def _place(self, lane: int, arrivals: Arrivals) -> None:
        """Writes the future of an episode into the state, which grows where it is too small."""
        count = len(arrivals.arrival_s)
        if count > self.state.arrival_s.shape[1]:
            self.state = _grown(self.scenario, self.state, count, self._recording)
        state = self.state
        state.arrival_s[lane, :count] = arrivals.arrival_s
        state.arrival_s[lane, count:] = np.inf
        state.request_class[lane, :count] = arrivals.request_class
        state.size[lane, :count] = arrivals.size
        state.request_count[lane] = count
        state.horizon_s[lane] = self._horizon_s + self._drain_s
        state.drains[lane] = self._drain_s > 0
        if state.noise_z.shape[1]:
            state.noise_z[lane, :count] = draw_noise(
                arrivals.arrival_s,
                self.scenario.spell_share,
                self.scenario.spell_time_s,
                self._noise_streams[lane],
            )


def _grown(
    scenario: Scenario, state: ClusterState, requests: int, recording: Recording
) -> ClusterState:
    """The same state with room for `requests` requests and a quarter more."""
    wider = empty_state(scenario, len(state.clock_s), requests + requests // 4, recording)
    for old, new in zip(state, wider, strict=True):
        new[tuple(slice(0, length) for length in old.shape)] = old
    wider.arrival_s[:, state.arrival_s.shape[1] :] = np.inf
    return wider


def _empty_observation(scenario: Scenario, lanes: int) -> Observation:
    classes, replicas = len(scenario.request_classes), len(scenario.replicas)
    return Observation(
        queue_length=np.zeros((lanes, classes)),
        oldest_wait_s=np.zeros((lanes, classes)),
        head_class=np.full(lanes, -1, np.int64),
        since_dispatch_s=np.zeros(lanes),
        last_replica=np.full(lanes, -1, np.int64),
        can_take=np.zeros((lanes, replicas)),
        remaining_service_s=np.zeros((lanes, replicas)),
        in_service=np.zeros((lanes, replicas)),
        arrival_rate_rps=np.zeros((lanes, classes)),
        response_p95_s=np.zeros(lanes),
        utilization=np.zeros((lanes, replicas)),
    )
