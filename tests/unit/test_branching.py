"""Branches of a lane: the same future, judged apart."""

import numpy as np
import pytest

from simulator.conditions import (
    Autoscaler,
    DispatchDelay,
    Fault,
    Faults,
    Scaling,
    SetPoints,
    View,
)
from simulator.environment import Environment
from simulator.replica import Replica, TokenModel, continuous_replica
from simulator.reward import Reward, reward_term_names
from simulator.scenario import DecisionKind, QueuePlace, RequestClass, Scenario
from simulator.sizes import Lognormal, RequestSizes
from simulator.state import Recording
from simulator.traffic import PoissonWorkload
from simulator.workload import Arrivals, RecordedWorkload

CLASSES = (RequestClass("fast", 0.5), RequestClass("slow", 2.0))
GPU = Replica((0.02, 0.05), (0.02, 0.05), (0.3, 0.3), 4, 10.0, 50.0, price_per_hour=2.0)
TOKENS = continuous_replica(2, TokenModel(0.01, 0.001, 0.001, 0.0001, 4, 60, 16))
TROUBLES = {
    "faults": Faults((Fault(0, 0.5, 0.25),), mean_time_between_s=0.7, repair_s=0.2),
    "dispatch_delay": DispatchDelay(0.01, 0.02, 0.5),
    "view": View(0.15, own_in_flight=True),
    "scaling": Scaling(0.2, 0.5, initial_replicas=1, autoscaler=Autoscaler(2.0, 0, 0.3)),
}
SCENARIOS = {
    "dispatch": Scenario(
        CLASSES, (GPU,) * 3, (1, 2, 4), replica_backlog=1, control_interval_s=0.1, **TROUBLES
    ),
    "route": Scenario(
        CLASSES,
        (GPU,) * 3,
        (1,),
        decision=DecisionKind.ROUTE,
        queues=QueuePlace.REPLICA,
        batch_timeout_s=0.03,
        control_interval_s=0.1,
        **TROUBLES,
    ),
    "route_continuous": Scenario(
        CLASSES,
        (TOKENS,) * 3,
        (1,),
        decision=DecisionKind.ROUTE,
        queues=QueuePlace.REPLICA,
        control_interval_s=0.1,
        **TROUBLES,
    ),
    "tune": Scenario(
        CLASSES,
        (GPU,) * 3,
        (1,),
        decision=DecisionKind.TUNE,
        control_interval_s=0.1,
        set_points=SetPoints((1, 4), (0.0, 0.05), (), (0, 1, 3)),
        **{**TROUBLES, "scaling": Scaling(0.2, 0.5)},
    ),
}
SIZES = RequestSizes(Lognormal(1.0, 0.5), Lognormal(12.0, 0.4), Lognormal(6.0, 0.4))
DRAWN = (
    *("arrival_s", "request_class", "size", "prompt_tokens", "output_tokens", "noise_z"),
    *("delay_s", "cold_start_s", "fault_s"),
)
every_kind = pytest.mark.parametrize("kind", SCENARIOS)


def environment(kind: str) -> Environment:
    """Three lanes of a lively cluster, at the start of their first episode."""
    scenario = SCENARIOS[kind]
    env = Environment(
        scenario,
        PoissonWorkload((12.0, 8.0), (SIZES, SIZES)),
        3,
        2.0,
        Reward(np.ones(len(reward_term_names(scenario.class_names)))),
        np.random.default_rng(11),
        1.0,
        Recording(requests=True, events=1000),
    )
    env.reset()
    return env


def walk(env: Environment, seeds: list[int], steps: int = 10_000) -> np.ndarray:
    """Random legal actions, lane by lane from its seed; the summed terms `[B, T]`."""
    generators = [np.random.default_rng(seed) for seed in seeds]
    terms = np.zeros_like(env.state.reward_terms)
    for _ in range(steps):
        if not env.running().any():
            break
        draws = np.stack([generator.random(env.action_count) for generator in generators])
        terms += env.step((env.decision()[1] * draws).argmax(1)).reward_terms
    return terms


def bytes_of(env: Environment, lane: int) -> bytes:
    """All that the lane is and shows."""
    observation, action_mask = env.decision()
    return b"".join(array[lane].tobytes() for array in (*env.state, *observation, action_mask))


def future_of(env: Environment, lane: int) -> list[np.ndarray]:
    """What was drawn for the present episode of the lane."""
    count = env.state.request_count[lane]
    drawn = [getattr(env.state, field)[lane] for field in DRAWN]
    requests = [values[:count] for values in drawn[:-2]]
    return [*requests, drawn[-2], drawn[-1][np.isfinite(drawn[-1])]]


@every_kind
def test_a_branch_begins_as_the_lane_that_it_comes_from(kind: str) -> None:
    env = environment(kind)
    walk(env, [1, 2, 3], steps=12)
    branch = env.branch(np.array([2, 0, 2]))
    assert branch.lanes == 3
    for lane, origin in enumerate((2, 0, 2)):
        assert bytes_of(branch, lane) == bytes_of(env, origin)


