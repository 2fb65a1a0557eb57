"""An agent on disk: agent.json and weights.npz in one folder. No pickle; checked on load."""

import hashlib
import io
import json
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch

from pipeline.agents.networks import PolicyNetwork
from pipeline.files import write_atomically, write_json

DESCRIPTION_FILE = "agent.json"
WEIGHTS_FILE = "weights.npz"
SCORES = ("logits", "action_values")


class AgentDescription(TypedDict):
    """What agent.json holds, beside the weights' hash that `save_agent` adds."""

    name: str
    algorithm: str
    encoder: str  # a key of simulator.observation.ENCODERS
    features: list[str]  # names, in the order of the input
    actions: int
    network: dict[str, Any]  # PolicyNetwork.description
    score: str  # "logits" or "action_values"
    seed: int
    training: dict[str, Any]


def arrays_as_npz(arrays: dict[str, np.ndarray]) -> bytes:
    """The arrays as an uncompressed .npz; same arrays, same bytes."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def _check(description: AgentDescription, network: PolicyNetwork) -> None:
    missing = sorted(AgentDescription.__required_keys__ - description.keys())
    if missing:
        raise ValueError(f"agent description lacks {missing}")
    expected = {
        "features": (len(description["features"]), network.features),
        "actions": (description["actions"], network.actions),
        "network": (description["network"], network.description),
    }
    for field, (told, real) in expected.items():
        if told != real:
            raise ValueError(f"agent.{field} = {told!r}: must be {real!r}, as the network has it")
    if description["score"] not in SCORES:
        raise ValueError(f"agent.score = {description['score']!r}: must be one of {SCORES}")


def save_agent(folder: Path, description: AgentDescription, network: PolicyNetwork) -> None:
    """Write `weights.npz`, then `agent.json`, which holds the weights' sha256, into `folder`.

    Raises ValueError where the description contradicts the network.
    """
    _check(description, network)
    arrays = {name: value.numpy() for name, value in network.state_dict().items()}
    weights = arrays_as_npz(arrays)
    complete = {**description, "weights_sha256": hashlib.sha256(weights).hexdigest()}
    write_atomically(folder / WEIGHTS_FILE, weights)
    write_json(folder / DESCRIPTION_FILE, complete)


def load_agent(folder: Path) -> tuple[AgentDescription, PolicyNetwork]:
    """The description and the network of `folder`, names, shapes, types and hash checked.

    Raises ValueError naming what does not fit; FileNotFoundError where a file is absent.
    """
    description: AgentDescription = json.loads((folder / DESCRIPTION_FILE).read_bytes())
    weights = (folder / WEIGHTS_FILE).read_bytes()
    expected_hash = description.get("weights_sha256")
    if hashlib.sha256(weights).hexdigest() != expected_hash:
        raise ValueError(f"{folder.name}/{WEIGHTS_FILE}: sha256 is not the {expected_hash} told")
    shape = description["network"]
    network = PolicyNetwork(
        len(description["features"]), description["actions"], shape["kind"], shape["hidden"]
    )
    _check(description, network)
    with np.load(io.BytesIO(weights), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    _load_arrays(network, arrays)
    return description, network.eval()


def _load_arrays(network: PolicyNetwork, arrays: dict[str, np.ndarray]) -> None:
    state = network.state_dict()
    if state.keys() != arrays.keys():
        raise ValueError(f"{WEIGHTS_FILE}: names {sorted(state.keys() ^ arrays.keys())} differ")
    for name, value in arrays.items():
        if value.shape != tuple(state[name].shape) or value.dtype != np.float32:
            raise ValueError(
                f"{WEIGHTS_FILE}: {name} is {value.dtype} {value.shape}: "
                f"must be float32 {tuple(state[name].shape)}"
            )
        if not np.isfinite(value).all():
            raise ValueError(f"{WEIGHTS_FILE}: {name} has a NaN or infinite value")
    network.load_state_dict({name: torch.from_numpy(value) for name, value in arrays.items()})
