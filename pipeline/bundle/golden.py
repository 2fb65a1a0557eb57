"""The golden answers of a bundle: inputs and what the model answered when it was made."""

import numpy as np

from pipeline.agents.artifact import arrays_as_npz
from pipeline.bundle.onnx_export import OUTPUTS
from pipeline.bundle.runtime import open_session

LEAST_ROWS = 1_000


def golden_bytes(content: bytes, features: np.ndarray, action_mask: np.ndarray) -> bytes:
    """The .npz with `features`, `action_mask`, `scores`, `action` and `ok`, of the ONNX file.

    features: `[n, F]` float32; action_mask: `[n, A]` bool; n at least 1,000. Three rows are added
    that must not be ok: a NaN, an infinite feature, no legal action.
    """
    if len(features) < LEAST_ROWS or len(features) != len(action_mask):
        raise ValueError(
            f"golden: {len(features)} features and {len(action_mask)} masks: "
            f"needs as many of both, at least {LEAST_ROWS}"
        )
    spoiled, masks = features[:3].copy(), action_mask[:3].copy()
    spoiled[0, 0], spoiled[1, -1], masks[2] = np.nan, np.inf, False
    inputs = {
        "features": np.concatenate([features, spoiled]),
        "action_mask": np.concatenate([action_mask, masks]),
    }
    outputs = dict(zip(OUTPUTS, open_session(content).run(OUTPUTS, inputs), strict=True))
    if not outputs["ok"][:-3].all() or outputs["ok"][-3:].any():
        raise RuntimeError(
            "golden: `ok` must be True for the inputs and False for the spoiled three"
        )
    return arrays_as_npz({**inputs, **outputs})
