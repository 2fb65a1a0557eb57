"""A network policy owes the simulator what every policy owes it."""

import numpy as np
import pytest
import torch

from pipeline.agents.network_policy import NetworkPolicy
from pipeline.agents.networks import PolicyNetwork, initialize
from simulator.action import sample_actions
from simulator.environment import Environment
from simulator.observation import ENCODERS, Encoder
from simulator.policies import EpsilonMixture, Policy
from simulator.replica import Replica
from simulator.reward import paper_reward
from simulator.scenario import RequestClass, Scenario
from simulator.traffic import PoissonWorkload

SCENARIO = Scenario(
    (RequestClass("fast", 0.05, 10.0), RequestClass("slow", 0.2)),
    (Replica((0.002, 0.002), (0.005, 0.02), (0.0, 0.0), 8),) * 2,
    (1, 2, 4, 8),
)
LANES = 16


def environment(seed: int) -> Environment:
    return Environment(
        SCENARIO,
        PoissonWorkload((60.0, 30.0)),
        lanes=LANES,
        horizon_s=0.5,
        reward=paper_reward(SCENARIO),
        generator=np.random.default_rng(seed),
    )


def build(encoder: Encoder, kind: str, greedy: bool) -> NetworkPolicy:
    network = PolicyNetwork(
        len(encoder.features),
        environment(1).table.size,
        kind,
        (64,) if kind == "attention" else (64, 64),
    )
    initialize(network, 5.0, torch.Generator().manual_seed(1))  # a large gain: scores far apart
    return NetworkPolicy("network", encoder, network, greedy)


CASES = [
    pytest.param(build(ENCODERS[encoder](SCENARIO), kind, greedy), id=f"{encoder} {kind} {greedy=}")
    for encoder in ENCODERS
    for kind in ("mlp", "attention")
    for greedy in (True, False)
]


@pytest.mark.parametrize("policy", CASES)
def test_rows_are_distributions_over_legal_actions_through_whole_episodes(policy):
    assert isinstance(policy, Policy)
    lanes = environment(2)
    policy.reset(LANES)
    observation, mask = lanes.reset()
    generator = np.random.default_rng(3)
    ended = np.zeros(LANES, bool)
    steps = 0
    while not ended.all() and steps < 2000:
        rows = policy.action_probabilities(observation, mask)
        assert rows.shape == mask.shape
        assert rows.dtype == np.float64
        assert (rows[~mask] == 0).all()
        assert (rows >= 0).all()
        np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=0, atol=1e-12)
        if policy.greedy:
            assert (rows.max(axis=1) == 1.0).all()
        step = lanes.step(sample_actions(rows, generator)[0])
        observation, mask, ended = step.observation, step.action_mask, ended | step.truncated
        steps += 1
    assert ended.all()


@pytest.mark.parametrize("policy", CASES)
def test_the_answer_depends_on_the_lane_s_own_observation_alone(policy):
    observation, mask = environment(4).reset()
    rows = policy.action_probabilities(observation, mask)
    for lane in (0, LANES - 1):
        alone = type(observation)(*(array[lane : lane + 1] for array in observation))
        row = policy.action_probabilities(alone, mask[lane : lane + 1])
        np.testing.assert_allclose(row[0], rows[lane], atol=1e-6)


def test_greedy_is_the_most_probable_action_of_the_softmax():
    encoder = ENCODERS["full"](SCENARIO)
    greedy, drawing = build(encoder, "mlp", True), build(encoder, "mlp", False)
    observation, mask = environment(5).reset()
    best = drawing.action_probabilities(observation, mask).argmax(axis=1)
    np.testing.assert_array_equal(
        greedy.action_probabilities(observation, mask).argmax(axis=1), best
    )


def test_it_can_be_mixed_so_that_every_legal_action_has_a_propensity():
    policy = EpsilonMixture(build(ENCODERS["full"](SCENARIO), "mlp", True), 0.1)
    observation, mask = environment(6).reset()
    assert ((policy.action_probabilities(observation, mask) > 0) == mask).all()


def test_a_feature_that_is_not_finite_is_refused_by_name_and_lane():
    policy = build(ENCODERS["full"](SCENARIO), "mlp", True)
    observation, mask = environment(7).reset()
    wait_s = observation.oldest_wait_s.copy()
    wait_s[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"oldest_wait_s\.slow = nan in lane 3"):
        policy.action_probabilities(observation._replace(oldest_wait_s=wait_s), mask)


def test_an_encoder_with_other_features_than_the_network_is_refused():
    network = PolicyNetwork(3, environment(1).table.size, "mlp", (8,))
    with pytest.raises(ValueError, match="20 features: must be 3"):
        NetworkPolicy("network", ENCODERS["full"](SCENARIO), network, True)
