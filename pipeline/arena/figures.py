"""What users, operators and accountants would have seen of a policy in the test episodes."""

from typing import NamedTuple

import numpy as np

from pipeline.validation.evaluation import Outcome, Trial, metrics_by_class
from simulator.metrics import response_percentiles_s, token_metrics
from simulator.reward import reward_term_names
from simulator.state import RequestStatus

_NO_TIME = float("nan")


class Figures(NamedTuple):
    """All test episodes together. Percentiles are over answered requests, NaN without any.

    `..._per_hour` and `..._per_s` are totals by hour or second of arrivals: what is spent while the
    last answers drain counts, as in the cost, but that time does not. So replica-hours per hour are
    the replicas on, on average, but for the drain.
    """

    goodput_rps: float
    slo_attainment: float  # each class by its own SLO
    shed_fraction: float
    response_p50_s: float
    response_p95_s: float
    response_p99_s: float
    ttft_p95_s: float  # NaN unless continuous batching
    tpot_p95_s: float
    replica_hours_per_hour: float
    bill_per_hour: float
    energy_j_per_s: float
    total_replica_hours: float  # of all test episodes, as the two below
    total_bill: float
    total_energy_j: float
    decisions: int
    by_class: dict[str, dict[str, float]]  # `ClassMetrics`, and `TokenMetrics` where there are any
    reward_terms: dict[str, float]  # of an episode, on average


def figures_of(outcome: Outcome, trial: Trial) -> Figures:
    """The figures of an outcome."""
    records, scenario = outcome.records, trial.scenario
    by_class = metrics_by_class(records, trial)
    told = [metrics._asdict() for metrics in by_class]
    ttft_s = tpot_s = _NO_TIME
    if scenario.continuous:
        for number, metrics in enumerate(told):
            metrics.update(token_metrics(records, number)._asdict())
        one_class = records._replace(request_class=np.zeros_like(records.request_class))
        together = token_metrics(one_class, 0)
        ttft_s, tpot_s = together.ttft_p95_s, together.tpot_p95_s
    offered = sum(metrics.offered for metrics in by_class)
    in_time_rps = sum(metrics.goodput_rps for metrics in by_class)
    arrival_time_s = trial.horizon_s * len(trial.workloads)
    answered = records.status == RequestStatus.COMPLETED
    response_s = (records.departure_s - records.arrival_s)[answered]
    terms = dict(
        zip(
            reward_term_names(scenario.class_names),
            outcome.rollout.reward_terms.mean(axis=0).tolist(),
            strict=True,
        )
    )
    episodes = len(trial.workloads)
    p50_s, p95_s, p99_s = response_percentiles_s(response_s, [50.0, 95.0, 99.0]).tolist()
    return Figures(
        goodput_rps=in_time_rps,
        slo_attainment=in_time_rps * arrival_time_s / offered if offered else 1.0,
        shed_fraction=sum(metrics.shed for metrics in by_class) / offered if offered else 0.0,
        response_p50_s=p50_s,
        response_p95_s=p95_s,
        response_p99_s=p99_s,
        ttft_p95_s=ttft_s,
        tpot_p95_s=tpot_s,
        replica_hours_per_hour=terms["replica_seconds"] / trial.horizon_s,
        bill_per_hour=terms["bill"] / trial.horizon_s * 3600.0,
        energy_j_per_s=terms["energy_j"] / trial.horizon_s,
        total_replica_hours=terms["replica_seconds"] * episodes / 3600.0,
        total_bill=terms["bill"] * episodes,
        total_energy_j=terms["energy_j"] * episodes,
        decisions=int(outcome.rollout.decisions.sum()),
        by_class=dict(zip(scenario.class_names, told, strict=True)),
        reward_terms=terms,
    )
