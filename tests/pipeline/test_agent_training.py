"""REINFORCE and PPO in environments small enough to know the best policy of."""

import dataclasses
import hashlib
import io
from abc import ABC, abstractmethod
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from pipeline.agents.artifact import AgentDescription, load_agent, save_agent
from pipeline.agents.ppo import clipped_policy_loss
from pipeline.agents.settings import PolicyGradientSettings, PPOSettings, ReinforceSettings
from pipeline.agents.training import TrainedAgent, train
from simulator.action import ActionTable
from simulator.environment import Environment
from simulator.observation import Encoder, Feature, Observation, full_encoder
from simulator.replica import Replica
from simulator.reward import weighted_reward
from simulator.scenario import RequestClass, Scenario
from simulator.traffic import PoissonWorkload

ENCODER = Encoder(
    "place",
    (Feature("queue_length.all", "1", 0, 10),),
    lambda observation: observation.queue_length.astype(np.float32),
)
LANES = 64
ALGORITHMS: dict[str, PolicyGradientSettings] = {
    "reinforce": ReinforceSettings(
        steps=8_000, lanes=LANES, learning_rate=0.03, hidden=(32,), minibatch=512
    ),
    "ppo": PPOSettings(
        steps=20_000, lanes=LANES, rollout_steps=16, learning_rate=0.01, hidden=(32,), minibatch=512
    ),
}


