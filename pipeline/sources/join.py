"""Two logs of the same requests as one: a gateway's, and that of the engine behind it."""

import re
from typing import NamedTuple

import numpy as np
import polars as pl

from pipeline.sources.clock_offset import Offset, Pairs

UNMATCHED = "request_id: not in the gateway log"
OUTSIDE = "arrival_us: the engine's span is not within the gateway's"
# What of a request is told by one log only, the first that tells it at all: another log measures at
# another place, and names replicas in another way.
_FROM_GATEWAY = ("request_class", "replica", "size", "departure_us")
_FROM_ENGINE = ("dispatch_us", "first_token_us", "batch_id")
# What is the same wherever it is counted.
_TOKENS = ("prompt_tokens", "output_tokens")
_INSTANTS = ("arrival_us", "dispatch_us", "first_token_us", "departure_us")
_COLUMNS = ("request_id", "arrival_us", "status", *_FROM_GATEWAY, *_FROM_ENGINE, *_TOKENS)


class Match(NamedTuple):
    """The gateway's requests, each with what the engine says of it."""

    requests: pl.DataFrame  # the gateway's rows in their order; the engine's in columns engine_...
    strangers: pl.DataFrame  # rows of the engine that are of no request of the gateway
    engine_rows: int
    attempts: int  # rows of the engine that are of one

    @property
    def pairs(self) -> pl.DataFrame:
        """The requests that are in both logs."""
        return self.requests.filter(pl.col("engine_arrival_us").is_not_null())


def match(gateway: pl.DataFrame, engine: pl.DataFrame, engine_id: str | None = None) -> Match:
    """Both logs, as canonical `requests`, matched by request_id.

    `engine_id` is a pattern whose one group cuts the gateway's id out of the engine's. Of several
    rows of the engine for one request (retries) the last that succeeded is taken, or the last. Both
    logs are held in memory.
    """
    named = pl.col("request_id")
    if engine_id is not None:
        named = named.str.extract(engine_id)
    engine = engine.select(*_COLUMNS).with_columns(named.alias("match"))
    known = gateway.select(pl.col("request_id").alias("match")).drop_nulls()
    attempts = engine.join(known, on="match", how="semi")
    last = attempts.sort(pl.col("status") == "completed", "arrival_us", maintain_order=True)
    last = last.unique("match", keep="last", maintain_order=True)
    requests = gateway.select(*_COLUMNS).join(
        last.rename({name: f"engine_{name}" for name in _COLUMNS}),
        left_on="request_id",
        right_on="match",
        how="left",
        maintain_order="left",
    )
    strangers = engine.join(known, on="match", how="anti", maintain_order="left").drop("match")
    return Match(requests, strangers, len(engine), len(attempts))


def check_pattern(key: str, pattern: object) -> None:
    """Raises ValueError unless the pattern is a regular expression with one group."""
    try:
        groups = re.compile(str(pattern)).groups
        pl.Series([""]).str.extract(str(pattern))  # its syntax has no look-around
    except (re.error, pl.exceptions.ComputeError) as error:
        raise ValueError(f"{key} = {pattern!r}: not a pattern: {error}") from None
    if groups != 1:
        raise ValueError(f"{key} = {pattern!r}: must have one group, not {groups}")


def pairs_of(matched: Match) -> Pairs:
    """The times of the matched requests; departures where both logs say that it was completed.

    A gateway may give up on a request that the engine goes on with.
    """
    pairs = matched.pairs
    both = (pl.col("status") == "completed") & (pl.col("engine_status") == "completed")
    both &= pl.col("departure_us").is_not_null() & pl.col("engine_departure_us").is_not_null()
    columns = pairs.select(
        pl.col("arrival_us").cast(pl.Float64),
        pl.when(both).then(pl.col("departure_us")).cast(pl.Float64).fill_null(float("nan")),
        pl.col("engine_arrival_us").cast(pl.Float64),
        pl.when(both)
        .then(pl.col("engine_departure_us"))
        .cast(pl.Float64)
        .fill_null(float("nan"))
        .alias("engine_departure_us"),
    )
    return Pairs(*(column.to_numpy() for column in columns))


def joined_rows(matched: Match, offset: Offset) -> pl.DataFrame:
    """The rows of the joined source on the gateway's clock, each with its fault or null.

    Arrival, status and departure are the gateway's; dispatch, first token, batch and tokens the
    engine's. A request that the engine does not know keeps what the gateway says, without any time
    in the engine. Rows of the engine without a request come last, with a fault.
    """
    shifted = matched.requests.with_columns(
        _shifted(matched.requests[f"engine_{name}"], offset) for name in _INSTANTS
    )
    outside = (pl.col("engine_arrival_us") < pl.col("arrival_us")) | (
        (pl.col("status") == "completed")
        & (pl.col("engine_status") == "completed")
        & (pl.col("engine_departure_us") > pl.col("departure_us"))
    )
    rows = shifted.select(
        "request_id",
        "arrival_us",
        "status",
        *(_first_told(shifted, "", "engine_", name) for name in _FROM_GATEWAY),
        *(_first_told(shifted, "engine_", "", name) for name in _FROM_ENGINE),
        *(pl.coalesce(f"engine_{name}", name).alias(name) for name in _TOKENS),
        pl.when(outside).then(pl.lit(OUTSIDE)).alias("fault"),
    )
    strangers = matched.strangers.with_columns(pl.lit(UNMATCHED).alias("fault"))
    return pl.concat([rows, strangers.select(rows.columns)])


def _first_told(rows: pl.DataFrame, first: str, second: str, name: str) -> pl.Expr:
    """A column of the first log, or of the second where the first tells it of no request."""
    told = rows[f"{first}{name}"].null_count() < len(rows)
    return pl.col(f"{first if told else second}{name}").alias(name)


def _shifted(instants: pl.Series, offset: Offset) -> pl.Series:
    """Instants of the engine on the gateway's clock, whole us."""
    present = instants.fill_null(0).to_numpy().astype(float)
    whole = np.rint(offset.on_gateway_clock(present)).astype(np.int64)
    return pl.Series(instants.name, whole).zip_with(
        instants.is_not_null(), pl.Series([None], dtype=pl.Int64).new_from_index(0, len(whole))
    )
