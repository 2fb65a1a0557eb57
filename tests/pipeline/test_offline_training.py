"""Offline training on problems whose answer is known, through d3rlpy and out of it again."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from pipeline.agents.artifact import load_agent, save_agent
from pipeline.agents.networks import PolicyNetwork
from pipeline.offline.settings import DiscreteBCSettings, DiscreteCQLSettings, OfflineSettings
from pipeline.offline.training import CurveRow, train_offline
from pipeline.transitions import ActionMeaning, Transitions, TransitionSchema
from simulator.observation import Feature


class Decision(NamedTuple):
    """One decision of a hand-made episode, in a state that is one-hot in the features."""

    state: int
    action: int
    reward: float
    legal: tuple[int, ...] = (0, 1)


class HandMade(NamedTuple):
    """An episode: its decisions, and the state of its closing row."""

    decisions: Sequence[Decision]
    terminated: bool = True
    last_state: int = 0
    last_legal: tuple[int, ...] = (0, 1)


def transitions_of(
    episodes: Sequence[HandMade], states: int, actions: int = 2, holding_s: float = 1.0
) -> Transitions:
    decisions = [decision for episode in episodes for decision in episode.decisions]
    size = len(decisions)
    lengths = np.array([len(episode.decisions) for episode in episodes])
    last = np.cumsum(lengths) - 1
    terminated, truncated = np.zeros((2, size), bool)
    terminated[last] = [episode.terminated for episode in episodes]
    truncated[last] = [not episode.terminated for episode in episodes]
    next_row = np.arange(1, size + 1)
    next_row[last] = size + np.arange(len(episodes))
    state = [d.state for d in decisions] + [episode.last_state for episode in episodes]
    legal = [d.legal for d in decisions] + [episode.last_legal for episode in episodes]
    mask = np.array([[action in row for action in range(actions)] for row in legal])
    return Transitions(
        schema=TransitionSchema(
            encoder="full",
            features=tuple(Feature(f"state.{i}", "1", 0, 1) for i in range(states)),
            actions=tuple(ActionMeaning(0, 0, size) for size in range(actions)),
            reward_terms=("completed.fast",),
            class_names=("fast",),
        ),
        features=np.eye(states, dtype=np.float32)[state],
        action_mask=mask,
        action=np.array([d.action for d in decisions], np.int32),
        propensity=np.full(size, 0.5),
        reward_terms=np.array([[d.reward] for d in decisions]),
        holding_s=np.full(size, holding_s),
        terminated=terminated,
        truncated=truncated,
        next_row=next_row,
        episode=np.repeat(np.arange(len(episodes)), lengths),
    )


def cql(**fields: float) -> DiscreteCQLSettings:
    settings = {"updates": 150, "updates_per_epoch": 50, "learning_rate": 0.02, "minibatch": 64}
    settings |= {"discount_rate": 0.0, "target_update_interval": 10, "conservative_weight": 0.0}
    return DiscreteCQLSettings(**{**settings, "hidden": (16,), **fields})


BC = DiscreteBCSettings(
    updates=150, updates_per_epoch=50, learning_rate=0.02, minibatch=64, hidden=(16,)
)


def train(
    transitions: Transitions, settings: OfflineSettings, seed: int = 5
) -> tuple[dict, PolicyNetwork, list[CurveRow]]:
    algorithm = "discrete_bc" if isinstance(settings, DiscreteBCSettings) else "discrete_cql"
    description, network, curve = train_offline(
        algorithm, transitions, np.array([1.0]), settings, seed
    )
    return dict(description), network, curve


def scores(network: PolicyNetwork, states: int) -> np.ndarray:
    """Scores [states, A] of every state, all actions legal."""
    mask = torch.ones(states, network.actions, dtype=torch.bool)
    with torch.no_grad():
        return network(torch.eye(states), mask).numpy()


def action_values(description: dict, network: PolicyNetwork, states: int) -> np.ndarray:
    told = description["training"]
    return scores(network, states) / told["reward_scale"] + told["value_offset"]


def bandit(generator: np.random.Generator) -> Transitions:
    """Two states, three actions; the reward is 1 where action = state, else 0. The behavior takes
    the right action in 20% of the decisions."""
    episodes = []
    for state in generator.integers(0, 2, size=600):
        action = int(generator.choice(3, p=[0.2, 0.3, 0.5] if state == 0 else [0.3, 0.2, 0.5]))
        reward = float(action == state)
        episodes.append(HandMade([Decision(int(state), action, reward, (0, 1, 2))]))
    return transitions_of(episodes, states=2, actions=3)


def test_cql_solves_a_contextual_bandit_that_its_behavior_policy_does_not() -> None:
    description, network, _ = train(bandit(np.random.default_rng(0)), cql())
    values = action_values(description, network, 2)
    np.testing.assert_allclose(values, [[1, 0, 0], [0, 1, 0]], atol=0.1)


def test_bc_learns_the_action_probabilities_of_the_behavior_policy() -> None:
    _, network, _ = train(bandit(np.random.default_rng(0)), BC)
    weights = np.exp(scores(network, 2))
    probabilities = weights / weights.sum(axis=1, keepdims=True)
    # 300 decisions a state: a standard error of 0.03; training adds about as much.
    np.testing.assert_allclose(probabilities, [[0.2, 0.3, 0.5], [0.3, 0.2, 0.5]], atol=0.1)


def chain(generator: np.random.Generator, holding_s: float) -> Transitions:
    """Three states in a row. Action 1 goes on, and gets 10 at the end; action 0 leaves with 1.
    The behavior leaves in 60% of the decisions."""
    episodes = []
    for _ in range(300):
        decisions = []
        for state in range(3):
            goes_on = generator.random() < 0.4
            reward = (10.0 if state == 2 else 0.0) if goes_on else 1.0
            decisions.append(Decision(state, int(goes_on), reward))
            if not goes_on:
                break
        episodes.append(HandMade(decisions))
    return transitions_of(episodes, states=3, holding_s=holding_s)


@pytest.mark.parametrize(
    ("discount", "discount_rate", "holding_s", "step_discount"),
    [(0.9, 0.0, 1.0, 0.9), (1.0, 0.5, 0.2, np.exp(-0.1)), (1.0, 0.5, 10.0, np.exp(-5.0))],
)
def test_cql_finds_the_values_of_a_chain_for_any_holding_time(
    discount: float, discount_rate: float, holding_s: float, step_discount: float
) -> None:
    transitions = chain(np.random.default_rng(1), holding_s)
    settings = cql(discount=discount, discount_rate=discount_rate, updates=200)
    description, network, _ = train(transitions, settings)
    last = 10.0
    middle = step_discount * max(last, 1.0)
    first = step_discount * max(middle, 1.0)
    values = action_values(description, network, 3)
    np.testing.assert_allclose(values, [[1, first], [1, middle], [1, last]], atol=0.6)
    # Going on is worth it, unless it takes 10 s a step.
    assert scores(network, 3).argmax(axis=1).tolist() == [int(first > 1), int(middle > 1), 1]


def test_bc_imitates_where_cql_improves() -> None:
    transitions = chain(np.random.default_rng(1), holding_s=0.2)
    _, imitator, _ = train(transitions, BC)
    _, improver, _ = train(transitions, cql(discount_rate=0.5, conservative_weight=0.1))
    assert scores(imitator, 3).argmax(axis=1).tolist() == [0, 0, 0]
    assert scores(improver, 3).argmax(axis=1).tolist() == [1, 1, 1]


def test_a_truncated_episode_is_bootstrapped_from_its_closing_row() -> None:
    # Every episode has one decision. With discount 1/2, V0 = 1 + V1 / 2 and V1 = V0 / 2 where it
    # is truncated, V0 = 1 and V1 = 0 where it is terminated.
    for terminated, expected in ((False, [4 / 3, 2 / 3]), (True, [1.0, 0.0])):
        episodes = [
            HandMade([Decision(state, action, float(state == 0))], terminated, 1 - state)
            for state in (0, 1)
            for action in (0, 1)
        ]
        description, network, _ = train(transitions_of(episodes, states=2), cql(discount=0.5))
        values = action_values(description, network, 2)
        np.testing.assert_allclose(values, np.transpose([expected] * 2), atol=0.05)


def test_the_target_does_not_hope_for_a_masked_action() -> None:
    # State 1 is met in two ways: with action 1 legal it pays 10; after state 0 action 1 is masked,
    # so state 0 is worth 0.
    episodes = [HandMade([Decision(1, 1, 10.0)]), HandMade([Decision(1, 0, 0.0)])] * 10
    episodes += [HandMade([Decision(0, a, 0.0), Decision(1, 0, 0.0, (0,))]) for a in (0, 1)] * 10
    description, network, _ = train(transitions_of(episodes, states=2), cql(discount=0.9))
    values = action_values(description, network, 2)
    np.testing.assert_allclose(values, [[0, 0], [0, 10]], atol=0.5)


def test_action_values_are_means_also_of_rare_and_large_penalties() -> None:
    # -100 in 5% of the decisions in state 0, in 15% in state 1: a Huber loss would end near 0.
    episodes = [
        HandMade([Decision(state, number % 2, -100.0 if number < rare else 0.0)])
        for state, rare in ((0, 20), (1, 60))
        for number in range(400)
    ]
    description, network, _ = train(
        transitions_of(episodes, states=2), cql(minibatch=2000, updates=200, learning_rate=0.005)
    )
    values = action_values(description, network, 2)
    np.testing.assert_allclose(values.mean(axis=1), [-5.0, -15.0], atol=1.5)


def test_a_larger_conservative_weight_keeps_to_the_actions_of_the_data() -> None:
    # Action 2 is legal and never taken.
    generator = np.random.default_rng(2)
    episodes = [
        HandMade([Decision(state, int(generator.integers(2)), 0.0, (0, 1, 2))])
        for state in (0, 1)
        for _ in range(50)
    ]
    transitions = transitions_of(episodes, states=2, actions=3)
    _, network, _ = train(transitions, cql(conservative_weight=1.0, updates=100))
    assert (scores(network, 2)[:, :2].min(axis=1) > scores(network, 2)[:, 2] + 1).all()


@pytest.mark.parametrize("network_kind", ["mlp", "attention"])
@pytest.mark.parametrize("algorithm", ["discrete_bc", "discrete_cql"])
def test_the_same_seed_gives_the_same_bytes(
    tmp_path: Path, algorithm: str, network_kind: str
) -> None:
    small = {"updates": 20, "updates_per_epoch": 10, "minibatch": 16, "hidden": (8,)}
    kind = DiscreteBCSettings if algorithm == "discrete_bc" else DiscreteCQLSettings
    settings = kind(**small, network=network_kind)
    transitions = chain(np.random.default_rng(1), holding_s=0.2)
    contents, curves = [], []
    for run, seed in enumerate((5, 5, 6)):
        torch.manual_seed(run)  # what the process drew before does not matter
        description, network, curve = train_offline(
            algorithm, transitions, np.array([1.0]), settings, seed
        )
        folder = tmp_path / str(run)
        save_agent(folder, description, network)
        contents.append({file.name: file.read_bytes() for file in folder.iterdir()})
        curves.append(curve)
    assert contents[0] == contents[1]
    assert contents[0]["weights.npz"] != contents[2]["weights.npz"]
    assert curves[0] == curves[1]
    loaded_description, loaded = load_agent(tmp_path / "2")
    assert loaded_description["algorithm"] == algorithm
    assert loaded_description["network"]["kind"] == network_kind
    np.testing.assert_array_equal(scores(loaded, 3), scores(network, 3))


def test_training_leaves_the_random_generators_of_the_process_alone() -> None:
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    train(chain(np.random.default_rng(1), 0.2), cql(updates=2, updates_per_epoch=2))
    assert torch.equal(torch.rand(3), expected)


def test_bad_input_is_refused_before_training() -> None:
    transitions = chain(np.random.default_rng(1), 0.2)
    nan_reward = transitions._replace(reward_terms=np.full_like(transitions.reward_terms, np.nan))
    nan_feature = transitions._replace(features=np.full_like(transitions.features, np.nan))
    for settings in (cql(discount_rate=0.5), BC):
        with pytest.raises(ValueError, match="reward = nan in transition 0: must be finite"):
            train(nan_reward, settings)
        with pytest.raises(ValueError, match="features: NaN or infinite value"):
            train(nan_feature, settings)
    with pytest.raises(ValueError, match="algorithm = 'dqn': must be one of"):
        train_offline("dqn", transitions, np.ones(1), BC, 0)
    with pytest.raises(ValueError, match="discrete_cql needs DiscreteCQLSettings"):
        train_offline("discrete_cql", transitions, np.ones(1), BC, 0)
