"""Rules that tune a simulated cluster, and what every one of them owes to whoever runs it."""

import numpy as np
import pytest

from simulator.action import action_table, sample_actions
from simulator.conditions import SetPoints
from simulator.environment import Environment
from simulator.observation import Observation
from simulator.policies import RULES, EpsilonMixture, Policy, build_policy
from simulator.replica import Replica, TokenModel, continuous_replica
from simulator.reward import Reward
from simulator.scenario import Scenario
from simulator.workload import Arrivals, RecordedWorkload
from tests.unit.set_point_timelines import observed, tuned

MENU = SetPoints((1, 4, 16), (0.0, 0.05), replicas_on=(0, 1, 2, 3, 4))
SLOW = Replica((0.5,), (0.25,), (0.0,), 1)  # one request at a time takes 0.75 s
TOKENS = TokenModel(0.01, 1e-5, 1e-4, 1e-8, 16, 100_000, 512)
SCENARIOS = {
    "whole batch": tuned(MENU, cold_start_s=1.5, initial=2),
    "continuous": tuned(
        SetPoints(max_num_seqs=(2, 7, 16), replicas_on=(1, 3)), gpu=continuous_replica(1, TOKENS)
    ),
}
NAMES = (
    *("fixed_set_points", "keep_warm", "seed_adaptive"),
    *("keda", "knative_kpa", "ray_serve_autoscale"),
)


def policies(name: str, scenario: Scenario) -> list[Policy]:
    space = RULES[name].space(scenario)
    return [build_policy(name, scenario, space.corner(high)) for high in (False, True)]


CASES = [
    pytest.param(policy, scenario, id=f"{name} {number}, {title}")
    for name in NAMES
    for title, scenario in SCENARIOS.items()
    for number, policy in enumerate(policies(name, scenario))
]


def replicas_over_time(policy: Policy, instants: list[float], seconds: float) -> list[int]:
    """Replicas wanted after each decision of a cluster that begins with none, a second apart."""
    scenario = tuned(MENU, gpu=SLOW, initial=0, cold_start_s=1.0)
    count = len(instants)
    workload = RecordedWorkload(Arrivals(np.array(instants), np.zeros(count, int), np.ones(count)))
    reward, generator = Reward(np.ones(8)), np.random.default_rng(0)
    env = Environment(scenario, workload, 1, seconds, reward, generator)
    policy.reset(1)
    wanted = []
    observation, mask = env.reset()
    while env.running().any():
        action = policy.action_probabilities(observation, mask).argmax(axis=1)
        wanted.append(int(env.table.replicas_on[action[0]]))
        env.step(action)
    return wanted


def test_keda_follows_a_burst_in_a_simulated_cluster_and_lets_all_replicas_go() -> None:
    # Four requests come at 1.5 s; the engine starts a replica, ready at 2.5 s. At 2 s KEDA wants
    # 4 / 2 = 2, the second ready at 3 s. Served from 2.5 s: one each 0.75 s, and from 3 s by two:
    # done at 3.25, 3.75, 4.0 and 4.5 s. In system at 3, 4, 5 s: 4, 1 (the third departs at 4.0,
    # before the decision), 0. Recommended last at 3 s: 2, for 2 s; last active at 4 s, so zero
    # follows at 7 s, more than 2 s later.
    scenario = tuned(MENU, gpu=SLOW, initial=0, cold_start_s=1.0)
    times = {"hpa_stabilization_s": 2.0, "cooldown_s": 2.0}
    policy = build_policy("keda", scenario, {"target_in_system": 2.0, **times})
    assert replicas_over_time(policy, [1.5] * 4, 9.0) == [0, 2, 2, 2, 1, 1, 0, 0]


