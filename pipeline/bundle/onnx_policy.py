"""A bundle's ONNX file as a policy of the simulator, to prove that it earns what its agent did."""

from pathlib import Path

import numpy as np

from pipeline.bundle.runtime import MODEL_FILE, open_session, read_manifest
from simulator.observation import Encoder, Observation


class OnnxPolicy:
    """One-hot rows of the action that `policy.onnx` answers, many lanes at once; no fallback."""

    def __init__(self, folder: Path, encoder: Encoder) -> None:
        """Raises ValueError where the bundle was changed, or reads other features."""
        manifest = read_manifest(folder)
        names = [feature["name"] for feature in manifest["features"]]
        if names != [feature.name for feature in encoder.features]:
            raise ValueError(f"encoder {encoder.name!r}: its features are not the bundle's")
        self.name = f"{manifest['name']}.onnx"
        self.encoder = encoder
        self._session = open_session(folder / MODEL_FILE)

    def reset(self, lanes: int) -> None:
        """Nothing to forget: the network sees the current observation alone."""

    def action_probabilities(self, observation: Observation, action_mask: np.ndarray) -> np.ndarray:
        """`[B, A]` one-hot rows; RuntimeError where the model's `ok` is False."""
        inputs = {"features": self.encoder.encode(observation), "action_mask": action_mask}
        action, ok = self._session.run(["action", "ok"], inputs)
        if not ok.all():
            raise RuntimeError(f"{self.name}: not ok in lane {int(np.argmin(ok))}")
        probabilities = np.zeros(action_mask.shape)
        probabilities[np.arange(len(action)), action] = 1.0
        return probabilities
