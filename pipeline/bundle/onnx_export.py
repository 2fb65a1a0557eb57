"""A policy network as an ONNX file: normalizer, mask, argmax and input check in the graph."""

import logging
import warnings
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import onnx
import torch
from torch import nn

from pipeline.agents.networks import PolicyNetwork
from pipeline.bundle.runtime import near_ties, open_session

OPSET = 18
INPUTS = ["features", "action_mask"]
OUTPUTS = ["scores", "action", "ok"]


class _ExportedPolicy(nn.Module):
    """`PolicyNetwork` with its decision, and whether the decision may be trusted."""

    def __init__(self, network: PolicyNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(
        self, features: torch.Tensor, action_mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Scores `[B, A]`, action `[B]` int64, ok `[B]`: features finite, an action legal.

        argmax over NaN answers 0 as if nothing were wrong. So a NaN or infinite feature is taken
        for its mean, which keeps scores finite, and told by `ok`.
        """
        finite = torch.isfinite(features)
        read = torch.where(finite, features, self.network.normalizer.mean)
        scores = self.network(read, action_mask)
        ok = finite.all(dim=1) & action_mask.any(dim=1)
        return scores, scores.argmax(dim=1), ok


def onnx_bytes(network: PolicyNetwork, metadata: Mapping[str, str]) -> bytes:
    """The file's content: same network and metadata, same bytes; no path of this machine.

    Inputs `features [batch, F]` float32 and `action_mask [batch, A]` bool, any batch from 1 on.
    `metadata` becomes the model's metadata_props.
    """
    examples = (torch.zeros(2, network.features), torch.ones(2, network.actions, dtype=torch.bool))
    batch = torch.export.Dim("batch", min=1)
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecations inside torch, of no use to our reader
            program = torch.onnx.export(
                _ExportedPolicy(network).eval(),
                examples,
                dynamo=True,
                opset_version=OPSET,
                input_names=INPUTS,
                output_names=OUTPUTS,
                dynamic_shapes=({0: batch}, {0: batch}),
                external_data=False,
                verbose=False,
            )
    finally:
        logger.setLevel(level)
    if program is None:
        raise RuntimeError("torch.onnx.export returned nothing")
    model = program.model_proto
    _strip(model)
    model.producer_name, model.producer_version = "batchwright", ""
    onnx.helper.set_model_props(model, dict(sorted(metadata.items())))
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString(deterministic=True))


def _strip(model: onnx.ModelProto) -> None:
    """Clear what the exporter adds to read in a debugger: stack traces with absolute paths."""
    graph = model.graph
    for part in (*graph.node, *graph.value_info, *graph.input, *graph.output, *graph.initializer):
        del part.metadata_props[:]
        part.doc_string = ""
    for whole in (graph, model, *model.functions):
        del whole.metadata_props[:]
        whole.doc_string = ""


class Parity(NamedTuple):
    """How the ONNX file compares with the network that it was made from."""

    observations: int
    equal_actions: int  # the others are ties within rounding
    largest_score_difference: float  # over legal actions


def check_parity(
    network: PolicyNetwork, content: bytes, features: np.ndarray, action_mask: np.ndarray
) -> Parity:
    """Compare both on features `[n, F]` (float32, finite) and masks `[n, A]`.

    Raises RuntimeError where one answer of the n is not ok, or is another action than the
    network's, ties within `runtime.SCORE_TOLERANCE` apart.
    """
    with torch.inference_mode():
        expected = network(torch.from_numpy(features), torch.from_numpy(action_mask)).numpy()
    session = open_session(content)
    scores, action, ok = session.run(OUTPUTS, {"features": features, "action_mask": action_mask})
    good = near_ties(expected, action_mask, action) & ok
    if not good.all():
        row = int(np.argmin(good))
        raise RuntimeError(
            f"{int((~good).sum())} of {len(good)} ONNX answers are not the network's; first in "
            f"row {row}: {action[row]} (ok {ok[row]}), not {expected[row].argmax()}"
        )
    return Parity(
        observations=len(action),
        equal_actions=int((action == expected.argmax(axis=1)).sum()),
        largest_score_difference=float(np.abs(scores - expected)[action_mask].max()),
    )
