"""A log of any source as arrays: what the calibration and the replay of the log read."""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from pipeline.calibration.log_batches import LoggedBatches, find_batches, most_in_service
from pipeline.calibration.log_system import duration_s, system_of_log
from pipeline.settings import CLASS_NAME
from simulator.checks import check
from simulator.workload import Arrivals

__all__ = [
    "LoggedBatches",
    "LoggedRequests",
    "LoggedRun",
    "read_cold_starts",
    "read_logged_run",
]

ONE_CLASS = "all"  # of a log that names no request class
_US = 1e6  # microseconds in a second
_COMPLETED = pl.col("status") == "completed"


class LoggedRequests(NamedTuple):
    """What came of each request of a log, in the order of arrival; NaN or -1: not known."""

    dispatch_s: np.ndarray  # [R] s
    first_token_s: np.ndarray  # [R] s
    departure_s: np.ndarray  # [R] s, of completed requests
    replica: np.ndarray  # [R]
    batch: np.ndarray  # [R] its place in the batches
    completed: np.ndarray  # [R] bool


class LoggedRun(NamedTuple):
    """A log: the system that ran, what arrived, and what came of it."""

    system: dict[str, Any]  # system.json, or what the log shows of it
    duration_s: float  # all arrivals are before it
    arrivals: Arrivals
    response_s: np.ndarray  # [R] s, NaN where shed, failed or unanswered
    batches: LoggedBatches
    requests: LoggedRequests | None = None
    batches_from: str = "recorded"  # how the batches are known; see log_batches
    assumed: tuple[str, ...] = ()  # what the system was taken to be, in sentences

    @property
    def continuous(self) -> bool:
        """True where the log tells of tokens: first tokens, and how many each request has.

        Where none has a second token, as of a model of embeddings, nothing decodes.
        """
        tokens = self.arrivals.output_tokens
        if self.requests is None or len(tokens) == 0 or tokens.max() < 2:
            return False
        return bool((~np.isnan(self.requests.first_token_s)).any())


def read_logged_run(tables: Path, source: str) -> LoggedRun:
    """The log called `source` from the canonical tables (Parquet) in the folder `tables`.

    Raises ValueError where the source is absent or lacks what calibration needs: departure times
    of completed requests.
    """
    sources = _of_source(tables, "sources", source)
    key = f"calibration.source = {source!r}"
    if sources.is_empty():
        held = ", ".join(sorted(file.stem for file in (tables / "sources").glob("*.parquet")))
        raise ValueError(
            f"{key}: must be an ingested source; data/tables holds {held or 'none'}. A stage that "
            "is run by hand reads data/ and writes below outputs/: `dvc repro` runs ingest for it"
        )
    requests = _of_source(tables, "requests", source)
    _check_times(key, requests)
    # A serving log states its whole system; other sources a few facts of it, or none.
    stated = {} if sources["system"][0] is None else json.loads(sources["system"][0])
    whole = "request_classes" in stated
    names = list(stated["request_classes"]) if whole else _class_names(key, requests)
    replicas = _replica_names(requests, _of_source(tables, "batches", source))
    arrays = _requests(requests, names, replicas)
    batches, batch, batches_from = find_batches(
        key, requests, _of_source(tables, "batches", source), arrays, names, replicas
    )
    assumed: tuple[str, ...] = ()
    system = stated
    if not whole:
        sizes = np.bincount(batch[batch >= 0])
        shown, assumed = system_of_log(names, replicas, arrays, sizes, batches_from)
        system = {**shown, **stated}
        if not replicas and "replicas" not in stated:
            most_at_once = most_in_service(batches)
            system["replicas"] = most_at_once
            assumed = (
                *assumed,
                f"{most_at_once} replicas: the log names none, and so many batches were in service "
                "at once (calibration.engine.replicas says otherwise)",
            )
    return LoggedRun(
        system,
        duration_s(system, requests),
        _arrivals(requests, names),
        _seconds(requests.select(_response_us()).to_series()),
        batches,
        LoggedRequests(
            arrays["dispatch_s"],
            arrays["first_token_s"],
            arrays["departure_s"],
            arrays["replica"],
            batch,
            requests.select(_COMPLETED).to_series().to_numpy(),
        ),
        batches_from,
        assumed,
    )


def read_cold_starts(tables: Path) -> tuple[float, ...]:
    """All measured cold starts in s, of whatever source; those of 0 are none."""
    files = sorted((tables / "cold_starts").glob("*.parquet"))
    if not files:
        return ()
    starts_us = pl.read_parquet(files, glob=False)["cold_start_us"]
    return tuple((starts_us.filter(starts_us > 0) / _US).to_list())


