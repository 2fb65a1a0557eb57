"""Whole-batch service: all requests of a batch start and depart together."""

import math

from simulator.jit import kernel


@kernel
def batch_latency_s(alpha_s: float, beta_s: float, total_size: float) -> float:
    """Batch latency `L = alpha + beta * total size`, without noise (paper, section 3.1)."""
    return alpha_s + beta_s * total_size


@kernel
def noise_factor(sigma: float, z: float) -> float:
    """Lognormal factor `exp(sigma z - sigma^2 / 2)` of mean 1, from a standard normal z."""
    return math.exp(sigma * z - 0.5 * sigma * sigma)
