"""What a batch takes on a replica: a line or a table, mixed classes, padding and noise."""

import math
from collections.abc import Sequence

import numpy as np

from simulator.reference.parts import Request
from simulator.replica import LatencyTable, Replica
from simulator.scenario import MixedBatches


def expected_latency_s(model: Replica, requests: Sequence[Request], mixed: MixedBatches) -> float:
    """Seconds that the batch takes without noise; its class is that of its first request."""
    classes = sorted({request.request_class for request in requests})
    if mixed == MixedBatches.SUM:
        overhead_s = max(model.alpha_s[request_class] for request_class in classes)
        work_s = 0.0
        for request, size in zip(requests, counted_sizes(model, requests), strict=True):
            work_s += model.beta_s[request.request_class] * size
        return overhead_s + padded(model, work_s, len(requests))
    total_size = padded(model, batch_size(model, requests), len(requests))
    if mixed == MixedBatches.SLOWEST:
        return max(latency_s(model, request_class, total_size) for request_class in classes)
    return latency_s(model, requests[0].request_class, total_size)


def counted_sizes(model: Replica, requests: Sequence[Request]) -> list[float]:
    """The size that each request counts with: its own, or the largest of the batch."""
    sizes = [request.size for request in requests]
    return [max(sizes)] * len(sizes) if model.pads_to_largest else sizes


def batch_size(model: Replica, requests: Sequence[Request]) -> float:
    """The size of all requests together."""
    sizes = counted_sizes(model, requests)
    if model.pads_to_largest:
        return len(sizes) * sizes[0]  # a product rounds otherwise than a sum
    total_size = 0.0
    for size in sizes:
        total_size += size
    return total_size


def padded(model: Replica, amount: float, count: int) -> float:
    """The amount that a batch of `count` has, as if it had the next allowed number of requests."""
    counts_as = next((size for size in model.padded_batch_sizes if size >= count), count)
    return amount if counts_as == count else amount * counts_as / count


def latency_s(model: Replica, request_class: int, total_size: float) -> float:
    """Seconds for a batch of the class, from its table if there is one, else from the line."""
    if model.latency_table:
        return interpolated_s(model.latency_table[request_class], total_size)
    return model.alpha_s[request_class] + model.beta_s[request_class] * total_size


def interpolated_s(table: LatencyTable, total_size: float) -> float:
    """Between the points by a line; constant before the first; never falling after the last."""
    if total_size <= table[0][0]:
        return table[0][1]
    place = next((n for n, (size, _) in enumerate(table) if size >= total_size), None)
    if place is None:
        last_size, last_s = table[-1]
        if len(table) == 1:
            return last_s
        size, before_s = table[-2]
        slope = (last_s - before_s) / (last_size - size)
        return last_s + max(0.0, slope) * (total_size - last_size)
    (low, low_s), (high, high_s) = table[place - 1], table[place]
    return low_s + (high_s - low_s) * ((total_size - low) / (high - low))


def noise_factor(model: Replica, request_class: int, noise_z: np.ndarray, first: int) -> float:
    """The luck of a batch: that of its first request, so that it does not hang on the policy.

    A measured residual, each as likely as the next, or a lognormal of mean 1.
    """
    residuals = sorted(model.residuals[request_class]) if model.residuals else []
    if residuals:
        share = 0.5 * math.erfc(-float(noise_z[first]) / math.sqrt(2.0))
        return residuals[min(int(share * len(residuals)), len(residuals) - 1)]
    sigma = math.sqrt(math.log1p(model.noise_cv[request_class] ** 2))
    if sigma > 0:
        return math.exp(sigma * float(noise_z[first]) - 0.5 * sigma * sigma)
    return 1.0
