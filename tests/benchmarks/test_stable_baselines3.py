"""An unmodified PPO of Stable-Baselines3 on `Batchwright/Dispatch-v0`: `pytest -m benchmark -s`.

Asserts that it learns, and no time. One core; steps are counted by CPU time, so that a busy machine
does not spoil them.
"""

import time
from collections.abc import Callable

import gymnasium
import numpy as np
import pytest
import torch

import simulator.gymnasium_env as gymnasium_env

stable_baselines3 = pytest.importorskip("stable_baselines3")

NAME, STEPS, EPISODES = "Batchwright/Dispatch-v0", 20_000, 10


@pytest.fixture
def one_thread():
    """Torch on one thread for the test alone."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def returns(choose: Callable[[np.ndarray], int]) -> np.ndarray:
    """Undiscounted returns `[EPISODES]`, of the same arrivals and noise for all who are asked."""
    env = gymnasium.make(NAME)
    totals = np.zeros(EPISODES)
    for episode in range(EPISODES):
        observation, _ = env.reset(seed=1000 + episode)
        ended = False
        while not ended:
            observation, reward, terminated, truncated, _ = env.step(choose(observation))
            totals[episode] += reward
            ended = terminated or truncated
    return totals


@pytest.mark.benchmark
@pytest.mark.usefixtures("one_thread")
def test_an_unmodified_ppo_ends_better_than_it_began_and_than_random():
    env = gymnasium.make(NAME)
    assert isinstance(env.unwrapped, gymnasium_env.BatchwrightEnv)
    model = stable_baselines3.PPO("MlpPolicy", env, seed=0, device="cpu")
    env.action_space.seed(0)
    random = returns(lambda observation: env.action_space.sample())
    untrained = returns(lambda observation: model.predict(observation)[0])
    begin_s = time.process_time()
    model.learn(STEPS)
    seconds = time.process_time() - begin_s
    trained = returns(lambda observation: model.predict(observation)[0])
    print(f"\n{NAME}: {model.num_timesteps / seconds:,.0f} steps a CPU second of training; return")
    for who, totals in (("random", random), ("untrained", untrained), ("trained", trained)):
        print(f"  {who}: {totals.mean():,.0f} (standard error {standard_error(totals):,.0f})")
    for others in (random, untrained):
        gain = trained - others
        assert gain.mean() > 5 * standard_error(gain)
        assert trained.mean() > 1.1 * others.mean()


def standard_error(values: np.ndarray) -> float:
    """Of the mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))
