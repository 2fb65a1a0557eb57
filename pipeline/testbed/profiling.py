"""What a batch costs on this machine: a short run before the load, and a straight line through it.

These are start values for what a policy expects; the calibrate stage fits the log itself.
"""

import time
from collections.abc import Sequence
from multiprocessing import connection as pipes
from typing import NamedTuple

import numpy as np

from pipeline.testbed.worker import Worker


class Profile(NamedTuple):
    """`L(b) = alpha_s + beta_s * b` of each request class, all replicas together."""

    alpha_s: tuple[float, ...]  # [C] s per batch, at least 0
    beta_s: tuple[float, ...]  # [C] s per request
    noise_cv: tuple[float, ...]  # [C] standard deviation of measured over fitted batch latency
    median_s: tuple[dict[int, float], ...]  # [C] batch size -> s


def fit_batch_latency(batch_size: np.ndarray, batch_latency_s: np.ndarray) -> tuple[float, float]:
    """`(alpha_s, beta_s)` of the least squares line with alpha_s at least 0; both arrays `[n]`.

    Where the free line starts below 0, the best allowed one goes through the origin.
    """
    design = np.stack([np.ones(len(batch_size)), batch_size], axis=1)
    alpha_s, beta_s = np.linalg.lstsq(design, batch_latency_s, rcond=None)[0]
    if alpha_s < 0:
        alpha_s, beta_s = 0.0, batch_size @ batch_latency_s / (batch_size @ batch_size)
    return float(alpha_s), float(beta_s)


def _round(workers: Sequence[Worker], request_class: int, batch_size: int) -> list[float]:
    """The batch latency [s] of one batch sent to every worker at once, as under load."""
    sent_s = []
    for worker in workers:
        sent_s.append(time.monotonic())
        worker.send(0, request_class, batch_size)
    numbers = {id(worker.connection): number for number, worker in enumerate(workers)}
    batch_latency_s = [0.0] * len(workers)
    while numbers:
        open_pipes = [worker.connection for worker in workers if id(worker.connection) in numbers]
        for pipe in pipes.wait(open_pipes):
            number = numbers.pop(id(pipe))
            workers[number].answer()
            batch_latency_s[number] = time.monotonic() - sent_s[number]
    return batch_latency_s


def profile_workers(
    workers: Sequence[Worker], classes: int, batch_sizes: Sequence[int], repeats: int = 12
) -> Profile:
    """The profile of warm workers, from `repeats` rounds of every class and batch size.

    Rounds of different sizes alternate, so that a slow second of the machine meets all of them.
    """
    measured_s = np.empty((repeats, classes, len(batch_sizes), len(workers)))
    for repeat in range(repeats):
        for request_class in range(classes):
            for column, batch_size in enumerate(batch_sizes):
                measured_s[repeat, request_class, column] = _round(
                    workers, request_class, batch_size
                )
    sizes = np.broadcast_to(
        np.asarray(batch_sizes, float)[:, None], (repeats, len(batch_sizes), len(workers))
    )
    lines, noise_cv, median_s = [], [], []
    for request_class in range(classes):
        seconds = measured_s[:, request_class]
        alpha_s, beta_s = fit_batch_latency(sizes.ravel(), seconds.ravel())
        lines.append((alpha_s, beta_s))
        noise_cv.append(float(np.std(seconds / (alpha_s + beta_s * sizes))))
        medians = np.median(seconds, axis=(0, 2))
        median_s.append(dict(zip(batch_sizes, medians.tolist(), strict=True)))
    alpha, beta = zip(*lines, strict=True)
    return Profile(alpha, beta, tuple(noise_cv), tuple(median_s))
