"""One random stream for each purpose, all from the one seed of the configuration."""

import zlib

import numpy as np


def stream(seed: int, *purpose: str) -> np.random.Generator:
    """The generator of a purpose, such as `stream(7, "train_online", "ppo")`.

    Streams of different purposes are independent; adding a purpose leaves the others as they are.
    """
    return np.random.default_rng(_entropy(seed, purpose))


def derived_seed(seed: int, *purpose: str) -> int:
    """A seed in 0 .. 2**32 - 1 for a purpose, for libraries that want a number."""
    return int(np.random.SeedSequence(_entropy(seed, purpose)).generate_state(1)[0])


def _entropy(seed: int, purpose: tuple[str, ...]) -> list[int]:
    # crc32, not hash(): the latter differs from process to process.
    return [seed, *(zlib.crc32(word.encode()) for word in purpose)]
