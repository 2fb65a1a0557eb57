"""The constants of a scenario as arrays, which the kernels read."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from simulator.by_reference import by_reference

if TYPE_CHECKING:
    from simulator.replica import Replica
    from simulator.scenario import Scenario

DISPATCH, ROUTE, TUNE = 0, 1, 2  # decision kinds
NEVER, SUM, SLOWEST = 0, 1, 2  # mixed batches


@by_reference
class Parameters(NamedTuple):
    """The constants of a scenario, the same for every lane. K replicas, C request classes.

    L points of the longest latency table, M residuals of the longest list: shorter ones leave the
    rest unused.
    """

    # Whole batches
    alpha_s: np.ndarray  # [K, C] s per batch
    beta_s: np.ndarray  # [K, C] s per request of size 1
    noise_sigma: np.ndarray  # [K, C] sigma of the lognormal noise
    residual_count: np.ndarray  # [K, C] 0 where the noise is lognormal
    residual: np.ndarray  # [K, C, M] ascending
    table_count: np.ndarray  # [K, C] 0 where the line holds
    table_size: np.ndarray  # [K, C, L]
    table_latency_s: np.ndarray  # [K, C, L] s
    serves: np.ndarray  # [K, C] bool
    max_batch_size: np.ndarray  # [K]
    padded_size: np.ndarray  # [K, max batch size + 1] what a batch of that size counts as
    pads_to_largest: np.ndarray  # [K] bool
    memory_gib: np.ndarray  # [K]
    request_memory_gib: np.ndarray  # [K, C] for each unit of size
    # Continuous batching
    iteration_s: np.ndarray  # [K, 4] t0, t_prefill, t_decode, t_kv
    max_num_seqs: np.ndarray  # [K]
    kv_capacity: np.ndarray  # [K] tokens
    max_batched_tokens: np.ndarray  # [K]
    # Costs and targets
    idle_power_w: np.ndarray  # [K] W
    busy_power_w: np.ndarray  # [K] W
    price_per_s: np.ndarray  # [K] money
    energy_j: np.ndarray  # [K, C, 2] J per batch and per request of it
    slo_s: np.ndarray  # [C] s
    slo_ttft_s: np.ndarray  # [C] s
    slo_tpot_s: np.ndarray  # [C] s
    # The cluster
    queue_capacity: int
    kind: int  # DISPATCH, ROUTE or TUNE
    replica_queues: bool
    continuous: bool
    plain: bool  # every replica serves every class, by the line alone, without padding or memory
    completes_only: bool  # nothing else happens at a replica by itself
    metered: bool  # power or a price is above 0
    burns: bool  # a batch takes energy of its own
    may_shed: bool
    backlog: int
    mixed: int  # NEVER, SUM or SLOWEST
    round_robin: bool
    at_ticks: bool
    tick_s: float
    rate_window_s: float
    batch_timeout_s: float
    initial_replicas: int
    scales: bool  # the autoscaler of the engine is on
    target_in_system: float
    keep_warm_replicas: int
    scale_down_delay_s: float
    requeue: bool
    control_interval_s: float  # infinite where nothing is controlled
    view_refresh_s: float  # 0 where the view is live
    own_in_flight: bool


def build_parameters(scenario: "Scenario") -> Parameters:
    """The arrays of a scenario that has been checked."""
    replicas, classes = scenario.replicas, scenario.request_classes
    all_equal = all(all(replica.serves) for replica in replicas)
    return Parameters(
        **_service(scenario),
        **_token_models(replicas),
        **_scaling(scenario),
        idle_power_w=np.array([r.idle_power_w for r in replicas], float),
        busy_power_w=np.array([r.busy_power_w for r in replicas], float),
        price_per_s=np.array([r.price_per_hour / 3600.0 for r in replicas], float),
        energy_j=_energy_j(replicas, len(classes)),
        slo_s=np.array([c.slo_s for c in classes], float),
        slo_ttft_s=np.array([c.slo_ttft_s for c in classes], float),
        slo_tpot_s=np.array([c.slo_tpot_s for c in classes], float),
        queue_capacity=scenario.queue_capacity,
        kind={"dispatch": DISPATCH, "route": ROUTE, "tune": TUNE}[scenario.decision],
        replica_queues=scenario.queues == "replica",
        continuous=scenario.continuous,
        plain=all_equal and scenario.mixed == "never" and not any(map(_is_special, replicas)),
        completes_only=not (
            scenario.has_faults
            or scenario.may_start_replicas
            or scenario.dispatch_delay.exists
            or (scenario.queues == "replica" and not scenario.continuous)
        ),
        metered=any(r.idle_power_w + r.busy_power_w + r.price_per_hour > 0 for r in replicas),
        burns=any(any(r.energy_alpha_j) or any(r.energy_beta_j) for r in replicas),
        may_shed=scenario.may_shed,
        backlog=scenario.replica_backlog,
        mixed={"never": NEVER, "sum": SUM, "slowest": SLOWEST}[scenario.mixed],
        round_robin=scenario.routing == "round_robin",
        at_ticks=scenario.decision_epochs == "ticks" and scenario.decision == "dispatch",
        tick_s=scenario.tick_s,
        rate_window_s=scenario.rate_window_s,
        batch_timeout_s=scenario.batch_timeout_s,
        requeue=scenario.faults.requeue,
        view_refresh_s=float(scenario.view.refresh_s),
        own_in_flight=scenario.view.own_in_flight,
    )


def _energy_j(replicas: "Sequence[Replica]", classes: int) -> np.ndarray:
    """`[K, C, 2]` J per batch and per request, 0 where a replica says nothing."""
    nothing = (0.0,) * classes
    rows = [(r.energy_alpha_j or nothing, r.energy_beta_j or nothing) for r in replicas]
    return np.array(rows, float).transpose(0, 2, 1)


def _is_special(replica: "Replica") -> bool:
    """True where a batch takes something else than the line of its sizes."""
    return bool(
        replica.latency_table
        or replica.padded_batch_sizes
        or replica.pads_to_largest
        or any(replica.request_memory_gib)
    )


def _token_models(replicas: "Sequence[Replica]") -> dict[str, Any]:
    """The arrays of continuous batching, of length 0 without it."""
    tokens = [r.tokens for r in replicas if r.tokens is not None]
    rates = [(t.t0_s, t.t_prefill_s, t.t_decode_s, t.t_kv_s) for t in tokens]
    return {
        "iteration_s": np.array(rates, float).reshape(len(tokens), 4),
        "max_num_seqs": np.array([t.max_num_seqs for t in tokens], np.int64),
        "kv_capacity": np.array([t.kv_capacity_tokens for t in tokens], np.int64),
        "max_batched_tokens": np.array([t.max_batched_tokens for t in tokens], np.int64),
    }


def _scaling(scenario: "Scenario") -> dict[str, Any]:
    """The numbers of replicas that are on, and the rule that changes them."""
    scaler, initial = scenario.scaling.autoscaler, scenario.scaling.initial_replicas
    controlled = scaler is not None or scenario.decision == "tune"
    return {
        "initial_replicas": len(scenario.replicas) if initial is None else initial,
        "scales": scaler is not None,
        "target_in_system": 1.0 if scaler is None else float(scaler.target_in_system),
        "keep_warm_replicas": 0 if scaler is None else scaler.keep_warm_replicas,
        "scale_down_delay_s": 0.0 if scaler is None else float(scaler.scale_down_delay_s),
        "control_interval_s": scenario.control_interval_s if controlled else math.inf,
    }


def _service(scenario: "Scenario") -> dict[str, Any]:
    """The arrays that say how long a batch takes."""
    replicas, none = scenario.replicas, ((),) * len(scenario.request_classes)
    tables = [replica.latency_table or none for replica in replicas]
    residuals = [replica.residuals or none for replica in replicas]
    cv = np.array([r.noise_cv for r in replicas], float)
    all_classes = (True,) * len(none)
    return {
        "alpha_s": np.array([r.alpha_s for r in replicas], float),
        "beta_s": np.array([r.beta_s for r in replicas], float),
        "noise_sigma": np.sqrt(np.log1p(np.square(cv))),
        "residual_count": np.array([[len(f) for f in row] for row in residuals], np.int64),
        "residual": _padded([[sorted(factors) for factors in row] for row in residuals]),
        "table_count": np.array([[len(t) for t in row] for row in tables], np.int64),
        "table_size": _padded([[[size for size, _ in t] for t in row] for row in tables]),
        "table_latency_s": _padded([[[took for _, took in t] for t in row] for row in tables]),
        "serves": np.array([r.serves or all_classes for r in replicas], np.bool_),
        "max_batch_size": np.array([r.max_batch_size for r in replicas], np.int64),
        "padded_size": _padded_sizes(replicas),
        "pads_to_largest": np.array([r.pads_to_largest for r in replicas], np.bool_),
        "memory_gib": np.array([r.memory_gib for r in replicas], float),
        "request_memory_gib": np.array(
            [r.request_memory_gib or (0.0,) * len(none) for r in replicas], float
        ),
    }


def _padded(rows: Sequence[Sequence[Sequence[float]]]) -> np.ndarray:
    """`[K, C, length of the longest]` of ragged rows, the rest 0."""
    longest = max(len(values) for row in rows for values in row)
    padded = np.zeros((len(rows), len(rows[0]), longest))
    for replica, row in enumerate(rows):
        for request_class, values in enumerate(row):
            padded[replica, request_class, : len(values)] = values
    return padded


def _padded_sizes(replicas: "Sequence[Replica]") -> np.ndarray:
    """`[K, max batch size + 1]`: the size itself, or the next allowed one."""
    sizes = np.arange(max(r.max_batch_size for r in replicas) + 1)
    rows = []
    for replica in replicas:
        allowed = np.array(replica.padded_batch_sizes or sizes)
        place = np.minimum(np.searchsorted(allowed, sizes), len(allowed) - 1)
        rows.append(np.maximum(allowed[place], sizes))
    return np.array(rows, np.int64)
