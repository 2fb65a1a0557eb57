"""What an episode was like for its users: response and token times, throughput, shedding, SLOs."""

from typing import NamedTuple

import numpy as np

from simulator.environment import RequestRecords
from simulator.state import RequestStatus


class ClassMetrics(NamedTuple):
    """Metrics of one request class. Percentiles are over answered requests, NaN without any."""

    offered: int
    served: int
    shed: int
    in_system: int
    throughput_rps: float
    goodput_rps: float  # answered within the SLO
    shed_fraction: float
    slo_attainment: float  # answered within the SLO / arrived
    response_mean_s: float
    response_p50_s: float
    response_p95_s: float
    response_p99_s: float


class TokenMetrics(NamedTuple):
    """Token times of one request class. Percentiles are over answered requests, NaN without any.

    The time per output token (TPOT) is of the tokens after the first, so requests with one token
    have none.
    """

    ttft_p50_s: float
    ttft_p95_s: float
    ttft_p99_s: float
    tpot_p50_s: float
    tpot_p95_s: float
    tpot_p99_s: float


def response_percentiles_s(response_s: np.ndarray, percentiles: list[float]) -> np.ndarray:
    """Quantiles of response times by linear interpolation, NaN where there are none."""
    if len(response_s) == 0:
        return np.full(len(percentiles), np.nan)
    return np.percentile(response_s, percentiles)


def class_metrics(
    records: RequestRecords, request_class: int, slo_s: float, duration_s: float
) -> ClassMetrics:
    """Metrics of one class over `duration_s` seconds of simulated time, all lanes together.

    Raises RuntimeError unless offered = served + shed + in system.
    """
    of_class = records.request_class == request_class
    status = records.status[of_class]
    completed = status == RequestStatus.COMPLETED
    response_s = (records.departure_s - records.arrival_s)[of_class][completed]
    offered, served = len(status), int(completed.sum())
    shed = int((status == RequestStatus.SHED).sum())
    waiting = int(((status == RequestStatus.WAITING) | (status == RequestStatus.IN_SERVICE)).sum())
    if offered != served + shed + waiting:
        raise RuntimeError(f"{offered} offered, but {served} served + {shed} shed + {waiting} left")
    in_time = int((response_s <= slo_s).sum())
    p50_s, p95_s, p99_s = response_percentiles_s(response_s, [50, 95, 99])
    return ClassMetrics(
        offered=offered,
        served=served,
        shed=shed,
        in_system=waiting,
        throughput_rps=served / duration_s,
        goodput_rps=in_time / duration_s,
        shed_fraction=shed / offered if offered else 0.0,
        slo_attainment=in_time / offered if offered else 1.0,
        response_mean_s=float(response_s.mean()) if served else float("nan"),
        response_p50_s=float(p50_s),
        response_p95_s=float(p95_s),
        response_p99_s=float(p99_s),
    )


def token_metrics(records: RequestRecords, request_class: int) -> TokenMetrics:
    """Token times of one class under continuous batching, all lanes together.

    `ttft = first token - arrival` and `tpot = (departure - first token) / (output tokens - 1)`.
    """
    answered = records.status == RequestStatus.COMPLETED
    answered &= (records.request_class == request_class) & np.isfinite(records.first_token_s)
    several = answered & (records.output_tokens > 1)
    ttft_s = (records.first_token_s - records.arrival_s)[answered]
    decoding_s = (records.departure_s - records.first_token_s)[several]
    tpot_s = decoding_s / (records.output_tokens[several] - 1)
    percentiles = [50.0, 95.0, 99.0]
    columns = [response_percentiles_s(values, percentiles) for values in (ttft_s, tpot_s)]
    return TokenMetrics(*np.concatenate(columns).tolist())