def told(scenario: Scenario, lanes: int, steps: int) -> list[Observation]:
    """Random lanes in which things happen, one control interval after the other."""
    generator, replicas = np.random.default_rng(1), len(scenario.replicas)
    arrived = np.zeros((lanes, 1))
    observations = []
    for step in range(1, steps + 1):
        arrived = arrived + generator.poisson(20.0, (lanes, 1)) * generator.integers(
            0, 3, (lanes, 1)
        )
        field = {name: np.array(values) for name, values in _menus(scenario).items()}
        set_points = np.column_stack([generator.choice(values, lanes) for values in field.values()])
        observations.append(
            observed(
                scenario,
                lanes,
                queue_length=generator.integers(0, 9, (lanes, 1)),
                in_flight=generator.integers(0, 9, (lanes, replicas)),
                response_p95_s=generator.exponential(1.0, lanes),
                replica_state=generator.integers(0, 5, (lanes, replicas)),
                set_points=set_points,
                clock_s=np.full(lanes, step * scenario.control_interval_s),
                arrived=arrived,
            )
        )
    return observations


def _menus(scenario: Scenario) -> dict[str, tuple[float, ...]]:
    points = scenario.set_points
    return {
        "size": points.max_batch_size or (3,),
        "timeout": points.batch_timeout_s or (0.01,),
        "seqs": points.max_num_seqs or (0,),
        "on": tuple(range(5)),
    }


def play(policy: Policy, scenario: Scenario, observations: list[Observation]) -> np.ndarray:
    """The rows of all decisions `[T, B, A]`."""
    lanes = len(observations[0].clock_s)
    policy.reset(lanes)
    mask = np.ones((lanes, action_table(scenario).size), bool)
    return np.array([policy.action_probabilities(seen, mask) for seen in observations])


@pytest.mark.parametrize(("policy", "scenario"), CASES)
def test_rows_are_one_hot_and_depend_on_the_lane_s_own_episode_alone(policy, scenario) -> None:
    observations = told(scenario, lanes=20, steps=40)
    rows = play(policy, scenario, observations)
    assert ((rows == 0.0) | (rows == 1.0)).all()
    assert (rows.sum(axis=2) == 1.0).all()
    np.testing.assert_array_equal(play(policy, scenario, observations), rows)  # reset forgets all
    order = np.random.default_rng(2).permutation(20)
    shuffled = [Observation(*(field[order] for field in seen)) for seen in observations]
    np.testing.assert_array_equal(play(policy, scenario, shuffled), rows[:, order])
    # A lane whose clock goes back begins anew, whatever the others do.
    late = [
        Observation(*(np.concatenate([old[:10], new[10:]]) for old, new in zip(*pair, strict=True)))
        for pair in zip(observations[20:], observations[:20], strict=True)
    ]
    rejoined = play(policy, scenario, observations[:20] + late)
    np.testing.assert_array_equal(rejoined[20:, :10], rows[20:, :10])
    np.testing.assert_array_equal(rejoined[20:, 10:], rows[:20, 10:])


@pytest.mark.parametrize(("policy", "scenario"), CASES)
def test_whole_numbers_are_as_good_as_floats(policy, scenario) -> None:
    observations = told(scenario, lanes=10, steps=20)
    typed = [
        seen._replace(
            queue_length=seen.queue_length.astype(np.int32),
            in_flight=seen.in_flight.astype(np.int16),
            replica_state=seen.replica_state.astype(np.int8),
            arrived=seen.arrived.astype(np.int64),
            set_points=seen.set_points.astype(np.float32),
        )
        for seen in observations
    ]
    rows = play(policy, scenario, observations)
    np.testing.assert_array_equal(play(policy, scenario, typed), rows)


@pytest.mark.parametrize("name", NAMES)
def test_a_mixture_runs_a_simulated_cluster_to_the_end(name) -> None:
    scenario = SCENARIOS["whole batch"]
    instants = np.sort(np.random.default_rng(3).uniform(0.0, 20.0, 400))
    workload = RecordedWorkload(Arrivals(instants, np.zeros(400, int), np.ones(400)))
    env = Environment(scenario, workload, 3, 40.0, Reward(np.ones(8)), np.random.default_rng(0))
    policy = EpsilonMixture(policies(name, scenario)[1], 0.2)
    policy.reset(3)
    generator = np.random.default_rng(4)
    observation, mask = env.reset()
    while env.running().any():
        rows = policy.action_probabilities(observation, mask)
        action, propensity = sample_actions(rows, generator)
        assert (propensity > 0).all()
        env.step(action)
