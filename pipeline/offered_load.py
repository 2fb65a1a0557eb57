"""How much of what arrives a cluster could serve at best, before anything is simulated."""

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from simulator.checks import check
from simulator.replica import Replica, TokenModel
from simulator.scenario import DecisionKind, MixedBatches, Scenario
from simulator.workload import Arrivals


class MeanArrivals(NamedTuple):
    """What arrives, on average, of each request class."""

    arrival_rate_rps: np.ndarray  # [C]
    size: np.ndarray  # [C] 1.0 where none arrives
    prompt_tokens: np.ndarray  # [C] 1.0 where none arrives or requests have no tokens
    output_tokens: np.ndarray  # [C] likewise


def mean_arrivals(arrivals: Arrivals, classes: int, span_s: float) -> MeanArrivals:
    """The means of requests that arrived within `span_s` seconds."""
    check(span_s > 0, "span_s", span_s, "must be above 0")
    count = np.bincount(arrivals.request_class, minlength=classes)

    def mean(amounts: np.ndarray) -> np.ndarray:
        if len(amounts) == 0:
            return np.ones(classes)
        total = np.bincount(arrivals.request_class, amounts, minlength=classes)
        return np.where(count > 0, total / np.maximum(count, 1), 1.0)

    return MeanArrivals(
        count / span_s,
        mean(arrivals.size),
        mean(arrivals.prompt_tokens),
        mean(arrivals.output_tokens),
    )


def offered_load(scenario: Scenario, mean: MeanArrivals) -> float:
    """Arrival rate over capacity, all replicas on, at the largest batch sizes: 1 / s.

    s is the factor by which all arrival rates could grow before the queue does: the fluid limit

        max s  subject to  sum_k x[k, c] mu[k, c] >= s lambda[c],  sum_c x[k, c] <= 1,  x >= 0

    with x[k, c] the share of its time that replica k gives to class c, and mu its service rate
    there: the static planning problem of Harrison and Lopez, Heavy traffic resource pooling in
    parallel-server systems (1999). For equal replicas and one class it is
    `lambda (alpha + beta b) / (K b)`. Mixed batches hold the classes as they arrive, so that a
    replica has one rate. Above 1 no policy can drain the queue. Random faults lower the capacity
    by their share of time; scripted ones do not count. Where batches pad to their largest request,
    the mean size stands for the largest, so that the load is a lower bound.
    """
    rate_rps, classes = mean.arrival_rate_rps, len(scenario.request_classes)
    check(len(rate_rps) == classes, "arrival_rate_rps", rate_rps, f"needs {classes} rates")
    valid = bool(np.all(np.isfinite(rate_rps) & (rate_rps >= 0)))
    check(valid, "arrival_rate_rps", rate_rps, "must be finite and at least 0")
    if rate_rps.sum() == 0:
        return 0.0
    between_s, repair_s = scenario.faults.mean_time_between_s, scenario.faults.repair_s
    up = 1.0 if math.isinf(between_s) else between_s / (between_s + repair_s)
    if scenario.mixed != MixedBatches.NEVER:
        capacity_rps = sum(
            _mixed_rate_rps(scenario, replica, mean) for replica in scenario.replicas
        )
        return float(rate_rps.sum() / (capacity_rps * up))
    return 1.0 / (_largest_scale(service_rates_rps(scenario, mean), rate_rps) * up)


def service_rates_rps(scenario: Scenario, mean: MeanArrivals) -> np.ndarray:
    """`[K, C]` requests per second of each class alone, at the largest batch sizes; 0 where a
    replica does not serve it."""
    return np.array(
        [
            [_rate_rps(scenario, replica, number, mean) for number in range(len(mean.size))]
            for replica in scenario.replicas
        ]
    )


def _largest_scale(service_rate_rps: np.ndarray, arrival_rate_rps: np.ndarray) -> float:
    """The s of the linear program; its variables are x, row by row, then s."""
    # The solver's tolerances are absolute: rates are counted in units that make all of order 1.
    unit_rps, total_rps = service_rate_rps.max(), arrival_rate_rps.sum()
    service_rate_rps, arrival_rate_rps = service_rate_rps / unit_rps, arrival_rate_rps / total_rps
    replicas, classes = service_rate_rps.shape
    served = np.zeros((classes, replicas * classes + 1))
    for number in range(classes):
        served[number, number:-1:classes] = -service_rate_rps[:, number]
    served[:, -1] = arrival_rate_rps
    time = np.zeros((replicas, replicas * classes + 1))
    time[:, :-1] = np.repeat(np.eye(replicas), classes, axis=1)
    found = linprog(
        np.append(np.zeros(replicas * classes), -1.0),
        A_ub=np.vstack([served, time]),
        b_ub=np.append(np.zeros(classes), np.ones(replicas)),
    )
    if not found.success:
        raise RuntimeError(f"the capacity of the cluster was not found: {found.message}")
    return float(found.x[-1] * unit_rps / total_rps)


