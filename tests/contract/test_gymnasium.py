"""What the Gymnasium environments owe to agents that know Gymnasium and nothing of this project."""

import copy
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from simulator.action import WAIT
from simulator.gymnasium_env import BatchwrightEnv, BatchwrightVectorEnv, default_reward
from simulator.observation import paper_encoder
from simulator.replica import Replica
from simulator.reward import Reward, reward_term_names
from simulator.scenario import DecisionKind, QueuePlace, RequestClass, Scenario
from simulator.traffic import PoissonWorkload
from simulator.workload import Arrivals, RecordedWorkload

IDS = ("Batchwright/Dispatch-v0", "Batchwright/Route-v0", "Batchwright/Tune-v0")
SHORT = {IDS[0]: 0.4, IDS[1]: 0.15, IDS[2]: 12.0}  # s: an episode of some ten decisions
UNBOUNDED = "A Box observation space maximum value is infinity"  # true of seconds waited


def tiny(slo_s: float = 1.0, price_per_hour: float = 0.0) -> Scenario:
    """One class and two replicas; a batch of b takes 100 + 10 b ms; one request may wait."""
    replica = Replica((0.1,), (0.01,), (0.0,), 4, price_per_hour=price_per_hour)
    return Scenario((RequestClass("only", slo_s),), (replica,) * 2, (1, 2, 4), queue_capacity=1)


def recorded(*arrival_s: float) -> RecordedWorkload:
    count = len(arrival_s)
    return RecordedWorkload(Arrivals(np.array(arrival_s), np.zeros(count, int), np.ones(count)))


def play(env: gymnasium.Env, seed: int | None, actions_seed: int = 0) -> list[Any]:
    """Everything that an episode of random legal actions hands out, in order."""
    generator = np.random.default_rng(actions_seed)
    told: list[Any] = [env.reset(seed=seed)]
    action_mask, ended = told[0][1]["action_mask"], False
    while not ended:
        told.append(env.step(generator.choice(np.flatnonzero(action_mask))))
        _, _, terminated, truncated, info = told[-1]
        action_mask, ended = info["action_mask"], terminated or truncated
    return told


@pytest.mark.parametrize("name", IDS)
def test_gymnasium_s_checker_has_nothing_to_say_but_that_seconds_are_unbounded(name: str) -> None:
    env = gymnasium.make(name).unwrapped
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env)
    assert all(UNBOUNDED in str(warning.message) for warning in caught)


@pytest.mark.parametrize("name", IDS)
def test_equal_seeds_give_equal_episodes_one_after_another_and_touch_no_global_state(
    name: str,
) -> None:
    before = np.random.get_state()  # noqa: NPY002 - the claim is about the global state
    envs = [gymnasium.make(name, horizon_s=SHORT[name]) for _ in range(2)]
    episodes = [[play(env, seed) for seed in (7, None, 7, None, 8)] for env in envs]
    assert data_equivalence(*episodes, exact=True)
    first, second, *again, other = episodes[0]
    assert data_equivalence([first, second], again, exact=True)
    assert not data_equivalence(first, second)
    assert not data_equivalence(first, other)
    after = np.random.get_state()  # noqa: NPY002
    assert data_equivalence(before, after, exact=True)


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("seed", [3, [8, 2, 5]])
def test_the_vector_env_is_a_sync_vector_env_of_single_ones_step_by_step(
    name: str, seed: int | list[int]
) -> None:
    # Noise, generated arrivals, illegal actions and several episodes in each lane are in it.
    lanes = 3
    ours = gymnasium.make_vec(name, lanes, horizon_s=SHORT[name])
    theirs = gymnasium.make_vec(name, lanes, vectorization_mode="sync", horizon_s=SHORT[name])
    assert isinstance(ours, BatchwrightVectorEnv)
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert data_equivalence(ours.reset(seed=seed), theirs.reset(seed=seed), exact=True)
    generator, ended = np.random.default_rng(0), np.zeros(lanes, int)
    for _ in range(120):
        actions = generator.integers(0, ours.single_action_space.n, lanes)
        (features, reward, *ours_told), (*theirs_told,) = ours.step(actions), theirs.step(actions)
        # A matrix product may round the reward of a lane by how many lanes there are.
        np.testing.assert_allclose(reward, theirs_told.pop(1), rtol=1e-12, atol=1e-12)
        assert data_equivalence([features, *ours_told], theirs_told, exact=True)
        assert features in ours.observation_space
        ended += ours_told[0] | ours_told[1]
    assert (ended >= 2).all()
    assert data_equivalence(ours.reset(), theirs.reset(), exact=True)  # goes on, not anew


