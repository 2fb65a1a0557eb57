"""A serving log as arrays: what the calibration and the replay of the log read."""

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from simulator.workload import Arrivals

_US = 1e6  # microseconds in a second
_COMPLETED = pl.col("status") == "completed"


class LoggedBatches(NamedTuple):
    """The batches of a log in the order of their dispatch."""

    replica: np.ndarray  # [n] -1 where the log does not say
    request_class: np.ndarray  # [n]
    total_size: np.ndarray  # [n] sum of the sizes of its requests
    dispatch_s: np.ndarray  # [n] s
    service_s: np.ndarray  # [n] s


class LoggedRun(NamedTuple):
    """A serving log: the system that ran, what arrived, and what came of it."""

    system: dict[str, Any]  # system.json
    duration_s: float  # all arrivals are before it
    arrivals: Arrivals
    response_s: np.ndarray  # [R] s, NaN where shed, failed or unanswered
    batches: LoggedBatches


def read_logged_run(tables: Path, source: str) -> LoggedRun:
    """The log called `source` from the canonical tables (Parquet) in the folder `tables`.

    Raises ValueError where the source is absent, is no serving log, or lacks what calibration
    needs: `system`, dispatch and departure times.
    """
    sources = _of_source(tables, "sources", source)
    if sources.is_empty() or sources["system"][0] is None:
        raise ValueError(f"calibration.source = {source!r}: must be an ingested serving log")
    system = json.loads(sources["system"][0])
    requests = _of_source(tables, "requests", source)
    batches = _batches(_of_source(tables, "batches", source), requests)
    _check_times(source, requests, batches)
    names = list(system["request_classes"])
    return LoggedRun(
        system,
        _duration_s(system, requests, batches),
        Arrivals(
            requests["arrival_us"].to_numpy() / _US,
            _class_numbers(requests, names),
            requests.select(_size()).to_series().to_numpy(),
        ),
        requests.select(_response_us() / _US).to_series().fill_null(float("nan")).to_numpy(),
        LoggedBatches(
            batches["replica"].to_numpy(),
            _class_numbers(batches, names),
            batches["total_size"].to_numpy(),
            batches["dispatch_us"].to_numpy() / _US,
            (batches["departure_us"] - batches["dispatch_us"]).to_numpy() / _US,
        ),
    )


def _of_source(tables: Path, name: str, source: str) -> pl.DataFrame:
    return pl.read_parquet(tables / f"{name}.parquet").filter(pl.col("source") == source)


def _size() -> pl.Expr:
    """A request without a size has the fixed cost 1 of its class."""
    return pl.col("size").fill_null(1.0)


def _response_us() -> pl.Expr:
    """Null where shed, failed or unanswered: a failed request may have a departure, no answer."""
    return pl.when(_COMPLETED).then(pl.col("departure_us") - pl.col("arrival_us"))


def _batches(batches: pl.DataFrame, requests: pl.DataFrame) -> pl.DataFrame:
    """Batches with their total size; rebuilt from the requests where the log has no batches."""
    by_batch = (
        requests.drop_nulls("batch_id")
        .group_by("batch_id")
        .agg(
            _size().sum().alias("total_size"),
            pl.len().alias("members"),
            pl.col("request_class").first(),
            pl.col("dispatch_us").filter(_COMPLETED).min(),
            pl.col("departure_us").filter(_COMPLETED).max(),
        )
    )
    if batches.is_empty():
        found = by_batch.drop_nulls().with_columns(pl.lit(-1, pl.Int32).alias("replica"))
    else:
        found = batches.join(
            by_batch.select("batch_id", "total_size", "members"), on="batch_id", how="left"
        )
        # Ingest may have rejected requests of a batch: they count as large as the others in it
        # on average, and 1 each where none is left.
        complete = pl.col("total_size") * pl.col("batch_size") / pl.col("members")
        found = found.with_columns(complete.fill_null(pl.col("batch_size")).alias("total_size"))
    return found.sort("dispatch_us", "batch_id")


def _check_times(source: str, requests: pl.DataFrame, batches: pl.DataFrame) -> None:
    """Raises ValueError where a time that calibration or its check needs was not logged."""
    key = f"calibration.source = {source!r}"
    if requests.is_empty():
        raise ValueError(f"{key}: the log holds no request")
    if requests.select(_response_us().is_null().all()).item():
        raise ValueError(f"{key}: needs departure_us in completed requests; the log has none")
    if batches.is_empty():
        raise ValueError(
            f"{key}: needs dispatch_us, departure_us and batch_id in "
            "requests, or the records of batches; the log has neither"
        )
    instant = batches.filter(pl.col("departure_us") <= pl.col("dispatch_us"))
    if not instant.is_empty():
        raise ValueError(
            f"{key}: departure_us = {instant['departure_us'][0]} of batch {instant['batch_id'][0]} "
            f"must be after its dispatch_us; {len(instant)} of {len(batches)} batches took no time"
        )


def _duration_s(system: dict[str, Any], requests: pl.DataFrame, batches: pl.DataFrame) -> float:
    """The logged time: as system.json says, or up to the last record where it does not.

    It reaches past the last arrival in any case: a load generator that runs late sends its last
    requests after the end that was asked for.
    """
    told = system.get("duration_s")
    after_last_arrival_s = (requests["arrival_us"].to_numpy().max() + 1) / _US
    if told is None:
        told = batches["departure_us"].to_numpy().max() / _US
    elif not (isinstance(told, int | float) and math.isfinite(told) and told > 0):
        raise ValueError(
            f"system.json: duration_s = {told!r}: must be positive and finite, or null"
        )
    return float(max(told, after_last_arrival_s))


def _class_numbers(frame: pl.DataFrame, names: list[str]) -> np.ndarray:
    number = {name: position for position, name in enumerate(names)}
    return frame["request_class"].replace_strict(number, return_dtype=pl.Int64).to_numpy()
