"""How many there are of each class over time, stacked: queue lengths and requests in service."""

import numpy as np
import polars as pl

ROW_LEVELS, QUEUE_LEVELS = 625, 1250  # changes of a level that are drawn one by one
LEVEL = {
    "row": pl.Int64,
    "request_class": pl.Int64,
    "clock_s": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
}


def service_changes(service: pl.DataFrame) -> pl.DataFrame:
    """The changes of requests in service, by replica as `row`, from rows of `Timeline.service`."""
    amount = pl.col("high") - pl.col("low")
    starts = service.select(
        row="replica", request_class="request_class", clock_s="start_s", amount=amount
    )
    ends = service.select(
        row="replica", request_class="request_class", clock_s="end_s", amount=-amount
    )
    return pl.concat([starts, ends])


def changes_within(changes: pl.DataFrame, start_s: float, end_s: float) -> int:
    """The instants within the window at which something changes, in the row with most of them."""
    inside = (pl.col("clock_s") > start_s) & (pl.col("clock_s") < end_s)
    by_row = changes.filter(inside).group_by("row").agg(pl.col("clock_s").n_unique())
    return int(by_row["clock_s"].max() or 0)  # type: ignore[arg-type]


def most_in_service(service: pl.DataFrame) -> int:
    """The most requests that any replica had in service at once; 0 where nothing was served."""
    amounts = service_changes(service).group_by("row", "clock_s").agg(pl.col("amount").sum())
    level = amounts.sort("row", "clock_s").select(pl.col("amount").cum_sum().over("row"))
    return int(level["amount"].max() or 0)  # type: ignore[arg-type]


def stacked_levels(
    changes: pl.DataFrame, classes: int, start_s: float, end_s: float, most: int
) -> pl.DataFrame:
    """The level of each row and class in [start_s, end_s], classes stacked from `low` to `high`.

    `changes` has row, request_class, clock_s, amount; levels begin at 0. A level holds from its
    `clock_s` until the next one of its row. Where a row changes more than `most` times, the window
    is cut into `most` equal parts and each has its mean over time.
    """
    parts = [
        _levels_of_row(int(row), of_row, classes, start_s, end_s, most)
        for (row,), of_row in sorted(changes.group_by("row"), key=lambda item: item[0])
    ]
    return pl.concat(parts) if parts else pl.DataFrame(schema=LEVEL)


def _levels_of_row(
    row: int, changes: pl.DataFrame, classes: int, start_s: float, end_s: float, most: int
) -> pl.DataFrame:
    changes = changes.sort("clock_s", maintain_order=True)
    at_s = changes["clock_s"].to_numpy()
    inside = np.unique(at_s[(at_s > start_s) & (at_s < end_s)])
    exact = len(inside) <= most
    edge_s = np.concatenate([[start_s], inside, [end_s]])
    if not exact:
        edge_s = np.linspace(start_s, end_s, most + 1)
    level = np.zeros((classes, len(edge_s)))
    for number in range(classes):
        of_class = changes.filter(pl.col("request_class") == number)
        clock_s, amount = of_class["clock_s"].to_numpy(), of_class["amount"].to_numpy()
        level[number] = _value(clock_s, amount, edge_s) if exact else _mean(clock_s, amount, edge_s)
    high = np.cumsum(level, axis=0)
    return pl.DataFrame(
        {
            "row": np.full(high.size, row),
            "request_class": np.repeat(np.arange(classes), len(edge_s)),
            "clock_s": np.tile(edge_s, classes),
            "low": (high - level).ravel(),
            "high": high.ravel(),
        },
        LEVEL,
    )


def _value(clock_s: np.ndarray, amount: np.ndarray, edge_s: np.ndarray) -> np.ndarray:
    """The level right after each edge; at the last one, the level before it."""
    total = np.concatenate([[0], np.cumsum(amount)])
    level = total[np.searchsorted(clock_s, edge_s, side="right")]
    level[-1] = level[-2]
    return level


def _mean(clock_s: np.ndarray, amount: np.ndarray, edge_s: np.ndarray) -> np.ndarray:
    """The mean level from each edge to the next; the last one repeats the one before.

    The integral of the level up to t is `sum of amount * (t - clock)` over changes before t.
    """
    before = np.searchsorted(clock_s, edge_s, side="right")
    total = np.concatenate([[0], np.cumsum(amount)])[before]
    moment = np.concatenate([[0.0], np.cumsum(amount * clock_s)])[before]
    mean = np.diff(total * edge_s - moment) / np.diff(edge_s)
    # Rounding leaves some 1e-12 below 0 where nothing is there.
    return np.maximum(np.append(mean, mean[-1]), 0.0)
