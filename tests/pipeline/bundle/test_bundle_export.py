"""Export of a network to a bundle: the same answers, the same bytes, or nothing at all."""

import dataclasses
import json
import os
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from pipeline.agents.network_policy import NetworkPolicy
from pipeline.agents.networks import PolicyNetwork
from pipeline.bundle import runtime
from pipeline.bundle.export import BundleSource, export_bundle
from pipeline.bundle.manifest import Result, action_rows
from pipeline.bundle.onnx_export import check_parity, onnx_bytes
from pipeline.bundle.onnx_policy import OnnxPolicy
from simulator.action import action_table
from simulator.observation import paper_encoder


def network_actions(network: PolicyNetwork, source: BundleSource) -> np.ndarray:
    with torch.inference_mode():
        scores = network(torch.from_numpy(source.features), torch.from_numpy(source.action_mask))
    return scores.argmax(dim=1).numpy()


@pytest.mark.parametrize("kind", ["mlp", "attention"])
def test_all_of_10_000_actions_are_the_network_s(kind, source, exported, attention):
    if kind == "mlp":
        network, content = source.network, (exported / "policy.onnx").read_bytes()
    else:
        network, content = attention, onnx_bytes(attention, {})
    inputs = {"features": source.features, "action_mask": source.action_mask}
    action, ok = runtime.open_session(content).run(["action", "ok"], inputs)
    assert len(action) == 10_000
    np.testing.assert_array_equal(action, network_actions(network, source))
    assert ok.all()
    assert source.action_mask[np.arange(len(action)), action].all()
    parity = check_parity(network, content, source.features, source.action_mask)
    assert (parity.observations, parity.equal_actions) == (10_000, 10_000)
    assert parity.largest_score_difference < 1e-4


def test_parity_fails_for_another_network(source, exported):
    other = PolicyNetwork(source.network.features, source.network.actions, "mlp", (8,))
    content = (exported / "policy.onnx").read_bytes()
    with pytest.raises(RuntimeError, match="ONNX answers are not the network's"):
        check_parity(other, content, source.features, source.action_mask)


def test_the_onnx_policy_is_the_greedy_network_policy_in_the_simulator(source, exported, lanes):
    ours = OnnxPolicy(exported, source.encoder)
    theirs = NetworkPolicy("network", source.encoder, source.network, greedy=True)
    observation, mask = lanes.reset()
    for _ in range(50):
        rows = ours.action_probabilities(observation, mask)
        np.testing.assert_array_equal(rows, theirs.action_probabilities(observation, mask))
        step = lanes.step(rows.argmax(axis=1))
        observation, mask = step.observation, step.action_mask
    with pytest.raises(ValueError, match="features are not the bundle's"):
        OnnxPolicy(exported, paper_encoder(source.scenario))


def test_the_same_network_has_the_same_bytes_without_paths_or_stack_traces(source, exported):
    content = (exported / "policy.onnx").read_bytes()
    model = onnx.load_from_string(content)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    assert onnx_bytes(source.network, metadata) == content
    assert model.opset_import[0].version == 18
    assert not any(node.metadata_props or node.doc_string for node in model.graph.node)
    for piece in (b"site-packages", b".py", os.sep.encode() + b"home", str(Path.cwd()).encode()):
        assert piece not in content
    assert json.loads(metadata["batchwright.features"]) == source.description["features"]
    assert json.loads(metadata["batchwright.actions"]) == action_rows(
        action_table(source.scenario), source.scenario.class_names
    )


def test_nan_infinity_and_an_empty_mask_are_not_ok_and_scores_stay_finite(source, exported):
    features, mask = source.features[:4].copy(), source.action_mask[:4].copy()
    features[0, 3], features[1, 0], mask[2] = np.nan, -np.inf, False
    session = runtime.open_session(exported / "policy.onnx")
    scores, ok = session.run(["scores", "ok"], {"features": features, "action_mask": mask})
    assert ok.tolist() == [False, False, False, True]
    assert np.isfinite(scores).all()


def test_the_card_and_the_manifest_tell_features_actions_results_and_origin(source, exported):
    card = (exported / "CARD.md").read_text()
    names, hashes = source.description["features"], source.hashes
    for piece in (*names, *hashes.values(), "`fifo`", "difference from fifo", "0.5 to 1.5 (95%)"):
        assert piece in card
    manifest = json.loads((exported / "manifest.json").read_text())
    assert manifest["hashes"] == hashes
    assert manifest["features"][0] == {
        "name": "queue_length.fast",
        "unit": "requests",
        "low": 0,
        "high": 100,
    }
    assert manifest["actions"][0] == {"replica": None, "request_class": None, "batch_size": 0}
    assert set(manifest["files"]) == {"policy.onnx", "golden.npz", "CARD.md", "runtime.py"}


def test_an_export_that_fails_leaves_the_old_bundle_as_it_was(source, exported, tmp_path):
    bundle = Path(shutil.copytree(exported, tmp_path / "bundle"))
    before = {path.name: path.read_bytes() for path in bundle.iterdir()}
    spoiled = source.features.copy()
    spoiled[5] = np.nan
    for features, message in ((source.features[:100], "at least 10000"), (spoiled, "finite")):
        with pytest.raises(ValueError, match=message):
            export_bundle(bundle, dataclasses.replace(source, features=features))
    assert {path.name: path.read_bytes() for path in bundle.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


@pytest.mark.parametrize(("low", "value", "high"), [(2.0, 1.0, 3.0), (0.0, np.nan, 1.0)])
def test_a_result_outside_its_interval_is_refused(low, value, high):
    with pytest.raises(ValueError, match=r"results\.shed_fraction"):
        Result("shed_fraction", "1", value, low, high)
