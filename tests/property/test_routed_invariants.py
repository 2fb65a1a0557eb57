"""What holds in every episode with whole batches: replica queues, and the rules of the engine.

What the other files of invariants share is here as well: `Case`, `cases`, `play_on` and the checks.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.conditions import SetPoints
from simulator.environment import Environment, Step
from simulator.reward import Reward, reward_term_names
from simulator.scenario import DecisionKind, QueuePlace, Scenario
from simulator.state import EventKind, Recording, RequestStatus
from simulator.workload import Arrivals, RecordedWorkload
from tests.oracle.comparison import EVENTS, told_by
from tests.oracle.scenario_strategies import lanes_of_arrivals, scenarios
from tests.property.test_simulator_invariants import check_causes, check_records

CENTRAL, REPLICA = QueuePlace.CENTRAL, QueuePlace.REPLICA
DISPATCH, ROUTE, TUNE = DecisionKind.DISPATCH, DecisionKind.ROUTE, DecisionKind.TUNE
some_examples = settings(max_examples=25, deadline=None)


class Case(NamedTuple):
    """A scenario and what arrives in each lane."""

    scenario: Scenario
    arrivals: list[Arrivals]
    horizon_s: float
    drain_s: float
    seed: int

    def environment(self, lanes: int | None = None) -> Environment:
        """A fresh environment of all lanes, or of the first `lanes`."""
        arrivals = self.arrivals[:lanes]
        return Environment(
            self.scenario,
            [RecordedWorkload(of_lane) for of_lane in arrivals],
            len(arrivals),
            self.horizon_s,
            Reward(np.ones(len(reward_term_names(self.scenario.class_names)))),
            np.random.default_rng(self.seed),
            self.drain_s,
            Recording(requests=True, events=EVENTS),
        )

    def play(
        self, lanes: int | None = None, watch: Callable[[Environment], None] | None = None
    ) -> tuple[Environment, np.ndarray]:
        """One episode of random legal actions; also the summed terms. Watched at each decision."""
        env = self.environment(lanes)
        env.reset()
        return env, play_on(env, self.seed, watch)


def play_on(
    env: Environment, seed: int, watch: Callable[[Environment], None] | None = None
) -> np.ndarray:
    """Random legal actions until every lane has ended; the summed terms `[B, T]`."""
    # One generator a lane, so that a lane's actions do not depend on how many lanes there are.
    generators = [np.random.default_rng([seed, lane]) for lane in range(env.lanes)]
    terms = np.zeros_like(env.state.reward_terms)
    while env.running().any():
        if watch is not None:
            watch(env)
        draws = np.stack([generator.random(env.action_count) for generator in generators])
        before_s = env.state.clock_s.copy()
        step: Step = env.step((env.decision()[1] * draws).argmax(1))
        assert (step.holding_s == env.state.clock_s - before_s).all()
        assert (step.holding_s >= 0).all()
        terms += step.reward_terms
    return terms + env.state.reward_terms  # what an episode without a decision leaves


@st.composite
def cases(
    draw: st.DrawFn, scenario_drawn: st.SearchStrategy[Scenario], drains: bool = False
) -> Case:
    """A case with these scenarios; if `drains`, with time enough to serve everything."""
    scenario = draw(scenario_drawn)
    arrivals = draw(lanes_of_arrivals(len(scenario.request_classes), scenario.continuous))
    horizon_s = draw(st.sampled_from([1.0, 4.0, 9.5]))
    drain_s = 1000.0 if drains else draw(st.sampled_from([0.0, 2.0, 50.0]))
    return Case(scenario, arrivals, horizon_s, drain_s, draw(st.integers(0, 2**16)))


def check_lane_independence(case: Case) -> None:
    """The first lane is the same alone and beside the others."""
    alone, terms = case.play(lanes=1)
    together, terms_together = case.play()
    np.testing.assert_array_equal(terms[0], terms_together[0])
    assert told_by(alone, 0) == told_by(together, 0)
    for one, other in zip(alone.decision()[0], together.decision()[0], strict=True):
        np.testing.assert_array_equal(one[0], other[0])


def check_same_bytes(case: Case) -> None:
    """Two runs of the same case leave the same state, to the byte."""
    (first, terms), (second, terms_again) = case.play(), case.play()
    assert terms.tobytes() == terms_again.tobytes()
    for one, other in zip(first.state, second.state, strict=True):
        assert one.tobytes() == other.tobytes()


def left_s(env: Environment, lane: int) -> np.ndarray:
    """`[R] s`, when each request that arrived left: answered, shed, or at the end."""
    arrived = slice(0, env.state.next_request[lane])
    departure_s = env.state.request_departure_s[lane, arrived]
    left = np.where(np.isnan(departure_s), env.state.clock_s[lane], departure_s)
    for clock_s, kind, subject in told_by(env, lane):
        if kind == EventKind.REQUEST_SHED:
            left[subject] = clock_s
    return left


def check_conservation(case: Case, env: Environment, terms: np.ndarray) -> None:
    """Offered = completed + shed + in system, by lane and class, in terms, records and queues."""
    classes, state = len(case.scenario.request_classes), env.state
    records = env.request_records()
    waiting, in_service = RequestStatus.WAITING, RequestStatus.IN_SERVICE
    for lane in range(env.lanes):
        offered = int(np.searchsorted(case.arrivals[lane].arrival_s, case.horizon_s))
        assert state.next_request[lane] <= offered
        for request_class in range(classes):
            chosen = (records.lane == lane) & (records.request_class == request_class)
            status = records.status[chosen]
            completed, shed = terms[lane, request_class], terms[lane, 3 * classes + request_class]
            assert completed == (status == RequestStatus.COMPLETED).sum()
            assert shed == (status == RequestStatus.SHED).sum()
            in_system = ((status == waiting) | (status == in_service)).sum()
            assert in_system == state.number_in_system[lane, request_class]
            assert len(status) == completed + shed + in_system
        if state.clock_s[lane] >= case.horizon_s:
            assert state.next_request[lane] == offered


def check_little(env: Environment, terms: np.ndarray) -> None:
    """The integral of the number in system is the time that all requests spent there.

    Little's law without the limit; once all are answered, that is the sum of response times.
    """
    classes = env.state.number_in_system.shape[1]
    for lane in range(env.lanes):
        arrived = slice(0, env.state.next_request[lane])
        spent_s = left_s(env, lane) - env.state.arrival_s[lane, arrived]
        by_class = np.bincount(env.state.request_class[lane, arrived], spent_s, classes)
        np.testing.assert_allclose(terms[lane, 2 * classes : 3 * classes], by_class, atol=1e-9)


def waiting_in(env: Environment, lane: int, queue: int, request_class: int) -> np.ndarray:
    """Numbers of the requests in the queue of the class, the first to be served first."""
    state = env.state
    places = state.queue_start[lane, queue, request_class]
    places = places + np.arange(state.queue_length[lane, queue, request_class])
    ring = state.queue_request[lane, queue, request_class]
    return ring[places % len(ring)]


def check_fifo(env: Environment, lane: int) -> None:
    """Each replica queue is served in the order of arrival within a class."""
    state, arrived = env.state, env.state.next_request[lane]
    start_s = state.request_dispatch_s[lane, :arrived]
    for replica in range(len(env.scenario.replicas)):
        for request_class in range(len(env.scenario.request_classes)):
            chosen = state.request_replica[lane, :arrived] == replica
            chosen &= state.request_class[lane, :arrived] == request_class
            started = np.flatnonzero(chosen & ~np.isnan(start_s))
            waiting = waiting_in(env, lane, replica, request_class)
            assert (np.diff(start_s[started]) >= 0).all()
            assert (np.diff(np.concatenate([started[-1:], waiting])) > 0).all()


def waits_and_spans(env: Environment, lane: int, replica: int) -> tuple[list, list]:
    """What waited at the replica, as (class, ready, started), and when it served: (start, end)."""
    state, arrived = env.state, env.state.next_request[lane]
    clock_s = state.clock_s[lane]
    ready_s = state.join_s[lane] if state.join_s.shape[1] else state.arrival_s[lane]
    chosen = state.request_replica[lane, :arrived] == replica
    numbers = np.flatnonzero(chosen & ~np.isnan(state.request_dispatch_s[lane, :arrived]))
    start_s = state.request_dispatch_s[lane, numbers]
    waits = list(zip(state.request_class[lane, numbers], ready_s[numbers], start_s, strict=True))
    end_s = np.nan_to_num(state.request_departure_s[lane, numbers], nan=clock_s)
    if env.scenario.queues == REPLICA:
        for request_class in range(len(env.scenario.request_classes)):
            for request in waiting_in(env, lane, replica, request_class):
                waits.append((request_class, ready_s[request], clock_s))
    return waits, sorted(zip(start_s, end_s, strict=True))


def is_covered(start_s: float, end_s: float, spans: list) -> bool:
    """True where the spans, ascending, leave no gap between the two instants."""
    for begins_s, ends_s in spans:
        if begins_s <= start_s:
            start_s = max(start_s, ends_s)
    return start_s >= end_s


DISPATCHED = scenarios(DISPATCH, CENTRAL, frozenset({"backlog", "delay", "mixed", "noise", "view"}))
ROUTED = scenarios(ROUTE, REPLICA, frozenset({"delay", "serves", "memory", "noise", "view"}))
ROUTED_MIXED = scenarios(ROUTE, REPLICA, frozenset({"mixed", "padding", "tables", "residuals"}))
TUNED_ROUTED = scenarios(TUNE, REPLICA, frozenset({"delay", "mixed", "serves", "view"}))
TUNED_CENTRAL = scenarios(TUNE, CENTRAL, frozenset({"backlog", "delay", "mixed", "serves"}))
REPLICA_QUEUES = st.one_of(ROUTED, ROUTED_MIXED, TUNED_ROUTED)
WHOLE_BATCHES = st.one_of(DISPATCHED, REPLICA_QUEUES, TUNED_CENTRAL)


def always_on(scenario: Scenario) -> Scenario:
    """The scenario without a menu for the number of replicas that are on."""
    set_points = dataclasses.replace(scenario.set_points, replicas_on=())
    if scenario.decision == TUNE and not set_points.any:
        set_points = SetPoints(max_batch_size=(1, 3))
    return dataclasses.replace(scenario, set_points=set_points)


def without_timeout(scenario: Scenario) -> Scenario:
    """The scenario with a batch timeout of 0, all replicas on."""
    set_points = SetPoints(max_batch_size=(1, 3)) if scenario.decision == TUNE else SetPoints()
    return dataclasses.replace(scenario, batch_timeout_s=0.0, set_points=set_points)


@given(cases(WHOLE_BATCHES))
@some_examples
def test_offered_equals_completed_plus_shed_plus_in_system(case: Case) -> None:
    check_conservation(case, *case.play())


@given(cases(WHOLE_BATCHES.map(always_on), drains=True))
@some_examples
def test_all_is_served_in_the_end_and_took_the_integral_of_the_number_in_system(case: Case) -> None:
    env, terms = case.play()
    assert env.state.number_in_system.sum() == 0
    check_little(env, terms)
    classes = len(case.scenario.request_classes)
    np.testing.assert_allclose(
        terms[:, 2 * classes : 3 * classes], terms[:, classes : 2 * classes], atol=1e-9
    )


@given(cases(WHOLE_BATCHES))
@some_examples
def test_the_integral_of_the_number_in_system_counts_those_still_there(case: Case) -> None:
    check_little(*case.play())


@given(cases(WHOLE_BATCHES))
@some_examples
def test_nothing_happens_before_its_cause(case: Case) -> None:
    env, _ = case.play()
    check_causes(env)
    check_records(env)


@given(cases(REPLICA_QUEUES))
@some_examples
def test_a_replica_queue_is_fifo_within_a_class(case: Case) -> None:
    env, _ = case.play()
    for lane in range(env.lanes):
        check_fifo(env, lane)


@given(cases(REPLICA_QUEUES.map(without_timeout)))
@some_examples
def test_no_replica_idles_beside_its_own_queue_without_a_batch_timeout(case: Case) -> None:
    env, _ = case.play()
    for lane in range(env.lanes):
        for replica in range(len(case.scenario.replicas)):
            waits, spans = waits_and_spans(env, lane, replica)
            assert all(is_covered(ready_s, start_s, spans) for _, ready_s, start_s in waits)


@given(cases(scenarios(TUNE, CENTRAL, frozenset({"mixed", "serves"})).map(without_timeout)))
@some_examples
def test_no_replica_idles_beside_the_central_queue_without_a_batch_timeout(case: Case) -> None:
    env, _ = case.play()
    replicas = case.scenario.replicas
    for lane in range(env.lanes):
        told = [waits_and_spans(env, lane, replica) for replica in range(len(replicas))]
        waits = [wait for waits, _ in told for wait in waits]
        for replica, (_, spans) in zip(replicas, told, strict=True):
            for request_class, ready_s, start_s in waits:
                if not replica.serves or replica.serves[request_class]:
                    assert is_covered(ready_s, start_s, spans)


@given(cases(WHOLE_BATCHES))
@some_examples
def test_a_lane_does_not_depend_on_the_lanes_beside_it(case: Case) -> None:
    check_lane_independence(case)


@given(cases(WHOLE_BATCHES))
@some_examples
def test_same_seed_gives_the_same_bytes(case: Case) -> None:
    check_same_bytes(case)
