"""Transitions on disk: Parquet files with the same bytes for the same rows, checked both ways."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from pipeline.files import write_atomically
from pipeline.transitions.checks import check_transitions
from pipeline.transitions.schema import CLOSING_ACTION, METADATA_KEY, TransitionSchema

_ROW_GROUP = 1 << 16  # rows; stated, because the default follows the chunks of the table


class Transitions(NamedTuple):
    """N transitions of E episodes as flat arrays, episode by episode, in order of the clock.

    Row i < N of `features` and `action_mask` is what transition i saw; rows N to N + E - 1 are
    the closing rows. So `features[next_row]` is what followed, across both.
    """

    schema: TransitionSchema
    features: np.ndarray  # [N + E, F] float32, natural units
    action_mask: np.ndarray  # [N + E, A] bool
    action: np.ndarray  # [N] int32
    propensity: np.ndarray  # [N] of the action, under the behavior policy
    reward_terms: np.ndarray  # [N, T]
    holding_s: np.ndarray  # [N] s
    terminated: np.ndarray  # [N] bool: no bootstrap
    truncated: np.ndarray  # [N] bool: bootstrap from the closing row
    next_row: np.ndarray  # [N] int64, row of the next observation
    episode: np.ndarray  # [N] int64, 0 to E - 1 over all files

    @property
    def size(self) -> int:
        """The number of transitions N."""
        return len(self.action)


def write_transitions(path: Path, table: pl.DataFrame, schema: TransitionSchema) -> None:
    """Write the table to the Parquet file `path`, whole or not at all; same rows, same bytes.

    Raises ValueError where a row breaks a rule (see `check_transitions`).
    """
    check_transitions(table, schema, path.name)
    content = io.BytesIO()
    table.rechunk().write_parquet(
        content,
        compression="zstd",
        compression_level=3,
        row_group_size=_ROW_GROUP,
        metadata={METADATA_KEY: schema.to_json()},
    )
    write_atomically(path, content.getvalue())


def read_transitions(paths: Sequence[Path]) -> Transitions:
    """The transitions of all files, one after the other.

    Raises ValueError naming file, row and field where a row breaks a rule, or naming the file
    whose schema differs from the first one's; FileNotFoundError where a file is absent.
    """
    if not paths:
        raise ValueError("paths = []: needs at least one transitions file")
    first_schema, tables = _read_schema(paths[0]), []
    for path in paths:
        schema = _read_schema(path)
        _check_same(schema, first_schema, path, paths[0])
        table = pl.read_parquet(path)
        check_transitions(table, schema, path.name)
        tables.append(table)
    return _flat_arrays(pl.concat(tables), first_schema)


def _read_schema(path: Path) -> TransitionSchema:
    try:
        metadata = pl.read_parquet_metadata(path)
    except pl.exceptions.ComputeError as error:
        raise ValueError(f"{path.name}: is not a Parquet file ({error})") from error
    if METADATA_KEY not in metadata:
        raise ValueError(f"{path.name}: metadata lacks the key {METADATA_KEY!r}")
    try:
        return TransitionSchema.from_json(metadata[METADATA_KEY])
    except ValueError as error:
        raise ValueError(f"{path.name}: metadata {METADATA_KEY!r} {error}") from error


def _check_same(
    schema: TransitionSchema, first_schema: TransitionSchema, path: Path, first_path: Path
) -> None:
    for field in ("encoder", "features", "actions", "reward_terms", "class_names"):
        if getattr(schema, field) != getattr(first_schema, field):
            raise ValueError(
                f"{path.name}: {field} = {getattr(schema, field)}: "
                f"must equal that of {first_path.name}, {getattr(first_schema, field)}"
            )


def _flat_arrays(table: pl.DataFrame, schema: TransitionSchema) -> Transitions:
    closing = table["action"].to_numpy() == CLOSING_ACTION
    decision = np.flatnonzero(~closing)
    order = np.concatenate([decision, np.flatnonzero(closing)])
    place = np.empty(len(order), np.int64)  # where a row of the table went
    place[order] = np.arange(len(order))
    decisions = table.drop("features", "action_mask").filter(~closing)
    return Transitions(
        schema=schema,
        features=table["features"].to_numpy()[order],
        action_mask=table["action_mask"].to_numpy()[order],
        action=decisions["action"].to_numpy(),
        propensity=decisions["propensity"].to_numpy(),
        reward_terms=decisions.select(schema.reward_terms).to_numpy(),
        holding_s=decisions["holding_s"].to_numpy(),
        terminated=decisions["terminated"].to_numpy(),
        truncated=decisions["truncated"].to_numpy(),
        next_row=place[decision + 1],
        episode=np.cumsum(closing)[decision],  # closing rows above it
    )
