"""The two models of the testbed: built in torch from a seed, exported to ONNX, kept in a cache.

Nobody cares what they answer: they are there to take time as real models do. Each compares the
requests of a batch with references that it encodes anew for every batch (the fixed overhead alpha)
as it encodes the requests (the marginal cost beta). The weights are few and stay in a core's cache:
models that stream big weight matrices from memory slow each other down, on two cores by half, and
the service model knows no such contention. Weights are random and never leave the cache folder.
"""

import hashlib
import os
import tempfile
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

CLASS_NAMES = ("fast", "slow")
IMAGE_SIDE = 32  # pixels
TOKENS = 64  # per request
TOKEN_KINDS = 1024


class ModelFiles(NamedTuple):
    """An exported model and the inputs that a worker feeds to it."""

    name: str
    kind: str
    parameters: int
    model: Path  # ONNX: `request [B, ...]` in, `answer [B]` out
    requests: Path  # NumPy array of `max_batch_size` ready-made requests


class ConvolutionalNetwork(nn.Module):
    """A small image matcher: each image against two reference images."""

    references: torch.Tensor

    def __init__(self, channels: int = 80, references: int = 2) -> None:
        super().__init__()
        self.register_buffer("references", torch.randn(references, 3, IMAGE_SIDE, IMAGE_SIDE))
        self.convolutions = nn.Sequential(
            nn.Conv2d(3, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, stride=2),
            nn.ReLU(),
        )

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """The best match `[B]` of images `[B, 3, side, side]`."""
        count = self.references.shape[0]
        code = self.convolutions(torch.cat([self.references, image])).mean((2, 3))
        return (code[count:] @ code[:count].T).amax(-1)


class EncoderLayer(nn.Module):
    """Self-attention and a two-layer network, each after a normalization and with a residual."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.dense_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix_in, self.mix_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dense = nn.Sequential(
            nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width)
        )

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """`[B, T, W]` to `[B, T, W]`."""
        width = hidden.shape[-1]
        head_width = width // self.heads
        mixed = self.mix_in(self.attention_norm(hidden))
        by_head = mixed.view(-1, TOKENS, 3, self.heads, head_width).permute(2, 0, 3, 1, 4)
        query, key, value = by_head.unbind(0)
        attention = torch.softmax(query @ key.transpose(-1, -2) / head_width**0.5, -1) @ value
        hidden = hidden + self.mix_out(attention.transpose(1, 2).reshape(-1, TOKENS, width))
        return hidden + self.dense(self.dense_norm(hidden))


class TransformerEncoder(nn.Module):
    """A small text matcher: each text against one reference. All layers share one layer's weights,
    as in ALBERT."""

    references: torch.Tensor

    def __init__(self, width: int = 256, depth: int = 12, references: int = 1) -> None:
        super().__init__()
        self.depth = depth
        self.register_buffer("references", torch.randint(0, TOKEN_KINDS, (references, TOKENS)))
        self.embedding = nn.Embedding(TOKEN_KINDS, width)
        self.position = nn.Parameter(0.1 * torch.randn(TOKENS, width))
        self.layer = EncoderLayer(width, 4)
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The best match `[B]` of tokens `[B, T]`."""
        count = self.references.shape[0]
        hidden = self.embedding(torch.cat([self.references, tokens])) + self.position
        for _ in range(self.depth):
            hidden = self.layer(hidden)
        code = self.norm(hidden).mean(1)
        return (code[count:] @ code[:count].T).amax(-1)


def cache_folder(seed: int) -> Path:
    """The folder of the models of exactly this source, torch version and seed."""
    digest = hashlib.sha256(f"{torch.__version__} {seed}".encode())
    digest.update(Path(__file__).read_bytes())
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "batchwright" / f"testbed-{digest.hexdigest()[:16]}"


def _export(network: nn.Module, requests: torch.Tensor, path: Path) -> None:
    # The exporter that traces takes a second, the one on torch.export ten, for the same graph;
    # the test suite builds both models from nothing.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            network.eval(),
            (requests[:2],),
            str(path),
            dynamo=False,
            external_data=False,
            input_names=["request"],
            output_names=["answer"],
            dynamic_axes={"request": {0: "batch"}, "answer": {0: "batch"}},
        )


def build_models(folder: Path, seed: int, max_batch_size: int = 16) -> tuple[ModelFiles, ...]:
    """The files of both models in the order of `CLASS_NAMES`, built unless the folder has them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        networks = (ConvolutionalNetwork(), TransformerEncoder())
        requests = (
            torch.randn(max_batch_size, 3, IMAGE_SIDE, IMAGE_SIDE),
            torch.randint(0, TOKEN_KINDS, (max_batch_size, TOKENS)),
        )
    kinds = ("convolutional network", "transformer encoder")
    folder.mkdir(parents=True, exist_ok=True)
    built = []
    for name, kind, network, ready in zip(CLASS_NAMES, kinds, networks, requests, strict=True):
        files = ModelFiles(
            name,
            kind,
            sum(weights.numel() for weights in network.parameters()),
            folder / f"{name}.onnx",
            folder / f"{name}-requests-{max_batch_size}.npy",
        )
        if not (files.model.exists() and files.requests.exists()):
            with tempfile.TemporaryDirectory(dir=folder) as beside:
                _export(network, ready, Path(beside) / "model.onnx")
                np.save(Path(beside) / "requests.npy", ready.numpy(), allow_pickle=False)
                os.replace(Path(beside) / "requests.npy", files.requests)
                os.replace(Path(beside) / "model.onnx", files.model)
        built.append(files)
    return tuple(built)
