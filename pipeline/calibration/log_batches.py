"""The batches of a log: recorded, rebuilt from its requests, or guessed from an idle system."""

from typing import NamedTuple

import numpy as np
import polars as pl

from pipeline.calibration.batch_reconstruction import FROM_INTERVALS, MEASURED, rebuild_batches
from pipeline.calibration.idle_service import in_flight

RECORDED = "recorded"  # the log has records of its batches
NAMED = "named by the requests"  # each request names its batch
IDLE = "requests that met an idle system"  # only times from end to end: batches of one
_US = 1e6
_COMPLETED = pl.col("status") == "completed"


class LoggedBatches(NamedTuple):
    """The batches of a log in the order of their dispatch."""

    replica: np.ndarray  # [n] -1 where the log does not say
    request_class: np.ndarray  # [n] -1 where it holds several
    total_size: np.ndarray  # [n] sum of the sizes of its requests
    dispatch_s: np.ndarray  # [n] s
    service_s: np.ndarray  # [n] s


def find_batches(
    key: str,
    requests: pl.DataFrame,
    batches: pl.DataFrame,
    arrays: dict[str, np.ndarray],
    names: list[str],
    replicas: list[str],
) -> tuple[LoggedBatches, np.ndarray, str]:
    """The batches, the batch `[R]` of each request (-1: none), and how they are known.

    Raises ValueError where a batch took no time, or nothing tells service from waiting.
    """
    dispatched = ~np.isnan(arrays["dispatch_s"]) & ~np.isnan(arrays["departure_s"])
    if not batches.is_empty() or requests["batch_id"].drop_nulls().len() > 0:
        return _stated(key, requests, batches, names, replicas)
    if dispatched.any():
        return _rebuilt(arrays)
    return _idle(key, arrays)


def _stated(
    key: str,
    requests: pl.DataFrame,
    batches: pl.DataFrame,
    names: list[str],
    replicas: list[str],
) -> tuple[LoggedBatches, np.ndarray, str]:
    """The batches that the log records, or those that its requests name."""
    by_batch = (
        requests.drop_nulls("batch_id")
        .group_by("batch_id")
        .agg(
            pl.col("size").fill_null(1.0).sum().alias("total_size"),
            pl.len().alias("members"),
            pl.col("request_class").first(),
            pl.col("replica").first(),
            pl.col("dispatch_us").filter(_COMPLETED).min(),
            pl.col("departure_us").filter(_COMPLETED).max(),
        )
    )
    if batches.is_empty():
        found, known = by_batch.drop_nulls(["dispatch_us", "departure_us"]), NAMED
    else:
        # Ingest may have rejected requests of a batch: they count as large as the others in it
        # on average, and 1 each where none is left.
        complete = pl.col("total_size") * pl.col("batch_size") / pl.col("members")
        found = batches.join(
            by_batch.select("batch_id", "total_size", "members"), on="batch_id", how="left"
        ).with_columns(complete.fill_null(pl.col("batch_size")).alias("total_size"))
        known = RECORDED
    found = found.sort("dispatch_us", "batch_id")
    _check_service(key, found)
    place = found.select("batch_id").with_row_index("place")
    of_request = requests.select("batch_id").join(place, "batch_id", "left", maintain_order="left")
    return (
        LoggedBatches(
            _numbers(found["replica"], replicas),
            _numbers(found["request_class"].fill_null(names[0]), names),
            found["total_size"].to_numpy(),
            found["dispatch_us"].to_numpy() / _US,
            (found["departure_us"] - found["dispatch_us"]).to_numpy() / _US,
        ),
        of_request["place"].cast(pl.Int64).fill_null(-1).to_numpy(),
        known,
    )


def _numbers(column: pl.Series, names: list[str]) -> np.ndarray:
    number = {name: place for place, name in enumerate(names)}
    return column.replace_strict(number, default=-1, return_dtype=pl.Int64).to_numpy()


def _check_service(key: str, found: pl.DataFrame) -> None:
    if found.is_empty():
        raise ValueError(f"{key}: no batch of the log has both dispatch_us and departure_us")
    instant = found.filter(pl.col("departure_us") <= pl.col("dispatch_us"))
    if not instant.is_empty():
        raise ValueError(
            f"{key}: departure_us = {instant['departure_us'][0]} of batch {instant['batch_id'][0]} "
            f"must be after its dispatch_us; {len(instant)} of {len(found)} batches took no time"
        )


def _rebuilt(arrays: dict[str, np.ndarray]) -> tuple[LoggedBatches, np.ndarray, str]:
    """Requests of a replica that were in service together are one batch."""
    found = rebuild_batches(
        arrays["replica"], arrays["request_class"], arrays["dispatch_s"], arrays["departure_s"]
    )
    service_s = found.departure_s - found.dispatch_s
    members = np.flatnonzero(found.batch >= 0)
    total_size = np.bincount(
        found.batch[members], weights=arrays["size"][members], minlength=len(found.batch_size)
    )
    took = service_s > 0  # a service shorter than the clock's step tells nothing
    place = np.append(np.where(took, np.cumsum(took) - 1, -1), -1)
    known = f"{FROM_INTERVALS}, {found.kind}" if found.method != MEASURED else found.method
    columns = (found.replica, found.request_class, total_size, found.dispatch_s, service_s)
    return LoggedBatches(*(column[took] for column in columns)), place[found.batch], known


def _idle(key: str, arrays: dict[str, np.ndarray]) -> tuple[LoggedBatches, np.ndarray, str]:
    """The responses of requests that met an idle replica: service of batches of one."""
    answered = ~np.isnan(arrays["departure_s"])
    named = bool((arrays["replica"][answered] >= 0).all())
    rows = np.flatnonzero(answered)
    busy = in_flight(
        arrays["arrival_s"][rows],
        arrays["departure_s"][rows],
        arrays["replica"][rows] if named else None,
    )
    rows = rows[(busy == 0) & (arrays["departure_s"][rows] > arrays["arrival_s"][rows])]
    if len(rows) == 0:
        raise ValueError(
            f"{key}: the log has times from end to end only, and no request met an idle system: "
            "service and waiting cannot be told apart; join it with the log of the engine"
        )
    batch = np.full(len(answered), -1)
    batch[rows] = np.arange(len(rows))
    service_s = arrays["departure_s"][rows] - arrays["arrival_s"][rows]
    names = ("replica", "request_class", "size", "arrival_s")
    replica, request_class, size, arrival_s = (arrays[name][rows] for name in names)
    return LoggedBatches(replica, request_class, size, arrival_s, service_s), batch, IDLE


def most_in_service(batches: LoggedBatches) -> int:
    """The most batches that were in service at once; at least 1."""
    departed = np.sort(batches.dispatch_s + batches.service_s)
    gone = np.searchsorted(departed, batches.dispatch_s, side="right")
    return int((np.arange(1, len(departed) + 1) - gone).max(initial=1))
