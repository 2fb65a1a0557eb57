"""Offline training: from transitions to a policy network, through d3rlpy and out of it again."""

from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version

import numpy as np
import torch

from pipeline.agents.artifact import AgentDescription
from pipeline.agents.networks import PolicyNetwork
from pipeline.offline.columns import (
    RewardScaling,
    learner_columns,
    log_discounts,
    scale_rewards,
    weighted_rewards,
)
from pipeline.offline.settings import OFFLINE_SETTINGS, DiscreteCQLSettings, OfflineSettings
from pipeline.transitions import Transitions

CHECKED_ROWS = 1000  # rows on which the network must score as d3rlpy's own does
SCORES = {"discrete_bc": "logits", "discrete_cql": "action_values"}

CurveRow = dict[str, float]
Progress = Callable[[CurveRow], None]


def train_offline(
    algorithm: str,
    transitions: Transitions,
    reward_weights: np.ndarray,
    settings: OfflineSettings,
    seed: int,
    progress: Progress | None = None,
) -> tuple[AgentDescription, PolicyNetwork, list[CurveRow]]:
    """The agent's description, its network, and the mean losses of each epoch.

    `algorithm` is a key of OFFLINE_SETTINGS; `reward_weights [T]` has one for each reward term,
    which behavior cloning ignores. `progress` is called with each row.

    The scores of `discrete_cql` are action values as the learner scales them. In units of reward
    they are `score / reward_scale + value_offset`, both told under `training`.

    Same transitions, settings and seed: same weights. Raises ValueError for bad input,
    RuntimeError where training diverges or the network does not score as d3rlpy's own does.
    """
    _check_settings(algorithm, settings)
    reward = weighted_rewards(transitions, reward_weights)
    interval, scaling = np.zeros(transitions.size), RewardScaling(1.0, 0.0)
    if isinstance(settings, DiscreteCQLSettings):
        interval = log_discounts(transitions, settings.discount, settings.discount_rate)
        reward, scaling = scale_rewards(reward, interval, transitions.terminated)
    # d3rlpy.seed would set the generators of the whole process; only torch's is drawn from.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network, curve = _train(transitions, reward, interval, settings, seed, progress)
    weights = dict(zip(transitions.schema.reward_terms, map(float, reward_weights), strict=True))
    description = AgentDescription(
        name=algorithm,
        algorithm=algorithm,
        encoder=transitions.schema.encoder,
        features=[feature.name for feature in transitions.schema.features],
        actions=network.actions,
        network=network.description,
        score=SCORES[algorithm],
        seed=seed,
        training={
            **asdict(settings),
            "hidden": list(settings.hidden),
            "transitions": transitions.size,
            "episodes": len(np.unique(transitions.episode)),
            "reward_weights": weights,
            "reward_scale": scaling.scale,
            "value_offset": scaling.offset,
            "d3rlpy": version("d3rlpy"),
        },
    )
    return description, network.eval(), curve


def _check_settings(algorithm: str, settings: OfflineSettings) -> None:
    expected = OFFLINE_SETTINGS.get(algorithm)
    if expected is None:
        raise ValueError(f"algorithm = {algorithm!r}: must be one of {sorted(OFFLINE_SETTINGS)}")
    if not isinstance(settings, expected):
        raise ValueError(f"settings = {settings!r}: {algorithm} needs {expected.__name__}")


def _train(
    transitions: Transitions,
    reward: np.ndarray,
    interval: np.ndarray,
    settings: OfflineSettings,
    seed: int,
    progress: Progress | None,
) -> tuple[PolicyNetwork, list[CurveRow]]:
    """Train d3rlpy's networks; the trained one becomes a PolicyNetwork, checked against it."""
    from pipeline.offline import d3rlpy_adapter  # takes seconds: only who trains waits for it

    features, actions = transitions.features.shape[1], transitions.action_mask.shape[1]
    network = PolicyNetwork(features, actions, settings.network, settings.hidden)
    network.normalizer.fit(transitions.features[: transitions.size])
    columns = learner_columns(transitions, network.normalizer, reward, interval)
    buffer = d3rlpy_adapter.ColumnarReplayBuffer(columns, np.random.default_rng(seed))
    learner = d3rlpy_adapter.build_learner(settings, features)
    curve = d3rlpy_adapter.fit(learner, buffer, settings, progress)
    d3rlpy_adapter.copy_weights(learner, network)
    every = max(1, transitions.size // CHECKED_ROWS)
    rows = np.arange(0, transitions.size, every)[:CHECKED_ROWS]
    expected = d3rlpy_adapter.learner_scores(learner, buffer.observations(rows))
    _check_scores(network, transitions, rows, expected, isinstance(settings, DiscreteCQLSettings))
    return network, curve


def _check_scores(
    network: PolicyNetwork,
    transitions: Transitions,
    rows: np.ndarray,
    expected: np.ndarray,
    masked: bool,
) -> None:
    """RuntimeError unless the network scores `rows` as d3rlpy does, `expected [n, A]`.

    Action values are masked and compared as they are; else `expected` has unmasked
    log-probabilities.
    """
    action_mask = transitions.action_mask[rows] if masked else np.ones(expected.shape, bool)
    with torch.no_grad():
        scores = network(
            torch.from_numpy(transitions.features[rows]), torch.from_numpy(action_mask)
        )
        found = (scores if masked else torch.log_softmax(scores, dim=1)).numpy()
    limit = 1e-4 * max(1.0, float(np.abs(expected[action_mask]).max()))
    difference = float(np.abs(found - expected)[action_mask].max())
    if not difference <= limit:
        raise RuntimeError(
            f"exported scores differ from d3rlpy's by up to {difference:g}, above {limit:g}"
        )