@pytest.mark.parametrize("name", IDS)
def test_nothing_that_was_handed_out_is_overwritten_by_later_steps(name: str) -> None:
    env = gymnasium.make_vec(name, 2, horizon_s=SHORT[name])
    kept = [env.reset(seed=0), env.step(np.array([1, 1])), env.action_masks()]
    copied = copy.deepcopy(kept)
    for _ in range(10):
        env.step(np.array([0, 2]))
    env.reset()
    assert data_equivalence(kept, copied, exact=True)


def test_recorded_returns_of_vector_episodes_are_those_of_single_ones() -> None:
    # The wrapper counts by Gymnasium's rule of autoreset; the first legal action is always known.
    lanes, returns, lengths = 2, [], []
    env = RecordEpisodeStatistics(gymnasium.make_vec(IDS[1], lanes, horizon_s=0.5))
    _, infos = env.reset(seed=11)
    while len(returns) < 2 * lanes:
        *_, infos = env.step(infos["action_mask"].argmax(axis=1))
        for lane in np.flatnonzero(infos.get("_episode", np.zeros(lanes, bool))):
            returns.append((lane, infos["episode"]["r"][lane]))
            lengths.append((lane, infos["episode"]["l"][lane]))
    for lane in range(lanes):
        single = gymnasium.make(IDS[1], horizon_s=0.5)
        expected = []
        for seed in (11 + lane, None):
            _, info = single.reset(seed=seed)
            rewards, ended = [], False
            while not ended:
                _, reward, terminated, ended, info = single.step(info["action_mask"].argmax())
                assert not terminated
                rewards.append(reward)
            expected.append((sum(rewards), len(rewards)))
        ours = [value for of, value in returns if of == lane]
        assert ours == pytest.approx([value for value, _ in expected])
        assert [value for of, value in lengths if of == lane] == [count for _, count in expected]


def test_an_illegal_dispatch_waits_and_is_counted() -> None:
    options: dict[str, Any] = {"workload": recorded(0.0, 0.05, 0.06), "horizon_s": 1.0}
    env = BatchwrightEnv(scenario=tiny(), **options)
    _, info = env.reset()
    assert info["illegal_actions"] == 0
    env.step(1)  # replica 0 serves the first request from 0 to 0.11 s
    _, _, _, _, info = env.step(1)  # at 0.05 s it is busy: illegal
    assert info["illegal_actions"] == 1
    assert info["holding_s"] == pytest.approx(0.005)  # waited for a tick: 5 ms by default
    assert not info["action_mask"][1:4].any()  # replica 0
    assert info["action_mask"][[WAIT, 4, 5, 6]].all()  # replica 1
    np.testing.assert_array_equal(env.action_masks(), info["action_mask"])
    _, info = env.reset()
    assert info["illegal_actions"] == 0

    strict = BatchwrightEnv(scenario=tiny(), on_illegal="raise", **options)
    strict.reset()
    strict.step(1)
    with pytest.raises(ValueError, match="action = 1 in lane 0: the action mask forbids it"):
        strict.step(1)


def test_an_illegal_route_goes_to_the_lowest_numbered_legal_replica() -> None:
    fast, slow = RequestClass("fast", 1.0), RequestClass("slow", 1.0)
    both = Replica((0.1, 0.1), (0.01, 0.01), (0.0, 0.0), 4)
    replicas = (Replica((0.1, 0.1), (0.01, 0.01), (0.0, 0.0), 4, serves=(True, False)), both, both)
    scenario = Scenario(
        (fast, slow),
        replicas,
        (1,),
        decision=DecisionKind.ROUTE,
        queues=QueuePlace.REPLICA,
    )
    arrivals = Arrivals(np.array([0.1, 0.2]), np.array([1, 0]), np.ones(2))
    env = BatchwrightEnv(scenario=scenario, workload=RecordedWorkload(arrivals), horizon_s=1.0)
    _, info = env.reset()
    np.testing.assert_array_equal(info["action_mask"], [False, True, True])
    observation, _, _, _, info = env.step(0)
    assert info["illegal_actions"] == 1
    features = [feature.name for feature in env.features]
    assert [observation[features.index(f"last_replica.{k}")] for k in range(3)] == [0, 1, 0]


def test_an_episode_is_truncated_at_its_horizon_or_terminated_when_drained() -> None:
    options: dict[str, Any] = {"scenario": tiny(), "workload": recorded(0.2), "horizon_s": 1.0}
    cut, drained = BatchwrightEnv(**options), BatchwrightEnv(drain_s=5.0, **options)
    cut.reset()
    _, _, terminated, truncated, info = cut.step(1)
    assert (terminated, truncated) == (False, True)
    assert info["holding_s"] == 0.8  # from the arrival to the horizon
    drained.reset()
    _, _, terminated, truncated, info = drained.step(1)
    assert (terminated, truncated) == (True, False)
    assert info["holding_s"] == pytest.approx(0.11)
    for env in (cut, drained):
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(WAIT)