@every_kind
def test_the_same_actions_in_branch_and_original_give_the_same_bytes(kind: str) -> None:
    env = environment(kind)
    walk(env, [1, 2, 3], steps=12)
    branch = env.branch(np.array([2, 0, 2, 2]))
    branched, went_on = walk(branch, [7, 8, 7, 6]), walk(env, [8, 9, 7])
    for lane, origin in ((0, 2), (1, 0), (2, 2)):
        assert bytes_of(branch, lane) == bytes_of(env, origin)
        assert branched[lane].tobytes() == went_on[origin].tobytes()
    assert bytes_of(branch, 3) != bytes_of(env, 2)  # other actions, another story


@every_kind
def test_a_branch_leaves_the_original_as_it_is(kind: str) -> None:
    env, untouched = environment(kind), environment(kind)
    for either in (env, untouched):
        walk(either, [1, 2, 3], steps=12)
    branch = env.branch(np.array([0, 1, 1]))
    walk(branch, [4, 5, 6])
    branch.reset()
    walk(branch, [4, 5, 6])
    for _ in range(2):
        assert [bytes_of(env, lane) for lane in range(3)] == [
            bytes_of(untouched, lane) for lane in range(3)
        ]
        for either in (env, untouched):
            walk(either, [7, 8, 9])
            either.reset()


@every_kind
def test_a_branch_goes_on_as_it_is_when_the_original_moves(kind: str) -> None:
    env = environment(kind)
    walk(env, [1, 2, 3], steps=12)
    branch, untouched = env.branch(np.array([1])), env.branch(np.array([1]))
    walk(env, [7, 8, 9])
    env.reset()
    assert walk(branch, [4]).tobytes() == walk(untouched, [4]).tobytes()
    assert bytes_of(branch, 0) == bytes_of(untouched, 0)


@every_kind
def test_branches_of_one_lane_do_not_depend_on_each_other(kind: str) -> None:
    env = environment(kind)
    walk(env, [1, 2, 3], steps=12)
    alone, together = env.branch(np.array([0])), env.branch(np.array([0, 0, 0]))
    walk(alone, [5])
    walk(together, [4, 5, 6])
    assert bytes_of(together, 1) == bytes_of(alone, 0)
    assert len({bytes_of(together, lane) for lane in range(3)}) == 3


@every_kind
def test_other_actions_meet_the_same_future_now_and_in_later_episodes(kind: str) -> None:
    env = environment(kind)
    walk(env, [1, 2, 3], steps=12)
    branch = env.branch(np.array([1, 1, 2]))
    futures = []
    for episode in range(3):
        walk(env, [episode, episode, episode])
        walk(branch, [10 + episode, 20 + episode, 30 + episode])
        for lane, origin in ((0, 1), (1, 1), (2, 2)):
            for here, there in zip(future_of(branch, lane), future_of(env, origin), strict=True):
                np.testing.assert_array_equal(here, there)
        futures.append(future_of(env, 1)[0].tobytes())
        env.reset()
        branch.reset()
    assert len(set(futures)) == 3  # each episode has a future of its own


def test_a_branch_may_be_branched_and_one_that_has_ended_stays_so() -> None:
    env = environment("dispatch")
    walk(env, [1, 2, 3])
    again = env.branch(np.array([2, 1])).branch(np.array([1]))
    assert not again.running().any()
    assert bytes_of(again, 0) == bytes_of(env, 1)
    again.reset()
    env.reset()
    assert bytes_of(again, 0) == bytes_of(env, 1)


def test_two_actions_are_judged_on_the_same_arrivals() -> None:
    # A batch of n takes 1 + n / 2 s; requests at 0 and 0.5. One by one they depart at 1.5 and 3:
    # response times of 1.5 + 2.5 s. Together, from 0.5 on, both depart at 2.5: 2.5 + 2 s.
    scenario = Scenario(CLASSES[:1], (Replica((1.0,), (0.5,), (0.0,), 2),), (1, 2), tick_s=5.0)
    arrivals = Arrivals(np.array([0.0, 0.5]), np.zeros(2, int), np.ones(2))
    names = reward_term_names(scenario.class_names)
    weights = np.array([name == "response_s.fast" for name in names], float)
    env = Environment(
        scenario,
        RecordedWorkload(arrivals),
        1,
        10.0,
        Reward(weights),
        np.random.default_rng(0),
        5.0,
    )
    env.reset()
    branch = env.branch(np.zeros(2, int))
    rewards = [branch.step(np.array(actions)).reward.copy() for actions in ([1, 0], [1, 2])]
    assert sum(rewards).tolist() == [4.0, 4.5]
    assert not branch.running().any()
    assert env.state.clock_s[0] == 0.0


@pytest.mark.parametrize("lanes", [[], [-1], [0, 3], [[0]]])
def test_a_branch_of_a_lane_that_does_not_exist_is_refused(lanes: list) -> None:
    with pytest.raises(ValueError, match=r"lanes = .*: needs numbers in 0\.\.2"):
        environment("route").branch(np.array(lanes, int))
