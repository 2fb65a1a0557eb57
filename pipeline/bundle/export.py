"""Writes a policy bundle, whole or not at all, after proving that ONNX answers as the network."""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.agents.artifact import AgentDescription
from pipeline.agents.networks import PolicyNetwork
from pipeline.bundle import runtime
from pipeline.bundle.card import card_text
from pipeline.bundle.golden import golden_bytes
from pipeline.bundle.manifest import Result, build_manifest, fallback_rows, model_metadata
from pipeline.bundle.onnx_export import check_parity, onnx_bytes
from simulator.observation import Encoder
from simulator.scenario import Scenario

CARD_FILE, RUNTIME_FILE = "CARD.md", "runtime.py"
PARITY_ROWS = 10_000
GOLDEN_ROWS = 1_024


@dataclass(frozen=True)
class BundleSource:
    """Everything a bundle is made of."""

    description: AgentDescription
    network: PolicyNetwork
    encoder: Encoder
    scenario: Scenario
    fallback_rule: str  # a key of runtime.RULES
    fallback_parameters: Mapping[str, Any]
    hashes: Mapping[str, str]  # sha256 of data, calibration, config
    results: Sequence[Result]
    features: np.ndarray  # [n, F] float32, met in the simulator; n at least 10,000
    action_mask: np.ndarray  # [n, A] bool


def export_bundle(folder: Path, source: BundleSource) -> dict[str, Any]:
    """Write the bundle into `folder`, replacing what was there; returns its manifest.

    Raises ValueError where the parts do not fit together, RuntimeError where ONNX and network
    disagree on one of the observations.
    """
    if len(source.features) < PARITY_ROWS:
        raise ValueError(f"features: {len(source.features)} rows: needs at least {PARITY_ROWS}")
    if not np.isfinite(source.features).all():
        raise ValueError("features: NaN or infinite value: must be finite to compare answers")
    fallback = fallback_rows(
        source.fallback_rule, source.fallback_parameters, source.scenario, source.encoder
    )
    manifest = build_manifest(
        source.description, source.encoder, source.scenario, fallback, source.hashes, source.results
    )
    metadata = model_metadata(manifest["features"], manifest["actions"])
    model = onnx_bytes(source.network, metadata)
    parity = check_parity(source.network, model, source.features, source.action_mask)
    manifest["parity"] = parity._asdict()
    spread = np.linspace(0, len(source.features) - 1, GOLDEN_ROWS).astype(int)
    files = {
        runtime.MODEL_FILE: model,
        runtime.GOLDEN_FILE: golden_bytes(
            model, source.features[spread], source.action_mask[spread]
        ),
        CARD_FILE: card_text(manifest).encode(),
        RUNTIME_FILE: Path(runtime.__file__).read_bytes(),
    }
    manifest["files"] = {name: hashlib.sha256(files[name]).hexdigest() for name in sorted(files)}
    text = json.dumps(manifest, indent=2, sort_keys=True, allow_nan=False) + "\n"
    _replace_folder(folder, {**files, runtime.MANIFEST_FILE: text.encode()})
    return manifest


def _replace_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files beside `folder`, check them there as a bundle, then take its place."""
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    replaced = folder.with_name(f".{folder.name}.{os.getpid()}.replaced")
    partial.mkdir(parents=True)
    try:
        for name, content in files.items():
            (partial / name).write_bytes(content)
        good, report = runtime.check(partial)
        if not good:
            raise RuntimeError(f"the bundle does not reproduce its own answers: {report}")
        if folder.exists():
            folder.rename(replaced)  # a folder cannot be replaced in one step as a file can
        partial.rename(folder)
    finally:
        if replaced.exists() and not folder.exists():
            replaced.rename(folder)
        for rest in (partial, replaced):
            shutil.rmtree(rest, ignore_errors=True)