def test_an_episode_without_a_decision_ends_with_its_first_step() -> None:
    env = BatchwrightEnv(scenario=tiny(), workload=recorded(), horizon_s=1.0)
    env.reset()
    _, reward, terminated, truncated, info = env.step(1)
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert info["illegal_actions"] == 0  # there was nothing to decide


@pytest.mark.parametrize(
    ("scenario", "instants", "expected"),
    [
        (tiny(), [0.2], 1.0 - 0.11),  # answered in time, after 110 ms in the system
        (tiny(slo_s=0.1), [0.2], 1.0 - 1.0 - 0.11),  # answered late
        (tiny(), [0.2] * 2, 1.0 - 2.0 - 0.11),  # one waits, the other finds no place
        (tiny(price_per_hour=3.6), [0.2], 1.0 - 0.11 - 10.0 * 2 * 0.31),  # two replicas for 310 ms
    ],
)
def test_default_reward_counts_answers_seconds_refusals_and_the_bill(
    scenario: Scenario, instants: list[float], expected: float
) -> None:
    workload = recorded(*instants)
    env = BatchwrightEnv(scenario=scenario, workload=workload, horizon_s=1.0, drain_s=1.0)
    env.reset()
    _, reward, terminated, _, _ = env.step(1)
    assert terminated
    assert reward == pytest.approx(expected)


def test_reward_is_the_weighted_sum_of_the_terms_of_the_step() -> None:
    scenario = tiny()
    names = reward_term_names(scenario.class_names)
    weights = np.arange(1.0, len(names) + 1)
    workload = PoissonWorkload((20.0,))
    for reward in (None, Reward(weights)):
        env = BatchwrightEnv(scenario=scenario, workload=workload, horizon_s=3.0, reward=reward)
        told = play(env, seed=1)
        expected = (reward or default_reward(scenario)).weights
        for _, earned, _, _, info in told[1:]:
            assert earned == pytest.approx(info["reward_terms"] @ expected)
        total = sum(step[4]["reward_terms"] for step in told[1:])
        assert total[names.index("completed.only")] > 10
        assert total[names.index("replica_seconds")] == pytest.approx(2 * 3.0)


def test_keywords_replace_the_cluster_of_a_name_and_its_features() -> None:
    scenario, workload = tiny(), PoissonWorkload((20.0,))
    encoder = paper_encoder(scenario)
    keywords = {"scenario": scenario, "workload": workload, "encoder": encoder}
    # Gymnasium imports what stands before the colon. Its checker dislikes the paper's padding.
    name = f"simulator.gymnasium_env:{IDS[0]}"
    env = gymnasium.make(name, disable_env_checker=True, **keywords)
    assert env.action_space == gymnasium.spaces.Discrete(1 + 2 * 3)  # WAIT, 2 replicas x 3 sizes
    assert env.observation_space.shape == (8,)
    np.testing.assert_array_equal(env.observation_space.high, [1, 1, 1, 1, 1, 0, 0, 0])
    keywords["workload"] = [workload, recorded(0.1)]
    lanes = gymnasium.make_vec(name, 2, **keywords)
    lanes.reset(seed=0)
    _, _, _, truncated, infos = lanes.step(np.array([1, 1]))
    np.testing.assert_array_equal(truncated, [False, True])
    assert infos["holding_s"][1] == pytest.approx(10.0 - 0.1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"on_illegal": "ignore"}, "on_illegal = 'ignore': must be 'substitute' or 'raise'"),
        ({"horizon_s": 0.0}, "horizon_s = 0.0: must be"),
        ({"num_envs": 0}, "num_envs = 0: must be at least 1"),
        ({"workload": [recorded(0.1)] * 3}, "lanes = 2"),
    ],
)
def test_bad_episodes_are_refused_where_they_enter(change: dict[str, Any], message: str) -> None:
    keywords = {"num_envs": 2, "scenario": tiny(), "workload": recorded(0.1), "horizon_s": 1.0}
    with pytest.raises(ValueError, match=message):
        BatchwrightVectorEnv(**(keywords | change))


@pytest.mark.parametrize("actions", [[0], [0, 7], [-1, 0], [0.0, 1.0]])
def test_actions_that_are_no_action_numbers_are_refused(actions: list[float]) -> None:
    env = BatchwrightVectorEnv(2, scenario=tiny(), workload=recorded(0.1), horizon_s=1.0)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"action = .*: needs 2 whole numbers in 0\.\.6"):
        env.step(np.array(actions))
    with pytest.raises(ValueError, match=r"seed = \[1\]: needs one for each of 2"):
        env.reset(seed=[1])
