"""The parts of a policy network."""

import numpy as np
import pytest
import torch

from pipeline.agents.networks import MASKED_SCORE, Normalizer, PolicyNetwork, build_body, initialize

KINDS = [("mlp", (64, 64)), ("attention", (64,))]


def test_the_normalizer_gives_mean_0_and_standard_deviation_1_and_leaves_constants_alone():
    features = np.random.default_rng(1).normal([5.0, -2.0, 0.0], [3.0, 0.01, 0.0], (1000, 3))
    features[:, 2] = 1e6
    normalizer = Normalizer(3)
    normalizer.fit(features.astype(np.float32))
    normalized = normalizer(torch.from_numpy(features.astype(np.float32))).numpy()
    np.testing.assert_allclose(normalized[:, :2].mean(axis=0), 0.0, atol=1e-4)
    np.testing.assert_allclose(normalized[:, :2].std(axis=0), 1.0, atol=1e-4)
    np.testing.assert_array_equal(normalized[:, 2], 0.0)
    assert normalizer.std[2] == 1.0


def test_the_normalizer_clamps_at_10_standard_deviations():
    normalizer = Normalizer(1)
    normalizer.fit(np.array([[0.0], [2.0]], np.float32))
    far = normalizer(torch.tensor([[1e9], [-1e9], [1.0]]))
    assert far[:, 0].tolist() == [10.0, -10.0, 0.0]


@pytest.mark.parametrize("bad", [np.zeros((5, 3)), np.zeros((0, 2)), np.array([[1.0, np.nan]])])
def test_the_normalizer_refuses_what_it_cannot_fit(bad):
    with pytest.raises(ValueError, match="features"):
        Normalizer(2).fit(bad.astype(np.float32))


@pytest.mark.parametrize(("kind", "hidden"), KINDS)
def test_a_body_tells_its_output_size(kind, hidden):
    body = build_body(kind, 7, hidden)
    assert body(torch.zeros(3, 7)).shape == (3, body.output_size) == (3, 64)


@pytest.mark.parametrize(("kind", "hidden"), [("lstm", (64,)), ("mlp", ()), ("mlp", (64, 0))])
def test_a_body_that_cannot_be_built_is_refused(kind, hidden):
    with pytest.raises(ValueError, match=r"network\.(kind|hidden)"):
        build_body(kind, 7, hidden)


@pytest.mark.parametrize(("kind", "hidden"), KINDS)
def test_masked_scores_are_minus_1e9_and_the_others_are_not_touched(kind, hidden):
    network = PolicyNetwork(7, 4, kind, hidden)
    features = torch.randn(5, 7, generator=torch.Generator().manual_seed(1))
    every = torch.ones(5, 4, dtype=torch.bool)
    mask = every.clone()
    mask[:, 2] = False
    with torch.no_grad():
        scores, free = network(features, mask), network(features, every)
    assert (scores[:, 2] == MASKED_SCORE).all()
    torch.testing.assert_close(scores[:, [0, 1, 3]], free[:, [0, 1, 3]], rtol=0, atol=0)


def test_attention_lets_one_feature_change_how_another_counts():
    # f(a, b) - f(a, 0) - f(0, b) + f(0, 0) is 0 for a network without interaction before its head.
    body = build_body("attention", 2, (64,))
    initialize(body, 1.0, torch.Generator().manual_seed(1))
    rows = torch.tensor([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    before_layers = []
    body.layers.register_forward_pre_hook(lambda _, inputs: before_layers.append(inputs[0]))
    with torch.no_grad():
        body(rows)
    tokens = before_layers[0]
    assert (tokens[0] - tokens[1] - tokens[2] + tokens[3]).abs().max() > 1e-3


@pytest.mark.parametrize(("kind", "hidden"), KINDS)
def test_weights_depend_on_the_passed_generator_alone(kind, hidden):
    weights = []
    for seed in (1, 1, 2):
        network = PolicyNetwork(7, 4, kind, hidden)  # draws from torch's global generator
        initialize(network, 0.01, torch.Generator().manual_seed(seed))
        weights.append(torch.cat([p.detach().flatten() for p in network.parameters()]))
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_a_small_head_gain_starts_near_the_uniform_policy():
    network = PolicyNetwork(7, 4, "mlp", (64, 64))
    initialize(network, 0.01, torch.Generator().manual_seed(1))
    features = torch.randn(100, 7, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        probabilities = torch.softmax(network(features, torch.ones(100, 4, dtype=torch.bool)), 1)
    assert (probabilities - 0.25).abs().max() < 0.02
