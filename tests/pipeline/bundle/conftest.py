"""One exported bundle for all tests of this folder: the first export costs seconds."""

from pathlib import Path

import numpy as np
import pytest
import torch

from pipeline.agents.artifact import AgentDescription
from pipeline.agents.collector import Collector, uniform_probabilities
from pipeline.agents.networks import PolicyNetwork, initialize
from pipeline.bundle.export import BundleSource, export_bundle
from pipeline.bundle.manifest import Result
from simulator.action import action_table
from simulator.environment import Environment
from simulator.observation import full_encoder
from simulator.replica import Replica
from simulator.reward import paper_reward
from simulator.scenario import RequestClass, Scenario
from simulator.traffic import PoissonWorkload

SCENARIO = Scenario(
    (RequestClass("fast", 0.05, 10.0), RequestClass("slow", 0.2)),
    (Replica((0.002, 0.002), (0.005, 0.02), (0.1, 0.1), 8),) * 2,
    (1, 2, 4, 8),
)
LANES, STEPS = 100, 100


def random_network(kind: str, hidden: tuple[int, ...], features: np.ndarray) -> PolicyNetwork:
    network = PolicyNetwork(features.shape[1], action_table(SCENARIO).size, kind, hidden)
    initialize(network, 1.0, torch.Generator().manual_seed(3))
    network.normalizer.fit(features)
    return network.eval()


@pytest.fixture(scope="session")
def lanes() -> Environment:
    """The simulator that the observations are from."""
    return Environment(
        SCENARIO,
        PoissonWorkload((60.0, 30.0)),
        lanes=LANES,
        horizon_s=5.0,
        reward=paper_reward(SCENARIO),
        generator=np.random.default_rng(1),
    )


@pytest.fixture(scope="session")
def source(lanes) -> BundleSource:
    """A network with random weights, and 10,000 observations that the uniform policy meets."""
    encoder = full_encoder(SCENARIO)
    collector = Collector(lanes, encoder, np.random.default_rng(2))
    rollout = collector.collect_steps(uniform_probabilities, STEPS)
    features = rollout.features[:-1].reshape(LANES * STEPS, -1)
    network = random_network("mlp", (64, 64), features)
    description = AgentDescription(
        name="ppo",
        algorithm="ppo",
        encoder="full",
        features=[feature.name for feature in encoder.features],
        actions=network.actions,
        network=network.description,
        score="logits",
        seed=3,
        training={},
    )
    return BundleSource(
        description=description,
        network=network,
        encoder=encoder,
        scenario=SCENARIO,
        fallback_rule="fifo",
        fallback_parameters={"batch_size": 4},
        hashes={"data": "d" * 64, "calibration": "c" * 64, "config": "f" * 64},
        results=[Result("reward_per_s", "reward/s", 1.0, 0.5, 1.5, against="fifo")],
        features=features,
        action_mask=rollout.action_mask.reshape(LANES * STEPS, -1),
    )


@pytest.fixture(scope="session")
def attention(source) -> PolicyNetwork:
    """The other kind of body."""
    return random_network("attention", (64,), source.features)


@pytest.fixture(scope="session")
def exported(source, tmp_path_factory) -> Path:
    """The bundle, to read only."""
    folder = tmp_path_factory.mktemp("policies") / "ppo"
    export_bundle(folder, source)
    return folder
