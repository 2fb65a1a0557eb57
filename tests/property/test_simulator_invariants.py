"""What holds in every episode, whatever the policy does, and what a log may say."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.action import legal_actions
from simulator.environment import Environment, RequestRecords
from simulator.replica import Replica
from simulator.reward import Reward
from simulator.scenario import DecisionEpochs, QueuePlace, RequestClass, Scenario
from simulator.state import EventKind, Recording, ReplicaMode, RequestStatus
from simulator.traffic import PoissonWorkload
from tests.oracle.comparison import told_by

CLASSES, TERMS = 2, 13


def scenario(capacity: int, epochs: DecisionEpochs, cv: float) -> Scenario:
    return Scenario(
        (RequestClass("fast", 0.1), RequestClass("slow", 0.5)),
        (
            Replica((0.01, 0.02), (0.01, 0.05), (cv, cv), 8),
            Replica((0.02, 0.02), (0.02, 0.02), (cv, cv), 4),
        ),
        batch_sizes=(1, 2, 4, 8),
        queue_capacity=capacity,
        decision_epochs=epochs,
    )


def environment(
    given_scenario: Scenario, lanes: int, seed: int, drain_s: float = 0.0
) -> Environment:
    return Environment(
        given_scenario,
        PoissonWorkload((40.0, 15.0)),
        lanes,
        2.0,
        Reward(np.ones(TERMS)),
        np.random.default_rng(seed),
        drain_s,
        Recording(requests=True),
    )


def play(env: Environment, seed: int) -> tuple[np.ndarray, RequestRecords]:
    """Random legal actions until every lane has ended; summed terms and records."""
    _, action_mask = env.reset()
    generators = [np.random.default_rng([seed, lane]) for lane in range(env.lanes)]
    terms = np.zeros((env.lanes, TERMS))
    while env.running().any():
        # One generator a lane, so that a lane's actions do not depend on how many lanes there are.
        draws = np.stack([generator.random(env.action_count) for generator in generators])
        step = env.step((action_mask * draws).argmax(1))
        action_mask = step.action_mask
        terms += step.reward_terms
    return terms, env.request_records()


# What must have become of a request or a replica for an event to be told, and what it is then.
_NEW, _IN_TRANSIT, _WAITS, _RUNS, _GONE = range(5)
REQUEST_STEPS = {
    EventKind.REQUEST_ARRIVAL: ({_NEW}, _WAITS),
    EventKind.REQUEST_SHED: ({_NEW, _WAITS, _RUNS}, _GONE),
    EventKind.REQUEST_JOIN: ({_IN_TRANSIT}, _WAITS),
    EventKind.REQUEST_ADMITTED: ({_WAITS}, _RUNS),
    EventKind.FIRST_TOKEN: ({_RUNS}, _RUNS),
    EventKind.REQUEST_PREEMPTED: ({_RUNS}, _WAITS),
    EventKind.REQUEST_COMPLETION: ({_RUNS}, _GONE),
    EventKind.REQUEST_REQUEUED: ({_WAITS, _RUNS}, _WAITS),
}
_OFF, _STARTING, _UP, _DOWN = ReplicaMode
REPLICA_STEPS = {
    EventKind.REPLICA_START: ({_OFF}, _STARTING),
    EventKind.REPLICA_READY: ({_STARTING}, _UP),
    EventKind.REPLICA_OFF: ({_STARTING, _UP, _DOWN}, _OFF),
    EventKind.REPLICA_DOWN: ({_STARTING, _UP}, _DOWN),
    EventKind.REPLICA_REPAIRED: ({_DOWN}, _UP),
    EventKind.BATCH_DISPATCH: ({_UP}, _UP),
    EventKind.BATCH_START: ({_UP}, _UP),
    EventKind.BATCH_COMPLETION: ({_UP}, _UP),
}
NEEDS_REPLICA = {
    EventKind.REQUEST_ADMITTED,
    EventKind.FIRST_TOKEN,
    EventKind.REQUEST_COMPLETION,
}


def check_causes(env: Environment) -> None:
    """No event of requests or replicas is told before its cause; the clock never goes back.

    Nothing starts or ends on a replica that is not up, and no more than its slots are sent to it.
    """
    scenario, state = env.scenario, env.state
    initial = scenario.scaling.initial_replicas
    travels = scenario.dispatch_delay.exists and scenario.queues == QueuePlace.REPLICA
    for lane in range(env.lanes):
        on = len(scenario.replicas) if initial is None else initial
        mode = [_UP if replica < on else _OFF for replica in range(len(scenario.replicas))]
        sent, started = [0] * len(mode), set()
        phase = [_NEW] * int(state.request_count[lane])
        before_s = 0.0
        for clock_s, kind, subject in told_by(env, lane):
            assert before_s <= clock_s <= state.clock_s[lane]
            before_s = clock_s
            if kind in REQUEST_STEPS:
                causes, phase_now = REQUEST_STEPS[kind]
                assert phase[subject] in causes, (clock_s, kind, subject)
                assert clock_s >= state.arrival_s[lane, subject]
                arrives = kind == EventKind.REQUEST_ARRIVAL
                phase[subject] = _IN_TRANSIT if arrives and travels else phase_now
                if kind == EventKind.FIRST_TOKEN:
                    assert subject not in started
                    started.add(subject)
                if kind == EventKind.REQUEST_COMPLETION:
                    assert subject in started
                if kind in NEEDS_REPLICA:
                    assert mode[state.request_replica[lane, subject]] == _UP
            elif kind in REPLICA_STEPS:
                causes_of_mode, mode_now = REPLICA_STEPS[kind]
                assert mode[subject] in causes_of_mode, (clock_s, kind, subject)
                mode[subject] = mode_now
                sent[subject] += kind == EventKind.BATCH_DISPATCH
                assert 0 <= sent[subject] <= 1 + scenario.replica_backlog
                assert kind != EventKind.BATCH_START or sent[subject] > 0
                sent[subject] -= kind == EventKind.BATCH_COMPLETION
                if kind == EventKind.REPLICA_DOWN:
                    sent[subject] = 0
                assert sent[subject] >= 0
        assert mode == state.replica_mode[lane].tolist()


def check_records(env: Environment) -> None:
    """Arrival, ready, start, first token and departure of each request come in this order."""
    state = env.state
    for lane in range(env.lanes):
        arrived = slice(0, state.next_request[lane])
        columns = [state.arrival_s, state.request_dispatch_s, state.request_departure_s]
        if state.join_s.shape[1]:
            columns.insert(1, np.where(state.request_dispatch_s >= 0, state.join_s, np.nan))
        if state.request_first_token_s.shape[1]:
            columns.insert(-1, state.request_first_token_s)
        for before, after in pairwise(column[lane, arrived] for column in columns):
            assert not (after < before).any()  # NaN is what has not happened


scenarios = st.builds(
    scenario,
    st.sampled_from([1, 3, 100]),
    st.sampled_from(DecisionEpochs),
    st.sampled_from([0.0, 0.3]),
)


@given(scenarios, st.integers(0, 2**16), st.sampled_from([0.0, 0.5, 20.0]))
@settings(max_examples=25, deadline=None)
def test_offered_equals_served_plus_shed_plus_in_system(
    given_scenario: Scenario, seed: int, drain_s: float
) -> None:
    env = environment(given_scenario, 3, seed, drain_s)
    terms, records = play(env, seed)
    for lane in range(3):
        for request_class in range(CLASSES):
            status = records.status[
                (records.lane == lane) & (records.request_class == request_class)
            ]
            completed, shed = terms[lane, request_class], terms[lane, 6 + request_class]
            assert completed == (status == RequestStatus.COMPLETED).sum()
            assert shed == (status == RequestStatus.SHED).sum()
            assert len(status) == completed + shed + env.state.number_in_system[lane, request_class]
    if drain_s == 20.0:
        assert env.state.number_in_system.sum() == 0


@given(scenarios, st.integers(0, 2**16))
@settings(max_examples=25, deadline=None)
def test_dispatch_is_fifo_within_a_class_and_nothing_departs_before_it_starts(
    given_scenario: Scenario, seed: int
) -> None:
    _, records = play(environment(given_scenario, 2, seed, 20.0), seed)
    for lane in range(2):
        for request_class in range(CLASSES):
            chosen = (records.lane == lane) & (records.request_class == request_class)
            served = chosen & (records.status == RequestStatus.COMPLETED)
            assert (np.diff(records.dispatch_s[served]) >= 0).all()
            assert (records.dispatch_s[served] >= records.arrival_s[served]).all()
            assert (records.departure_s[served] > records.dispatch_s[served]).all()


@given(scenarios, st.integers(0, 2**16))
@settings(max_examples=25, deadline=None)
def test_number_in_system_integral_equals_the_sum_of_response_times_once_drained(
    given_scenario: Scenario, seed: int
) -> None:
    # Little's law without the limit: both count one second for each request and second it is there.
    terms, _ = play(environment(given_scenario, 2, seed, 20.0), seed)
    np.testing.assert_allclose(terms[:, 4:6], terms[:, 2:4], rtol=1e-9)


@given(scenarios, st.integers(0, 2**16))
@settings(max_examples=15, deadline=None)
def test_a_lane_does_not_depend_on_the_lanes_beside_it(given_scenario: Scenario, seed: int) -> None:
    alone, _ = play(environment(given_scenario, 1, seed), seed)
    together, _ = play(environment(given_scenario, 4, seed), seed)
    np.testing.assert_array_equal(alone[0], together[0])


@given(scenarios, st.integers(0, 2**16))
@settings(max_examples=15, deadline=None)
def test_same_seed_gives_the_same_bytes(given_scenario: Scenario, seed: int) -> None:
    first, first_records = play(environment(given_scenario, 2, seed), seed)
    second, second_records = play(environment(given_scenario, 2, seed), seed)
    assert first.tobytes() == second.tobytes()
    assert first_records.departure_s.tobytes() == second_records.departure_s.tobytes()


@given(scenarios, st.integers(0, 2**16))
@settings(max_examples=25, deadline=None)
def test_engine_masks_what_legal_actions_masks(given_scenario: Scenario, seed: int) -> None:
    env = environment(given_scenario, 3, seed)
    observation, action_mask = env.reset()
    generator = np.random.default_rng(seed)
    for _ in range(30):
        expected = legal_actions(
            env.table, observation.queue_length, observation.can_take, env.parameters.max_batch_size
        )
        np.testing.assert_array_equal(action_mask, expected)
        step = env.step((action_mask * generator.random(action_mask.shape)).argmax(1))
        observation, action_mask = step.observation, step.action_mask


def test_arrivals_and_noise_do_not_depend_on_the_policy() -> None:
    given_scenario = scenario(100, DecisionEpochs.EVENTS, 0.3)
    envs = [environment(given_scenario, 2, 5) for _ in range(2)]
    for env, first_action in zip(envs, (0, 1), strict=True):
        env.reset()
        while env.running().any():
            legal = env.step(np.zeros(2, int)).action_mask
            env.step(np.where(legal[:, 1], first_action, 0))
        env.reset()  # the second episode of each lane
    np.testing.assert_array_equal(envs[0].state.arrival_s, envs[1].state.arrival_s)
    np.testing.assert_array_equal(envs[0].state.noise_z, envs[1].state.noise_z)