def _of_source(tables: Path, name: str, source: str) -> pl.DataFrame:
    file = tables / name / f"{source}.parquet"
    return pl.read_parquet(file) if file.is_file() else pl.DataFrame()


def _response_us() -> pl.Expr:
    """Null where shed, failed or unanswered: a failed request may have a departure, no answer."""
    return pl.when(_COMPLETED).then(pl.col("departure_us") - pl.col("arrival_us"))


def _check_times(key: str, requests: pl.DataFrame) -> None:
    """Raises ValueError where a time that calibration or its check needs was not logged."""
    if requests.is_empty():
        raise ValueError(f"{key}: the log holds no request")
    if requests.select(_response_us().is_null().all()).item():
        raise ValueError(f"{key}: needs departure_us in completed requests; the log has none")


def _class_names(key: str, requests: pl.DataFrame) -> list[str]:
    """The classes that the requests name, in order; one class where none is named."""
    found = requests["request_class"].unique().sort().to_list()
    if found == [None]:
        return [ONE_CLASS]
    check(None not in found, key, None, "some requests have a class and others none")
    bad = [name for name in found if CLASS_NAME.fullmatch(name) is None]
    rule = (
        "a class needs a name of letters, digits, - and _: map these in sources.<source>.classes, "
        f"{{{', '.join(f'{name}: ..' for name in bad)}}}"
    )
    check(not bad, f"{key}: request_class", ", ".join(bad), rule)
    return found


def _replica_names(requests: pl.DataFrame, batches: pl.DataFrame) -> list[str]:
    """The replicas that the log names, numbers in their order first."""
    found = set(requests["replica"].drop_nulls().unique())
    if not batches.is_empty():
        found |= set(batches["replica"].unique())
    return sorted(found, key=lambda name: (_parts(name), name))


def _parts(name: str) -> list[str | int]:
    """The name with its numbers as numbers: texts and numbers by turns, a text first."""
    parts = re.findall(r"[0-9]+|[^0-9]+", f"_{name}")
    return [int(part) if place % 2 else part for place, part in enumerate(parts)]


def _requests(
    requests: pl.DataFrame, names: list[str], replicas: list[str]
) -> dict[str, np.ndarray]:
    """The columns of the requests that calibration computes with, as arrays `[R]`."""
    number = {name: place for place, name in enumerate(replicas)}
    replica = requests["replica"].replace_strict(number, default=-1, return_dtype=pl.Int64)
    seconds = {
        f"{name}_s": _seconds(requests[f"{name}_us"])
        for name in ("arrival", "dispatch", "first_token")
    }
    departure_us = requests.select(pl.when(_COMPLETED).then(pl.col("departure_us"))).to_series()
    return {
        **seconds,
        "departure_s": _seconds(departure_us),
        "replica": replica.to_numpy(),
        "request_class": _class_numbers(requests, names),
        "size": requests["size"].fill_null(1.0).to_numpy(),
    }


def _seconds(column: pl.Series) -> np.ndarray:
    """Microseconds as seconds, NaN where null.

    NumPy divides: Polars multiplies by the inverse, and then an arrival and a dispatch of the same
    microsecond are not of the same second.
    """
    seconds: np.ndarray = column.cast(pl.Float64).fill_null(float("nan")).to_numpy() / _US
    return seconds


def _class_numbers(frame: pl.DataFrame, names: list[str]) -> np.ndarray:
    number = {name: place for place, name in enumerate(names)}
    classes = frame["request_class"].fill_null(names[0])
    return classes.replace_strict(number, return_dtype=pl.Int64).to_numpy()


def _arrivals(requests: pl.DataFrame, names: list[str]) -> Arrivals:
    """What arrived; with tokens where every completed request has some of both."""
    arrivals = Arrivals(
        _seconds(requests["arrival_us"]),
        _class_numbers(requests, names),
        requests["size"].fill_null(1.0).to_numpy(),
    )
    tokens = requests.select("prompt_tokens", "output_tokens")
    answered = tokens.filter(requests["status"] == "completed")
    if answered.is_empty() or answered.fill_null(0).min_horizontal().lt(1).any():
        return arrivals
    # A request that failed before its tokens were counted asked for one at least.
    return arrivals._replace(
        **{
            name: tokens[name].fill_null(1).clip(lower_bound=1).to_numpy()
            for name in tokens.columns
        }
    )
