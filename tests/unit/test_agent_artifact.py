"""Agents on disk: what comes back, and what is refused."""

import hashlib
import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from pipeline.agents.artifact import AgentDescription, load_agent, save_agent
from pipeline.agents.curve import CurveRow, write_curve
from pipeline.agents.networks import PolicyNetwork, initialize

KINDS = [("mlp", (64, 64)), ("attention", (16,))]


def agent(
    kind: str = "mlp", hidden: tuple[int, ...] = (8,)
) -> tuple[AgentDescription, PolicyNetwork]:
    network = PolicyNetwork(3, 4, kind, hidden)
    initialize(network, 1.0, torch.Generator().manual_seed(1))
    network.normalizer.fit(np.random.default_rng(1).normal(3.0, 2.0, (50, 3)).astype(np.float32))
    description = AgentDescription(
        name="ppo",
        algorithm="ppo",
        encoder="full",
        features=["a", "b", "c"],
        actions=4,
        network=network.description,
        score="logits",
        seed=7,
        training={"steps": 100, "reward_scale": 0.5},
    )
    return description, network


def rewrite(folder: Path, arrays: dict[str, np.ndarray]) -> None:
    """Other weights with a fitting hash: what a hand-made file would look like."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    (folder / "weights.npz").write_bytes(file.getvalue())
    description = json.loads((folder / "agent.json").read_text())
    description["weights_sha256"] = hashlib.sha256(file.getvalue()).hexdigest()
    (folder / "agent.json").write_text(json.dumps(description))


@pytest.mark.parametrize(("kind", "hidden"), KINDS)
def test_a_loaded_agent_scores_as_the_saved_one_normalizer_included(tmp_path, kind, hidden):
    description, network = agent(kind, hidden)
    save_agent(tmp_path, description, network)
    told, loaded = load_agent(tmp_path)
    assert {key: told[key] for key in description} == description
    features = torch.randn(20, 3, generator=torch.Generator().manual_seed(2))
    mask = torch.rand(20, 4, generator=torch.Generator().manual_seed(3)) < 0.7
    with torch.no_grad():
        assert torch.equal(network(features, mask), loaded(features, mask))


def test_the_same_agent_has_the_same_bytes_and_leaves_no_partial_file(tmp_path):
    for folder in ("one", "two"):
        save_agent(tmp_path / folder, *agent())
    for name in ("agent.json", "weights.npz"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert sorted(p.name for p in (tmp_path / "one").iterdir()) == ["agent.json", "weights.npz"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("actions", 5),
        ("features", ["a", "b"]),
        ("network", {"kind": "mlp", "hidden": [9]}),
        ("score", "probabilities"),
    ],
)
def test_a_description_that_contradicts_the_network_is_not_saved(tmp_path, field, value):
    description, network = agent()
    description[field] = value
    with pytest.raises(ValueError, match=f"agent.{field}"):
        save_agent(tmp_path, description, network)
    assert not list(tmp_path.iterdir())


def test_changed_weights_are_refused(tmp_path):
    save_agent(tmp_path, *agent())
    content = bytearray((tmp_path / "weights.npz").read_bytes())
    content[-200] ^= 1
    (tmp_path / "weights.npz").write_bytes(bytes(content))
    with pytest.raises(ValueError, match=r"weights\.npz: sha256"):
        load_agent(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays: arrays.pop("head.bias"), r"names \['head.bias'\]"),
        (lambda arrays: arrays.update({"more": np.zeros(1, np.float32)}), r"names \['more'\]"),
        (lambda arrays: arrays.update({"head.bias": np.zeros(5, np.float32)}), r"\(5,\)"),
        (lambda arrays: arrays.update({"head.bias": np.zeros(4)}), "float64"),
        (
            lambda arrays: arrays.update({"head.bias": np.full(4, np.nan, np.float32)}),
            "NaN or infinite",
        ),
        (
            lambda arrays: arrays.update({"head.bias": np.array([{}] * 4, object)}),
            "allow_pickle=False",
        ),
    ],
)
def test_weights_that_do_not_fit_are_refused(tmp_path, change, message):
    description, network = agent()
    save_agent(tmp_path, description, network)
    arrays = {name: value.numpy() for name, value in network.state_dict().items()}
    change(arrays)
    rewrite(tmp_path, arrays)
    with pytest.raises(ValueError, match=message):
        load_agent(tmp_path)


def test_the_curve_has_a_header_a_row_an_update_and_empty_cells_for_absent_figures(tmp_path):
    row = CurveRow(1, 100, 0, None, -0.5, 1 / 3, 0.7, None, None, 0.25, None)
    write_curve(tmp_path, [row])
    assert (tmp_path / "curve.csv").read_text().splitlines() == [
        "update,steps,episodes,return_mean,policy_loss,value_loss,entropy,approximate_kl,"
        "clip_fraction,explained_variance,validation",
        "1,100,0,,-0.5,0.333333333,0.7,,,0.25,",
    ]
