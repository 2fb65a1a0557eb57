"""The gateway: an event loop around the dispatcher that asks a policy for every decision."""

import asyncio
import gc
import selectors
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from pipeline.testbed.dispatcher import Dispatcher
from pipeline.testbed.load import OpenLoopLoad
from pipeline.testbed.recorder import Decision, Recording
from pipeline.testbed.worker import Worker
from simulator.action import HEAD_OF_LINE, WAIT, action_table, legal_actions, sample_actions
from simulator.checks import check
from simulator.observation import Observation
from simulator.policies.base import Policy
from simulator.scenario import Scenario
from simulator.workload import Arrivals, check_arrivals

DRAIN_LIMIT_S = 10.0  # after the last arrival; what still waits then has failed
WATCH_INTERVAL_S = 1.0


# What a scenario may have and this gateway does not; each must be at its default.
_LACKS = (
    "decision_epochs",
    "decision",
    "queues",
    "replica_backlog",
    "mixed",
    "scaling",
    "faults",
    "dispatch_delay",
    "view",
)


def _check_features(scenario: Scenario) -> None:
    """Raises ValueError for a scenario that the gateway could not play."""
    plain = Scenario(scenario.request_classes, scenario.replicas, scenario.batch_sizes)
    for field in _LACKS:
        value, own = getattr(scenario, field), getattr(plain, field)
        check(value == own, field, value, f"the gateway has {own}")
    for replica in scenario.replicas:
        served = not replica.serves or all(replica.serves)
        check(served, "replicas.serves", replica.serves, "the gateway's replicas serve all classes")


