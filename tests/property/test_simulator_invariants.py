"""What holds in every episode, whatever the policy does."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.action import legal_actions
from simulator.environment import Environment, RequestRecords
from simulator.parameters import DecisionEpochs, Replica, RequestClass, Scenario
from simulator.reward import Reward
from simulator.state import Recording, RequestStatus
from simulator.workload import PoissonWorkload

CLASSES, TERMS = 2, 12


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