class Places(ABC):
    """Lanes with a place each. Subclasses say what an action does; action 2 is never legal."""

    table = ActionTable(
        np.array([-1, 0, 0]), np.array([-1, 0, 0]), np.array([0, 1, 2]), *[np.full(3, -1)] * 3
    )

    def __init__(self, seed: int, lanes: int = LANES) -> None:
        self.lanes = lanes
        self.generator = np.random.default_rng(seed)
        self.place = np.zeros(lanes, int)
        self.ended = np.ones(lanes, bool)

    def first(self) -> np.ndarray:
        return np.zeros(self.lanes, int)

    @abstractmethod
    def outcome(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Reward, next place and whether the episode terminates, of each lane."""

    def _look(self) -> tuple[Observation, np.ndarray]:
        empty = np.zeros((self.lanes, 1))
        mask = np.tile([True, True, False], (self.lanes, 1))
        others = [empty] * (len(Observation._fields) - 1)
        return Observation(self.place[:, None].astype(float), *others), mask

    def reset(self, lanes: np.ndarray | None = None) -> tuple[Observation, np.ndarray]:
        starts = np.ones(self.lanes, bool) if lanes is None else lanes
        self.place = np.where(starts, self.first(), self.place)
        self.ended &= ~starts
        return self._look()

    def step(self, action: np.ndarray) -> SimpleNamespace:
        if (action[~self.ended] == 2).any():
            raise ValueError("action 2: the action mask forbids it")
        reward, place, terminated = self.outcome(action)
        running = ~self.ended
        self.place = np.where(running, place, self.place)
        self.ended |= terminated
        observation, mask = self._look()
        return SimpleNamespace(
            observation=observation,
            action_mask=mask,
            reward=np.where(running, reward, 0.0),
            holding_s=np.where(running, 0.1, 0.0),
            terminated=self.ended.copy(),
            truncated=np.zeros(self.lanes, bool),
        )


class Bandit(Places):
    """One decision: 1 for naming the place, 0 or 1, that one is in."""

    def first(self):
        return self.generator.integers(0, 2, self.lanes)

    def outcome(self, action):
        return (action == self.place) * 1.0, self.place, np.ones(self.lanes, bool)


class Chain(Places):
    """Action 0 takes 0.2 and ends; action 1 goes on, and pays 1 at the fifth place, the last.

    Going on is best everywhere: from place 0, exp(-0.5 * 0.4) = 0.82 after four more steps.
    """

    def outcome(self, action):
        place = self.place + (action == 1)
        reward = np.where(action == 0, 0.2, np.where(place == 5, 1.0, 0.0))
        return reward, place, (action == 0) | (place == 5)


class Poisoned(Chain):
    """The chain, but its rewards turn to NaN after 100 steps."""

    steps = 0

    def outcome(self, action):
        self.steps += 1
        reward, place, terminated = super().outcome(action)
        return (np.nan if self.steps > 100 else 1.0) * reward, place, terminated


def probabilities(trained: TrainedAgent, places: list[int]) -> np.ndarray:
    features = torch.tensor(places, dtype=torch.float32)[:, None]
    mask = torch.tensor([[True, True, False]]).expand(len(places), 3)
    with torch.no_grad():
        return torch.softmax(trained.network(features, mask), dim=1).numpy()


def weights_sha256(trained: TrainedAgent) -> str:
    file = io.BytesIO()
    np.savez(file, **{name: value.numpy() for name, value in trained.network.state_dict().items()})
    return hashlib.sha256(file.getvalue()).hexdigest()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_two_armed_bandit_with_context_is_solved(algorithm):
    trained = train(Bandit(1), ENCODER, ALGORITHMS[algorithm], np.random.default_rng(1))
    learned = probabilities(trained, [0, 1])
    assert learned[0, 0] > 0.9
    assert learned[1, 1] > 0.9
    assert trained.curve[-1].return_mean > 0.85
    assert trained.curve[0].return_mean < 0.75


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_delayed_reward_is_preferred_to_a_smaller_one_now(algorithm):
    trained = train(Chain(1), ENCODER, ALGORITHMS[algorithm], np.random.default_rng(1))
    learned = probabilities(trained, [0, 1, 2, 3, 4])
    assert (learned[:, 1] > 0.9).all()
    assert (learned[:, 2] == 0.0).all()  # masked
    assert trained.curve[0].return_mean < 0.5  # the uniform policy: about 0.2
    assert trained.curve[-1].return_mean > 0.9


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_high_discount_rate_makes_the_smaller_reward_now_the_better_one(algorithm):
    # At 10 a second a step of 0.1 s is worth 1/e: 0.2 now beats e^-4 = 0.02 from place 0.
    settings = dataclasses.replace(ALGORITHMS[algorithm], discount_rate=10.0)
    trained = train(Chain(1), ENCODER, settings, np.random.default_rng(1))
    assert probabilities(trained, [0])[0, 0] > 0.9


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not(algorithm):
    settings = dataclasses.replace(ALGORITHMS[algorithm], steps=4_000)
    runs = []
    for seed in (1, 1, 2):
        torch.manual_seed(len(runs))  # torch's global generator must not matter
        runs.append(train(Chain(3), ENCODER, settings, np.random.default_rng(seed)))
    assert weights_sha256(runs[0]) == weights_sha256(runs[1])
    assert runs[0].curve == runs[1].curve
    assert runs[0].reward_scale == runs[1].reward_scale
    assert weights_sha256(runs[0]) != weights_sha256(runs[2])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_rewards_in_another_unit_give_the_same_network(algorithm):
    class Cents(Chain):
        def outcome(self, action):
            reward, place, terminated = super().outcome(action)
            return 1024 * reward, place, terminated  # a power of two: exact in floating point

    settings = dataclasses.replace(ALGORITHMS[algorithm], steps=4_000)
    runs = [train(kind(3), ENCODER, settings, np.random.default_rng(1)) for kind in (Chain, Cents)]
    assert weights_sha256(runs[0]) == weights_sha256(runs[1])
    assert runs[0].reward_scale == 1024 * runs[1].reward_scale


def test_normalizer_and_reward_scale_are_those_of_the_uniform_policy():
    trained = train(Bandit(1), ENCODER, ALGORITHMS["ppo"], np.random.default_rng(1))
    # Places 0 and 1 equally often, returns of 0 and 1 equally often: mean and deviation 1/2.
    assert trained.network.normalizer.mean.item() == pytest.approx(0.5, abs=0.03)
    assert trained.network.normalizer.std.item() == pytest.approx(0.5, abs=0.03)
    assert trained.reward_scale == pytest.approx(2.0, abs=0.05)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_loss_that_is_not_finite_stops_the_training_by_name(algorithm):
    settings = dataclasses.replace(ALGORITHMS[algorithm], normalizer_steps=50)
    with pytest.raises(RuntimeError, match=r"update \d+: (policy|value)_loss = nan"):
        train(Poisoned(1), ENCODER, settings, np.random.default_rng(1))


def test_the_curve_counts_steps_and_progress_sees_every_row():
    seen = []
    settings = dataclasses.replace(ALGORITHMS["ppo"], steps=5 * LANES * 16)
    trained = train(Chain(1), ENCODER, settings, np.random.default_rng(1), progress=seen.append)
    assert seen == trained.curve
    assert [row.update for row in seen] == [1, 2, 3, 4, 5]
    assert [row.steps for row in seen] == [LANES * 16 * n for n in (1, 2, 3, 4, 5)]
    assert trained.best_update == 5
    assert all(0 <= row.clip_fraction <= 1 and row.approximate_kl >= 0 for row in seen)
    assert 0 < seen[0].entropy <= np.log(2) + 1e-6  # two legal actions


def test_the_network_with_the_best_validation_is_kept():
    scores = iter([1.0, 3.0, 3.0, 2.0])
    networks = []

    def validate(network):
        networks.append({name: value.clone() for name, value in network.state_dict().items()})
        return next(scores)

    settings = dataclasses.replace(
        ALGORITHMS["ppo"], steps=7 * LANES * 16, validate_every=2, anneal_learning_rate=False
    )
    trained = train(Chain(1), ENCODER, settings, np.random.default_rng(1), validate=validate)
    assert [row.validation for row in trained.curve] == [None, 1.0, None, 3.0, None, 3.0, 2.0]
    assert trained.best_update == 4
    for name, value in trained.network.state_dict().items():
        assert torch.equal(value, networks[1][name])
    assert not torch.equal(trained.network.head.weight, networks[3]["head.weight"])


def test_an_environment_with_other_lanes_than_the_settings_is_refused():
    with pytest.raises(ValueError, match="lanes = 64: the environment has 8"):
        train(Chain(1, lanes=8), ENCODER, ALGORITHMS["ppo"], np.random.default_rng(1))


def test_the_clipped_objective_is_the_one_worked_out_by_hand():
    ratio = torch.tensor([1.5, 1.5, 0.5, 0.5, 1.1])
    advantage = torch.tensor([1.0, -1.0, 1.0, -1.0, 2.0])
    loss, told = clipped_policy_loss(ratio.log(), torch.zeros(5), advantage, 0.2)
    # min(ratio * A, clip(ratio, 0.8, 1.2) * A): 1.2, -1.5, 0.5, -0.8, 2.2
    assert loss.item() == pytest.approx(-(1.2 - 1.5 + 0.5 - 0.8 + 2.2) / 5)
    torch.testing.assert_close(told, ratio)


@pytest.mark.parametrize("algorithm", ["ppo", "reinforce"])
def test_training_in_the_simulator_runs_to_the_end_and_the_agent_can_be_saved(algorithm, tmp_path):
    scenario = Scenario(
        (RequestClass("fast", 0.05, 2.0), RequestClass("slow", 0.2)),
        (Replica((0.002, 0.002), (0.005, 0.02), (0.1, 0.1), 8),) * 2,
        (1, 2, 4, 8),
    )
    environment = Environment(
        scenario,
        PoissonWorkload((40.0, 30.0)),
        lanes=8,
        horizon_s=0.5,
        reward=weighted_reward(scenario, {"response_s": -1.0, "shed": -1.0}, {}),
        generator=np.random.default_rng(1),
    )
    settings = dataclasses.replace(ALGORITHMS[algorithm], lanes=8, steps=2_000, normalizer_steps=32)
    encoder = full_encoder(scenario)
    trained = train(environment, encoder, settings, np.random.default_rng(2))
    description = AgentDescription(
        name=algorithm,
        algorithm=algorithm,
        encoder=encoder.name,
        features=[feature.name for feature in encoder.features],
        actions=environment.table.size,
        network=trained.network.description,
        score="logits",
        seed=2,
        training={**dataclasses.asdict(settings), "reward_scale": trained.reward_scale},
    )
    save_agent(tmp_path, description, trained.network)
    _, loaded = load_agent(tmp_path)
    assert torch.equal(loaded.head.weight, trained.network.head.weight)
    assert all(np.isfinite(row.value_loss) for row in trained.curve)
    assert sum(row.episodes for row in trained.curve) >= 8