def _rate_rps(scenario: Scenario, replica: Replica, number: int, mean: MeanArrivals) -> float:
    if replica.serves and not replica.serves[number]:
        return 0.0
    if replica.tokens is not None:
        most = max(scenario.set_points.max_num_seqs, default=replica.tokens.max_num_seqs)
        prompt, output = float(mean.prompt_tokens[number]), float(mean.output_tokens[number])
        return 1.0 / _sequence_s(replica.tokens, most, prompt, output)
    size = float(mean.size[number])
    batch_size = _largest_batch(scenario, replica, _memory_gib(replica, number, size))
    total_size = size * _padded(replica, batch_size)
    return batch_size / (_latency_s(replica, number, total_size) * _noise_mean(replica, number))


def _mixed_rate_rps(scenario: Scenario, replica: Replica, mean: MeanArrivals) -> float:
    """Requests per second in full batches that hold the classes as they arrive."""
    share = mean.arrival_rate_rps / mean.arrival_rate_rps.sum()
    present = np.flatnonzero(share)
    each_gib = sum(share[c] * _memory_gib(replica, int(c), float(mean.size[c])) for c in present)
    batch_size = _largest_batch(scenario, replica, float(each_gib))
    padded = _padded(replica, batch_size)
    if scenario.mixed == MixedBatches.SUM:
        each_s = float((share * np.array(replica.beta_s) * mean.size).sum())
        batch_s = max(replica.alpha_s[c] for c in present) + padded * each_s
    else:
        total_size = padded * float((share * mean.size).sum())
        batch_s = max(_latency_s(replica, int(c), total_size) for c in present)
    noise = sum(share[c] * _noise_mean(replica, int(c)) for c in present)
    return batch_size / (batch_s * float(noise))


def _largest_batch(scenario: Scenario, replica: Replica, request_gib: float) -> int:
    """Requests in the largest batch that the decisions, the replica and its memory allow."""
    most = replica.max_batch_size
    if scenario.decision == DecisionKind.DISPATCH:
        most = max(size for size in scenario.batch_sizes if size <= most)
    elif scenario.set_points.max_batch_size:
        most = min(most, scenario.set_points.max_batch_size[-1])
    if request_gib > 0 and math.isfinite(replica.memory_gib):
        most = min(most, int(replica.memory_gib / request_gib))
    return max(most, 1)


def _memory_gib(replica: Replica, number: int, size: float) -> float:
    return replica.request_memory_gib[number] * size if replica.request_memory_gib else 0.0


def _padded(replica: Replica, batch_size: int) -> int:
    return next((size for size in replica.padded_batch_sizes if size >= batch_size), batch_size)


def _noise_mean(replica: Replica, number: int) -> float:
    factors = replica.residuals[number] if replica.residuals else ()
    return math.fsum(factors) / len(factors) if factors else 1.0


def _latency_s(replica: Replica, number: int, total_size: float) -> float:
    """Expected batch latency: the line, or the measured table continued along its last segment."""
    table = replica.latency_table[number] if replica.latency_table else ()
    if not table:
        return replica.alpha_s[number] + replica.beta_s[number] * total_size
    sizes, latencies_s = zip(*table, strict=True)
    if total_size <= sizes[-1] or len(table) == 1:
        return float(np.interp(total_size, sizes, latencies_s))
    slope = (latencies_s[-1] - latencies_s[-2]) / (sizes[-1] - sizes[-2])
    return float(latencies_s[-1] + max(slope, 0.0) * (total_size - sizes[-1]))


def _sequence_s(tokens: TokenModel, most: int, prompt: float, output: float) -> float:
    """Seconds of a replica that a sequence takes up among as many as fit, by its mean tokens.

    Its own: t_prefill for each prompt token; then output - 1 iterations, each t_decode and t_kv
    for every token of a context that grows by one. Of t0 its part: an iteration is shared by the
    n sequences that run, and holds at most max_batched_tokens. n is bounded by the KV capacity,
    of which a sequence holds prompt + output / 2 on average. An estimate: tokens vary, and what is
    preempted is computed twice, so that a cluster short of KV capacity serves some 10 % less.
    """
    decodes = output - 1.0
    context = decodes * prompt + decodes * output / 2.0
    own_s = tokens.t_prefill_s * prompt + tokens.t_decode_s * decodes + tokens.t_kv_s * context
    fitting = tokens.kv_capacity_tokens / (prompt + output / 2.0)
    running = max(1.0, min(most, tokens.max_num_seqs, fitting))
    iterations = max((1.0 + decodes) / running, (prompt + decodes) / tokens.max_batched_tokens)
    return own_s + tokens.t0_s * iterations