class Gateway:
    """Serves one load with real workers, in real time, and records what happened.

    A decision follows an event in the next turn of the loop. So the events that the loop finds
    together count as one instant, answers before arrivals, as in the simulator.
    """

    def __init__(
        self,
        scenario: Scenario,
        policy: Policy,
        workers: Sequence[Worker],
        load: OpenLoopLoad,
        recording: Recording,
        generator: np.random.Generator,
    ) -> None:
        _check_features(scenario)
        if len(workers) != len(scenario.replicas):
            raise ValueError(
                f"workers: {len(workers)} for {len(scenario.replicas)} replicas, must be equal"
            )
        self._policy, self._workers, self._load = policy, workers, load
        self._recording, self._generator = recording, generator
        self._tick_s = scenario.tick_s
        self._dispatcher = Dispatcher(scenario)
        self._table = action_table(scenario)
        columns = (self._table.replica, self._table.request_class, self._table.batch_size)
        self._actions = list(zip(*(column.tolist() for column in columns), strict=True))
        self._max_batch_size = np.array([r.max_batch_size for r in scenario.replicas])
        self._masks: dict[bytes, np.ndarray] = {}
        self._decision_scheduled = False
        self._closing = False
        self._tick: asyncio.TimerHandle | None = None

    async def serve(self, on_progress: Callable[[float], None] | None = None) -> None:
        """Returns when every request is answered or shed, or DRAIN_LIMIT_S after the last arrival.

        `on_progress(clock_s)` is called about once a second. An error in a callback, such as a
        worker that ended, ends the run and is raised here.
        """
        self._loop = asyncio.get_running_loop()
        self._finished: asyncio.Future[None] = self._loop.create_future()
        self._loop.set_exception_handler(self._fail)
        self._warm_up()
        for replica, worker in enumerate(self._workers):
            self._loop.add_reader(worker.connection.fileno(), self._on_answer, replica)
        self._recording.origin = datetime.now(UTC)
        self._origin_ns = time.monotonic_ns()
        self._load.start(self._loop, self._origin_ns * 1e-9, self._on_arrival)
        self._watch(on_progress)
        self._after_event()  # finishes a load of no requests
        try:
            await self._finished
        finally:
            for worker in self._workers:
                self._loop.remove_reader(worker.connection.fileno())

    def _warm_up(self) -> None:
        # The first call of anything is slow; a policy that learns or counts forgets it again.
        self._policy.reset(1)
        observation = self._dispatcher.observe(0.0)
        self._probabilities(observation)
        self._policy.reset(1)

    def _fail(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not self._finished.done():
            self._finished.set_exception(
                context.get("exception") or RuntimeError(context["message"])
            )

    def _finish(self) -> None:
        if not self._finished.done():
            self._finished.set_result(None)

    def _watch(self, on_progress: Callable[[float], None] | None) -> None:
        clock_s = self._clock_us() * 1e-6
        if on_progress is not None:
            on_progress(clock_s)
        over_s = clock_s - self._load.horizon_s
        if over_s >= DRAIN_LIMIT_S:
            self._closing = True
            if not self._dispatcher.busy:
                self._finish()
            elif over_s >= 2 * DRAIN_LIMIT_S:
                raise RuntimeError(f"a batch was not answered for {DRAIN_LIMIT_S} s")
        self._loop.call_later(WATCH_INTERVAL_S, self._watch, on_progress)

    def _clock_us(self) -> int:
        return (time.monotonic_ns() - self._origin_ns) // 1000

    def _on_arrival(self, request_id: int, request_class: int, size: float) -> None:
        clock_us = self._clock_us()
        joined = self._dispatcher.arrives(request_id, request_class, size, clock_us * 1e-6)
        self._recording.arrives(request_id, clock_us, joined)
        self._after_event()

    def _on_answer(self, replica: int) -> None:
        batch_id = self._workers[replica].answer()
        clock_us = self._clock_us()
        batch = self._dispatcher.completes(replica, clock_us * 1e-6)
        if batch.batch_id != batch_id:
            raise RuntimeError(f"replica {replica} answered batch {batch_id}, not {batch.batch_id}")
        self._recording.departs(batch_id, [r.request_id for r in batch.requests], clock_us)
        self._after_event()

    def _after_event(self) -> None:
        if not self._decision_scheduled:
            self._decision_scheduled = True
            self._loop.call_soon(self._decide)

    def _decide(self) -> None:
        """Decides until nothing waits, no replica is idle, or the policy waits."""
        self._decision_scheduled = False
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None
        while self._dispatcher.decision_due and not self._closing:
            begin_ns = time.thread_time_ns()  # of the gateway alone: no preemption
            action = self._act()
            self._recording.decision_cost_us.append((time.thread_time_ns() - begin_ns) / 1000)
            if action == WAIT:
                # By way of `_after_event`: a tick and an event found together are one decision.
                self._tick = self._loop.call_later(self._tick_s, self._after_event)
                return
        if self._load.exhausted and self._dispatcher.empty:
            self._finish()

    def _probabilities(self, observation: Observation) -> tuple[np.ndarray, np.ndarray]:
        """The policy's probabilities and the action mask, both `[1, A]`."""
        # The mask depends on who waits and who is idle only, so a few masks cover all decisions.
        key = (observation.queue_length > 0).tobytes() + observation.can_take.tobytes()
        action_mask = self._masks.get(key)
        if action_mask is None:
            action_mask = legal_actions(
                self._table, observation.queue_length, observation.can_take, self._max_batch_size
            )
            action_mask.flags.writeable = False
            self._masks[key] = action_mask
        return self._policy.action_probabilities(observation, action_mask), action_mask

    def _act(self) -> int:
        clock_us = self._clock_us()
        observation = self._dispatcher.observe(clock_us * 1e-6)
        queue_length = tuple(observation.queue_length[0].tolist())
        can_take = tuple((observation.can_take[0] > 0).tolist())
        probabilities, action_mask = self._probabilities(observation)
        drawn, propensity = sample_actions(probabilities, self._generator)
        action = int(drawn[0])
        if not action_mask[0, action]:
            raise RuntimeError(f"{self._policy.name}: gave masked action {action} a probability")
        if action == WAIT:
            batch_id = None
        else:
            batch_id = self._dispatch(action, int(observation.head_class[0]))
        self._recording.decisions.append(
            Decision(clock_us, queue_length, can_take, action, float(propensity[0]), batch_id)
        )
        return action

    def _dispatch(self, action: int, head_class: int) -> int:
        replica, request_class, batch_size = self._actions[action]
        if request_class == HEAD_OF_LINE:
            request_class = head_class
        clock_us = self._clock_us()
        batch = self._dispatcher.starts(replica, request_class, batch_size, clock_us * 1e-6)
        self._workers[replica].send(batch.batch_id, request_class, len(batch.requests))
        self._recording.dispatches(
            replica, request_class, [r.request_id for r in batch.requests], clock_us
        )
        return batch.batch_id


def serve_load(
    scenario: Scenario,
    policy: Policy,
    workers: Sequence[Worker],
    arrivals: Arrivals,
    generator: np.random.Generator,
    on_progress: Callable[[float], None] | None = None,
) -> Recording:
    """What happened when `workers`, one for each replica, served `arrivals` under `policy`.

    Takes as long as the last arrival says. `generator` draws the actions. Garbage collection is
    off meanwhile: a full collection would stop the gateway for longer than a fast batch takes.
    """
    check_arrivals(arrivals, len(scenario.request_classes))
    load, recording = OpenLoopLoad(arrivals), Recording(arrivals)
    gateway = Gateway(scenario, policy, workers, load, recording, generator)
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        with asyncio.Runner(loop_factory=_precise_loop) as runner:
            runner.run(gateway.serve(on_progress))
    finally:
        if collecting:
            gc.enable()
    recording.lateness_s = load.lateness_s
    return recording


def _precise_loop() -> asyncio.AbstractEventLoop:
    # epoll rounds a wait up to whole milliseconds; select keeps the microseconds of an arrival.
    return asyncio.SelectorEventLoop(selectors.SelectSelector())
